package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// late is how long after its time a job starts that is due later. The times lie evenly
// over the next seconds, none on a whole millisecond.
//
// A program enqueues at any moment, and so the rounds begin at different times after the
// start of the worker: River has a clock of five seconds, and its jobs are late that are
// enqueued and due between two of its ticks.
func (b *bench) late(ctx context.Context) error {
	c := contest{name: "late", rounds: b.rounds, sides: b.beside(queues.RiverPunctual, false)}
	rounds := make(map[string]int)
	run := func(ctx context.Context, t turn) ([]time.Duration, gauge.Reading, error) {
		age := b.horizon / 2 * time.Duration(2*rounds[t.name]+1) / time.Duration(2*b.rounds)
		rounds[t.name]++
		return b.appointments(ctx, t, age)
	}
	return b.waits(ctx, c, []string{"p99", "p95"}, run)
}

// appointments enqueues jobs that are due later when the worker has run for a while.
func (b *bench) appointments(
	ctx context.Context, t turn, age time.Duration,
) (waits []time.Duration, r gauge.Reading, err error) {
	q, ok := t.Queue.(queues.Timed)
	if !ok {
		return nil, r, errors.ErrUnsupported
	}
	entered := make([]time.Time, b.later)
	var count atomic.Int64
	primed, all := make(chan struct{}), make(chan struct{})
	stop, err := q.Work(ctx, slots, func(o queues.Order, _ any) {
		if o.Number == int64(b.later) {
			close(primed)
			return
		}
		entered[o.Number] = time.Now()
		if count.Add(1) == int64(b.later) {
			close(all)
		}
	})
	if err != nil {
		return nil, r, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	// The worker is up when it has worked.
	if err := q.Add(ctx, order(int64(b.later))); err != nil {
		return nil, r, err
	}
	if err := wait(ctx, primed); err != nil {
		return nil, r, err
	}
	if err := wait(ctx, time.NewTimer(age).C); err != nil {
		return nil, r, err
	}
	w, err := t.watch()
	if err != nil {
		return nil, r, err
	}
	first := time.Now().Truncate(time.Millisecond).Add(b.horizon/10 + 317*time.Microsecond)
	due := make([]time.Time, b.later)
	for i := range due {
		due[i] = first.Add(b.horizon * 9 / 10 * time.Duration(i) / time.Duration(b.later))
	}
	list := queues.Orders(0, b.later)
	for from := 0; from < len(list); from += b.batch {
		to := min(from+b.batch, len(list))
		if err := q.AddAt(ctx, list[from:to], due[from:to]); err != nil {
			return nil, r, err
		}
	}
	if err := wait(ctx, all); err != nil {
		return nil, r, err
	}
	r, err = w.Rate(int64(b.later))
	for i := range entered {
		waits = append(waits, max(entered[i].Sub(due[i]), time.Microsecond))
	}
	return waits, r, err
}
