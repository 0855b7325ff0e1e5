package worker

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

// TestCrewKeepsItsGoroutines: who is idle gets the next handler, no more stay than are
// kept, and all go when the worker ends.
func TestCrewKeepsItsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		c := newCrew()
		c.keep(2)
		ran := 0
		idle := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n := c.idle.Load(); n != want {
				t.Errorf("after %d handlers %d goroutines are idle, want %d", ran, n, want)
			}
		}
		for range 3 {
			c.run(ctx, func() { ran++ })
			idle(1)
		}
		open := make(chan struct{})
		for range 5 {
			c.run(ctx, func() { <-open })
		}
		idle(0)
		close(open)
		idle(2)
		c.run(ctx, runtime.Goexit)
		idle(1)
		c.run(ctx, func() { ran++ })
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

// TestFewerSlotsKeepFewer: with fewer slots, goroutines that are too many go, whether
// their handlers have returned already or are about to.
func TestFewerSlotsKeepFewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		w := New(store, Options{Slots: 20, Logger: slog.New(slog.DiscardHandler)})
		kind := nexjob.KindOf[struct{}]("k", nexjob.Defaults{})
		open := make(chan struct{})
		Handle(w, kind, func(context.Context, *Run, struct{}) error {
			<-open
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- w.Run(ctx) }()
		jobs := make([]nexjob.NewJob, 20)
		for i := range jobs {
			jobs[i] = kind.New(struct{}{}, nexjob.Options{})
		}
		if _, err := nexjob.NewClient(store, nexjob.ClientOptions{}).EnqueueMany(ctx, jobs); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, slots := range []int{10, 2} { // while all are busy, and while they are idle
			w.SetSlots(slots)
			if slots == 10 {
				close(open)
			}
			synctest.Wait()
			if n := w.crew.idle.Load(); n != int64(slots) {
				t.Errorf("with %d slots %d goroutines are idle", slots, n)
			}
		}
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
