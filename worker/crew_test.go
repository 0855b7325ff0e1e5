package worker

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestCrewKeepsItsGoroutines: who is idle gets the next handler, no more stay than are
// kept, and all go when the worker ends.
func TestCrewKeepsItsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		c := newCrew()
		ran := 0
		idle := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := c.idle.Load(); n != want {
				t.Errorf("after %d handlers %d goroutines are idle, want %d", ran, n, want)
			}
		}
		for range 3 {
			c.run(ctx, 2, func() { ran++ })
			idle(1)
		}
		open := make(chan struct{})
		for range 5 {
			c.run(ctx, 2, func() { <-open })
		}
		idle(0)
		close(open)
		idle(2)
		c.run(ctx, 2, runtime.Goexit)
		idle(1)
		c.run(ctx, 2, func() { ran++ })
		idle(1)
		if ran != 4 {
			t.Errorf("%d of 4 handlers ran", ran)
		}
		end()
	})
}

// TestCrowd: a crowd is waited for until it has gone, or for a moment; a few handlers are
// none, and those of an older one are not counted.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c crowd
		waits := func(want time.Duration) {
			t.Helper()
			before := time.Now()
			c.await()
			if took := time.Since(before); took != want {
				t.Errorf("it was waited for %s, want %s", took, want)
			}
		}
		handlers := func(n int) []*attempt {
			list := make([]*attempt, n)
			for i := range list {
				list[i] = new(attempt)
			}
			c.gather(list)
			return list
		}
		leave := func(list []*attempt) {
			for _, a := range list {
				c.left(a)
			}
		}
		waits(0)
		few := handlers(crowdFrom - 1)
		waits(0)
		leave(few)

		older, newer := handlers(crowdFrom), handlers(crowdFrom)
		leave(older)
		leave(newer[1:])
		go func() {
			time.Sleep(crowdFor / 4)
			c.left(newer[0])
		}()
		waits(crowdFor / 4)
		waits(0)

		stays := handlers(crowdFrom)
		waits(crowdFor)
		waits(0)
		leave(stays)
	})
}
