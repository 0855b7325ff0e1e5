package storagetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// lifeChecks are about the storage itself: its clock and the guard against a wrong
// one, migration, contexts, the end.
func lifeChecks() []check {
	return []check{
		{"the clock follows the given one", func(b *bench) {
			for _, d := range []time.Duration{0, time.Second, time.Hour} {
				b.pass(d)
				now, err := b.s.Clock(b.ctx)
				b.must(err, "Clock")
				b.equal("clock", b.now(), now)
			}
		}},
		{"a now that is off by more than a second is refused", wrongNow},
		{"a now that is off by less is taken", func(b *bench) {
			for _, off := range []time.Duration{-900 * time.Millisecond, 900 * time.Millisecond} {
				_, err := b.s.Enqueue(b.ctx, b.now().Add(off), []nexjob.NewJob{newJob("")})
				b.must(err, "Enqueue with a now off by "+off.String())
			}
		}},
		{"migrate again, and at once", migrateAgain},
		{"a context that has ended", endedContext},
		{"closed", closed},
		{"many storages do not meet", func(b *bench) {
			other := open(b.t, b.h)
			n := newJob("k")
			b.add(n)
			_, seen := other.look(n.ID)
			b.check(!seen, "a fresh storage shows the job of another")
			other.add(newJob("k"))
		}},
	}
}

// steps calls every method of the contract once, at a given time.
func steps(s nexjob.Storage, c nexjob.Claimed) map[string]func(ctx context.Context, now time.Time) error {
	one := nexjob.Query{IDs: []nexjob.ID{c.Job.ID}}
	return map[string]func(ctx context.Context, now time.Time) error{
		"Enqueue": func(ctx context.Context, now time.Time) error {
			_, err := s.Enqueue(ctx, now, []nexjob.NewJob{newJob("new")})
			return err
		},
		"Claim": func(ctx context.Context, now time.Time) error {
			_, err := s.Claim(ctx, now, claimAsk(1))
			return err
		},
		"Renew": func(ctx context.Context, now time.Time) error {
			_, err := s.Renew(ctx, now, now.Add(lease), []nexjob.Lease{c.Job.Lease()})
			return err
		},
		"Settle": func(ctx context.Context, now time.Time) error {
			_, err := s.Settle(ctx, now, []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}})
			return err
		},
		"Record": func(ctx context.Context, now time.Time) error {
			_, err := s.Record(ctx, now, []nexjob.Receipt{step(c, "s", "x")})
			return err
		},
		"Find": func(ctx context.Context, now time.Time) error {
			_, err := s.Find(ctx, now, one)
			return err
		},
		"Count": func(ctx context.Context, now time.Time) error {
			_, err := s.Count(ctx, now, one)
			return err
		},
		"Amend": func(ctx context.Context, now time.Time) error {
			_, err := s.Amend(ctx, now, one, nexjob.Action{Act: nexjob.ActCancel, By: someone, Reason: "test"}, 1)
			return err
		},
		"Put": func(ctx context.Context, now time.Time) error {
			_, err := s.Put(ctx, now, []nexjob.Put{{Entry: entry("a", "1")}})
			return err
		},
		"Entries": func(ctx context.Context, now time.Time) error {
			_, err := s.Entries(ctx, now, entryKind)
			return err
		},
	}
}

func wrongNow(b *bench) {
	c := b.run(newJob("k"))
	b.add(newJob("waiting"))
	for name, call := range steps(b.s, c) {
		for _, off := range []time.Duration{-1500 * time.Millisecond, 1500 * time.Millisecond, 24 * time.Hour} {
			b.unchanged(name+" with a wrong now", func() {
				b.is(call(b.ctx, b.now().Add(off)), nexjob.ErrClock, fmt.Sprintf("%s with a now off by %s", name, off))
			})
		}
	}
	b.equal("entries", 0, len(b.entries()))
}

// endedContext: a step under a context that has ended is refused, and nothing of
// it happens.
func endedContext(b *bench) {
	c := b.run(newJob("k"))
	b.add(newJob("waiting"))
	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, call := range steps(b.s, c) {
		b.unchanged(name+" under an ended context", func() {
			if err := call(ended, b.now()); !errors.Is(err, context.Canceled) {
				b.t.Errorf("%s under an ended context: error is %v, want context.Canceled", name, err)
			}
		})
	}
	b.finish(c, nexjob.EndSucceeded) // the storage goes on
}

func closed(b *bench) {
	c := b.run(newJob("k"))
	b.must(b.s.Close(), "Close")
	b.closed = true
	for name, call := range steps(b.s, c) {
		b.is(call(b.ctx, b.now()), nexjob.ErrClosed, name+" after Close")
	}
	_, err := b.s.Clock(b.ctx)
	b.is(err, nexjob.ErrClosed, "Clock after Close")
	b.must(b.s.Close(), "second Close")
}

func migrateAgain(b *bench) {
	b.add(newJob("k"))
	b.unchanged("migrating again", func() {
		b.must(b.s.Migrate(b.ctx), "Migrate")
		var wait sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wait.Go(func() { errs[i] = b.s.Migrate(b.ctx) })
		}
		wait.Wait()
		b.must(errors.Join(errs...), "Migrate at once")
	})
}
