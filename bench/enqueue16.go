package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/sqlite"
)

// callers is how many goroutines enqueue at once, each one job at a time and the
// next when it is answered: the requests of a web server.
const callers = 16

// enqueue16 is single enqueues by sixteen callers, with no worker beside them.
func (b *bench) enqueue16(ctx context.Context) error {
	sides := b.with([]side{
		{ours, openOurs}, {"backlite", openBacklite}, {"goqite", openGoqite}, {"river", openRiverUnique},
	})
	return b.bothModes(ctx, "enqueue16", "jobs/s", sides, func(ctx context.Context, _ string, q queue) (gauge.Reading, error) {
		var last atomic.Int64 // number given to an order
		one := func() error { return q.add(ctx, order{Number: last.Add(1), Cents: 1999}) }
		if _, err := together(callers, b.warm, one); err != nil {
			return gauge.Reading{}, err
		}
		w, err := gauge.Start()
		if err != nil {
			return gauge.Reading{}, err
		}
		done, err := together(callers, b.timed, one)
		if err != nil {
			return gauge.Reading{}, err
		}
		return w.Rate(done)
	})
}

// bothModes measures rates with durable commits, which is the line that counts, and
// again at NORMAL for information.
func (b *bench) bothModes(
	ctx context.Context, name, unit string, sides []side,
	run func(context.Context, string, queue) (gauge.Reading, error),
) error {
	for _, mode := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		if err := b.inMode(ctx, name+suffix(mode), unit, mode, sides, run); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) inMode(
	ctx context.Context, name, unit string, mode sqlite.Synchronous, sides []side,
	run func(context.Context, string, queue) (gauge.Reading, error),
) error {
	all, err := b.alternate(ctx, name, b.rounds, mode, sides, run)
	if err != nil {
		return err
	}
	return b.compare(name, unit, all, names(sides[1:]))
}

func suffix(mode sqlite.Synchronous) string {
	if mode == sqlite.Normal {
		return "-normal"
	}
	return ""
}

func names(sides []side) []string {
	list := make([]string, len(sides))
	for i, s := range sides {
		list[i] = s.name
	}
	return list
}

// together lets n goroutines call one again and again for a while, and counts.
func together(n int, during time.Duration, one func() error) (int64, error) {
	var group sync.WaitGroup
	var calls atomic.Int64
	errs := make([]error, n)
	end := time.Now().Add(during)
	for i := range n {
		group.Go(func() {
			for errs[i] == nil && time.Now().Before(end) {
				errs[i] = one()
				calls.Add(1)
			}
		})
	}
	group.Wait()
	return calls.Load(), errors.Join(errs...)
}
