//go:build unix

package harm

import (
	"context"
	"sync"
	"testing"
)

// TestAFrozenWorkerIsSpared: a kill would take the freeze's proof away.
func TestAFrozenWorkerIsSpared(t *testing.T) {
	c, _ := crewOf(t, "works")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var err error
	running.Go(func() { err = c.Run(ctx, 1) })
	waitFor(t, "the worker", func() bool { return len(c.Alive()) == 1 })
	pid, frozen := c.Freeze("worker-1.1")
	if !frozen || pid <= 0 || len(c.Alive()) != 0 {
		t.Errorf("freeze answered %d, %t, and alive to be killed are %v", pid, frozen, c.Alive())
	}
	if _, killed := c.Kill("worker-1.1"); killed {
		t.Error("a spared worker was killed")
	}
	c.Thaw("worker-1.1")
	c.Spare("worker-1.1", false)
	if _, killed := c.Kill("worker-1.1"); !killed {
		t.Error("it is spared for ever")
	}
	if _, frozen := c.Freeze("worker-1.1"); frozen {
		t.Error("a dead worker was frozen")
	}
	stop()
	running.Wait()
	if err != nil {
		t.Error(err)
	}
}
