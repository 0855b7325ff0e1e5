package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// enqueue is single enqueues by so many callers, with no worker beside them.
func (b *bench) enqueue(callers int) func(context.Context, turn) (gauge.Reading, error) {
	return func(ctx context.Context, t turn) (gauge.Reading, error) {
		var last atomic.Int64 // number given to an order
		return b.calls(t, callers, func() error { return t.Add(ctx, order(last.Add(1))) })
	}
}

func order(number int64) queues.Order { return queues.Order{Number: number, Cents: 1999} }

// duplicate is enqueues whose keys are held by jobs that wait.
func (b *bench) duplicate(callers int) func(context.Context, turn) (gauge.Reading, error) {
	return func(ctx context.Context, t turn) (gauge.Reading, error) {
		q, ok := t.Queue.(queues.Keyed)
		if !ok {
			return gauge.Reading{}, errors.ErrUnsupported
		}
		if err := b.fill(ctx, q, 1, b.held); err != nil {
			return gauge.Reading{}, err
		}
		var calls atomic.Int64
		return b.calls(t, callers, func() error { return q.Again(ctx, order(calls.Add(1)%int64(b.held)+1)) })
	}
}

// calls is how often goroutines can call one, each again and again, after a warm-up.
func (b *bench) calls(t turn, callers int, one func() error) (gauge.Reading, error) {
	if _, err := together(callers, b.warm, one); err != nil {
		return gauge.Reading{}, err
	}
	w, err := t.watch()
	if err != nil {
		return gauge.Reading{}, err
	}
	done, err := together(callers, b.timed, one)
	if err != nil {
		return gauge.Reading{}, err
	}
	return w.Rate(done)
}

// together lets n goroutines call one again and again for a while, and counts: the
// requests of a web server, each of which waits for its answer.
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

// fill enqueues n orders in batches.
func (b *bench) fill(ctx context.Context, q queues.Queue, first int64, n int) error {
	for done := 0; done < n; done += b.batch {
		if err := q.AddMany(ctx, queues.Orders(first+int64(done), min(b.batch, n-done))); err != nil {
			return fmt.Errorf("filling: %w", err)
		}
	}
	return nil
}

// batches is batches by one caller.
func (b *bench) batches(ctx context.Context, t turn) (gauge.Reading, error) {
	next := int64(1)
	r, err := b.calls(t, 1, func() error {
		list := queues.Orders(next, b.batch)
		next += int64(b.batch)
		return t.AddMany(ctx, list)
	})
	n := float64(b.batch)
	return gauge.Reading{Value: r.Value * n, CPU: r.CPU / n, Server: r.Server / n}, err
}

// batchesOnFiles has the peer raw beside, which is no queue: it writes the same rows
// into nexjob's own tables and tells what the rules about keys cost.
func (b *bench) batchesOnFiles(ctx context.Context) error {
	our := queues.Side{Name: queues.Ours, Open: queues.OpenSQLite}
	sides := b.with([]queues.Side{
		our,
		{Name: "raw", Open: queues.OpenRaw},
		{Name: "backlite", Open: queues.OpenBacklite},
		{Name: river, Open: queues.OpenRiverFileUnique},
	})
	if err := b.bothModes(ctx, contest{name: "batch1000", sides: sides, run: b.batches}); err != nil {
		return err
	}
	single := []queues.Side{our, {Name: "raw, row by row", Open: queues.OpenRawSingle}}
	return b.rates(ctx, contest{name: "info-batch1000-rows", sides: single, run: b.batches})
}
