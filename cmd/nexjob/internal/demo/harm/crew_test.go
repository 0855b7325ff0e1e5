package harm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets this test binary stand in for a worker process.
func TestMain(m *testing.M) {
	switch os.Getenv("DEMO_TEST_WORKER") {
	case "":
		os.Exit(m.Run())
	case "works":
		fmt.Fprintln(os.Stderr, "working")
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "leads":
		lead()
	case "fails":
		fmt.Fprintln(os.Stderr, "the storage is on fire")
		os.Exit(3)
	}
}

// crewOf returns a crew of this test binary, and what its progress said.
func crewOf(t *testing.T, how string) (*Crew, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(&said, format+"\n", args...)
	}
	return NewCrew(t.TempDir(), say, func(ctx context.Context, name string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "DEMO_TEST_WORKER="+how)
		return cmd
	}), &said
}

// waitFor asks until the condition holds, or the test has failed.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestKilledWorkersAreStartedAgain(t *testing.T) {
	c, said := crewOf(t, "works")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = c.Run(ctx, 2) })
	alive := func(name string) func() bool {
		return func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.alive[name] != nil
		}
	}
	waitFor(t, "two workers", func() bool { return alive("worker-1.1")() && alive("worker-2.1")() })
	pid, killed := c.Kill("worker-1.1")
	if !killed || pid <= 0 {
		t.Errorf("kill answered %d, %t", pid, killed)
	}
	if alive("worker-1.1")() {
		t.Error("the killed process is still known as alive")
	}
	if _, killed := c.Kill("worker-1.1"); killed {
		t.Error("a dead worker was killed again")
	}
	waitFor(t, "its successor", alive("worker-1.2"))
	if !alive("worker-2.1")() {
		t.Error("the other worker was not left alone")
	}
	stop()
	running.Wait()
	if err != nil {
		t.Errorf("a stop in order was answered %v", err)
	}
	if started, killed := c.Counts(); started != 3 || killed != 1 {
		t.Errorf("%d started and %d killed, want 3 and 1", started, killed)
	}
	if text := said.String(); strings.Count(text, "started worker-") != 3 {
		t.Errorf("progress said:\n%s", text)
	}
}

func TestAWorkerThatEndsByItselfEndsTheRun(t *testing.T) {
	c, _ := crewOf(t, "fails")
	err := c.Run(t.Context(), 2)
	if err == nil || !strings.Contains(err.Error(), "ended by itself: exit status 3") ||
		!strings.Contains(err.Error(), "the storage is on fire") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramThatCannotBeStarted(t *testing.T) {
	c, _ := crewOf(t, "works")
	c.command = func(ctx context.Context, _ string) *exec.Cmd {
		return exec.CommandContext(ctx, t.TempDir()+"/none")
	}
	if err := c.Run(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "start worker-1.1") {
		t.Errorf("got %v", err)
	}
}
