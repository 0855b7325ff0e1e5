package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// callers is how many goroutines enqueue at once in live.
const callers = 16

// live is how many jobs end in a second while callers enqueue as fast as they can, all
// in one process: on a database where many have ended before, and on a new one, whose
// server knows nothing yet about how its tables will look.
func (b *bench) live(ctx context.Context) error {
	for _, of := range []string{"warm", "empty"} {
		err := b.rates(ctx, contest{
			name: "live", of: of, sides: b.beside(queues.RiverLive, of == "warm"),
			run: func(ctx context.Context, t turn) (gauge.Reading, error) {
				if of == "empty" {
					return b.busy(ctx, t, 0, 0)
				}
				if err := b.ended(ctx, t); err != nil {
					return gauge.Reading{}, err
				}
				return b.busy(ctx, t, int64(b.finished), b.warm)
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ended leaves a database in which jobs have ended, after a while of quiet.
func (b *bench) ended(ctx context.Context, t turn) error {
	if _, err := b.burnDown(ctx, t, slots, b.finished); err != nil || t.ground != b.ground {
		return err
	}
	return b.server.Tidy(ctx, t.at)
}

// busy enqueues orders after the last one while a worker works, and answers how many
// ended in the time after the warm-up.
func (b *bench) busy(ctx context.Context, t turn, last int64, warm time.Duration) (r gauge.Reading, err error) {
	stop, err := t.Work(ctx, slots, func(queues.Order, any) {})
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	var number, added atomic.Int64
	number.Store(last)
	calls := make(chan error, 1)
	timer := time.NewTimer(warm)
	w, err := t.watch()
	if err != nil {
		return gauge.Reading{}, err
	}
	go func() {
		_, err := together(callers, warm+b.timed, func() error {
			err := t.Add(ctx, order(number.Add(1)))
			added.Add(1)
			return err
		})
		calls <- err
	}()
	defer func() {
		if called := <-calls; err == nil {
			err = called
		}
	}()
	before := int64(0)
	if warm > 0 {
		if err := wait(ctx, timer.C); err != nil {
			return gauge.Reading{}, err
		}
		if before, err = done(ctx, t, &added); err != nil {
			return gauge.Reading{}, err
		}
		if w, err = t.watch(); err != nil {
			return gauge.Reading{}, err
		}
	}
	timer.Reset(b.timed)
	if err := wait(ctx, timer.C); err != nil {
		return gauge.Reading{}, err
	}
	after, err := done(ctx, t, &added)
	if err != nil {
		return gauge.Reading{}, err
	}
	return w.Rate(after - before)
}

// done counts the jobs that have been added and whose end is written. Those that are
// being added are on their way, and count neither here nor there.
func done(ctx context.Context, t turn, added *atomic.Int64) (int64, error) {
	sum := added.Load()
	left, err := t.Left(ctx)
	return max(sum-int64(left), 0), err
}
