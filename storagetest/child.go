package storagetest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

// Child starts the running test binary once more, with env added to its
// environment, and returns the storage that its TestMain serves there with Serve.
// The test's end closes the pipe and waits for the process. It is what an engine's
// Harness.Second returns to have two actors in two processes.
func Child(t testing.TB, clock func() time.Time, env ...string) nexjob.Storage {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("storagetest: child: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := exec.CommandContext(ctx, self) //nolint:gosec // the test binary itself
	command.Env = append(os.Environ(), env...)
	command.Stderr = t.Output()
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatalf("storagetest: child: %v", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatalf("storagetest: child: %v", err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("storagetest: child: %v", err)
	}
	s := Remote(in, out, clock)
	t.Cleanup(func() {
		_ = s.Close() // the process ends with its pipe
		grace := time.AfterFunc(10*time.Second, cancel)
		if err := command.Wait(); err != nil {
			t.Errorf("storagetest: the other process: %v", err)
		}
		grace.Stop()
		cancel()
	})
	return s
}
