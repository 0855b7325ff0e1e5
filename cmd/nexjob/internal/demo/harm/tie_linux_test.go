package harm

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// lead is a process that freezes its worker, says so, and waits to be killed.
func lead() {
	c := NewCrew(os.TempDir(), func(string, ...any) {}, func(ctx context.Context, _ string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "DEMO_TEST_WORKER=works")
		return cmd
	})
	go func() { _ = c.Run(context.Background(), 1) }()
	for {
		if pid, frozen := c.Freeze("worker-1.1"); frozen {
			fmt.Println(pid)
			select {}
		}
	}
}

// TestAFrozenWorkerDiesWithTheDemo: it cannot hear that its standard input ended.
func TestAFrozenWorkerDiesWithTheDemo(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "DEMO_TEST_WORKER=leads", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	waitFor(t, "the end of process "+pid, func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
