package ground

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestGroupCPU burns CPU in a child of this process, while it lives and after its end.
func TestGroupCPU(t *testing.T) {
	used := func() time.Duration {
		t.Helper()
		sum, err := groupCPU(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := used()
	ctx, cancel := context.WithCancel(t.Context())
	child := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	const much = 100 * time.Millisecond
	for used() < before+much {
		if t.Context().Err() != nil {
			t.Fatal("the child's CPU is not counted while it lives")
		}
	}
	alive := used()
	cancel()
	if err := child.Wait(); err == nil {
		t.Error("the child ended by itself")
	}
	if after := used(); after < alive {
		t.Errorf("%v of CPU after the child's end, %v before", after, alive)
	}
}
