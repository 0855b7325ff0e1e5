package nexjob_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
)

// clockwork is a storage of which only the clock works.
type clockwork struct {
	nexjob.Storage // nil: nothing else is called
	reads          atomic.Int64
	ahead          atomic.Int64 // of the host's clock, in nanoseconds
	slow           time.Duration
	err            error
}

func (c *clockwork) Clock(context.Context) (time.Time, error) {
	c.reads.Add(1)
	time.Sleep(c.slow / 2)
	now := time.Now().Add(time.Duration(c.ahead.Load()))
	time.Sleep(c.slow / 2)
	return now, c.err
}

func TestStorageTimeReckons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{slow: time.Second}
		c.ahead.Store(int64(time.Hour))
		s := nexjob.NewStorageTime(c)
		for range 10 {
			now, err := s.Now(t.Context())
			if off := time.Until(now); err != nil || off != time.Hour {
				t.Errorf("the storage's time is off by %v, %v; want an hour", off, err)
			}
			time.Sleep(900 * time.Millisecond)
		}
		if n := c.reads.Load(); n != 1 {
			t.Errorf("the clock was read %d times within 10 s", n)
		}
		time.Sleep(2 * time.Second)
		c.ahead.Store(int64(2 * time.Hour))
		now, err := s.Now(t.Context())
		if off := time.Until(now); err != nil || off != 2*time.Hour || c.reads.Load() != 2 {
			t.Errorf("after 10 s: off by %v, %v, %d reads", off, err, c.reads.Load())
		}
	})
}

// When a reading gets old one caller reads; the others need not wait for it.
func TestStorageTimeIsReadByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{}
		s := nexjob.NewStorageTime(c)
		if _, err := s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		c.slow = 5 * time.Second
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if now, err := s.Now(t.Context()); err != nil || !now.Equal(time.Now()) {
					t.Errorf("%v, %v", now, err)
				}
			})
		}
		group.Wait()
		if n := c.reads.Load(); n != 2 {
			t.Errorf("the clock was read %d times, want 2", n)
		}
	})
}

func TestStorageTimeReadsAgainWhenTheStorageRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &clockwork{}
		s := nexjob.NewStorageTime(c)
		steps := 0
		step := func(now time.Time) error {
			steps++
			if off := time.Until(now); off != time.Duration(c.ahead.Load()) {
				return fmt.Errorf("engine: %w by %v", nexjob.ErrClock, off)
			}
			return nil
		}
		if err := s.Do(t.Context(), step); err != nil || steps != 1 {
			t.Errorf("%d steps, %v", steps, err)
		}
		c.ahead.Store(int64(-time.Hour))
		if err := s.Do(t.Context(), step); err != nil || steps != 3 || c.reads.Load() != 2 {
			t.Errorf("after a jump: %d steps, %d reads, %v", steps, c.reads.Load(), err)
		}
		refused := func(time.Time) error { steps++; return nexjob.ErrClock }
		if err := s.Do(t.Context(), refused); !errors.Is(err, nexjob.ErrClock) || steps != 5 {
			t.Errorf("a storage that refuses every time: %d steps, %v", steps, err)
		}
		other := errors.New("disk full")
		if err := s.Do(t.Context(), func(time.Time) error { steps++; return other }); !errors.Is(err, other) || steps != 6 {
			t.Errorf("another error: %d steps, %v", steps, err)
		}
	})
}

func TestStorageTimeWithoutAClock(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection refused")
	c := &clockwork{err: gone}
	s := nexjob.NewStorageTime(c)
	if err := s.Do(t.Context(), func(time.Time) error { t.Error("the step was made"); return nil }); !errors.Is(err, gone) {
		t.Error(err)
	}
	c.err = nil
	if err := s.Do(t.Context(), func(time.Time) error { return nil }); err != nil {
		t.Errorf("the clock is back: %v", err)
	}
}
