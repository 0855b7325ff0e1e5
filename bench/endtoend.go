package main

import (
	"context"
	"sync/atomic"
	"time"
)

// slots is how many handlers run at once, on every side.
const slots = 100

// endtoend is how fast the worker gets rid of jobs that wait and do nothing, until
// the end of each is written.
func (b *bench) endtoend(ctx context.Context) error {
	sides := []side{
		{ours, openOurs}, {"backlite", openBacklite}, {"goqite", openGoqite}, {"river", openRiverPlain},
	}
	return b.bothModes(ctx, "endtoend", "jobs/s", sides, func(ctx context.Context, name string, q queue) (reading, error) {
		jobs := b.theirJobs
		if name == ours {
			jobs = b.ourJobs
		}
		return burnDown(ctx, q, jobs)
	})
}

func burnDown(ctx context.Context, q queue, jobs int) (r reading, err error) {
	for first := 0; first < jobs; first += batch {
		if err := q.addMany(ctx, orders(int64(first+1), min(batch, jobs-first))); err != nil {
			return reading{}, err
		}
	}
	var handled atomic.Int64
	all := make(chan struct{})
	w, err := start()
	if err != nil {
		return reading{}, err
	}
	stop, err := q.work(ctx, slots, func(order) {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
	})
	if err != nil {
		return reading{}, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	if err := drained(ctx, q); err != nil {
		return reading{}, err
	}
	return w.rate(int64(jobs))
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
