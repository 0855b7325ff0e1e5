package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
)

// slots is how many handlers run at once, on every side.
const slots = 100

// endtoend is how fast the worker gets rid of jobs that wait and do nothing, until
// the end of each is written.
func (b *bench) endtoend(ctx context.Context) error {
	sides := b.with([]side{
		{ours, openOurs}, {"backlite", openBacklite}, {"goqite", openGoqite}, {"river", openRiverPlain},
	})
	return b.bothModes(ctx, "endtoend", "jobs/s", sides, func(ctx context.Context, name string, q queue) (gauge.Reading, error) {
		jobs := b.theirJobs
		if name == ours {
			jobs = b.ourJobs
		}
		return b.burnDown(ctx, q, jobs)
	})
}

func (b *bench) burnDown(ctx context.Context, q queue, jobs int) (r gauge.Reading, err error) {
	for first := 0; first < jobs; first += b.batch {
		if err := q.addMany(ctx, orders(int64(first+1), min(b.batch, jobs-first))); err != nil {
			return gauge.Reading{}, err
		}
	}
	var handled atomic.Int64
	all := make(chan struct{})
	w, err := gauge.Start()
	if err != nil {
		return gauge.Reading{}, err
	}
	stop, err := q.work(ctx, slots, func(order) {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
	})
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return gauge.Reading{}, ctx.Err()
	}
	if err := drained(ctx, q); err != nil {
		return gauge.Reading{}, err
	}
	return w.Rate(int64(jobs))
}

// drained waits until the last ends are written. No side tells when, so it asks.
func drained(ctx context.Context, q queue) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := q.left(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
