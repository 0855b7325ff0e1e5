package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

const (
	slots     = 100 // handlers at once
	manySlots = 2_000
)

// endtoend is how fast the worker gets rid of jobs that wait and do nothing, until
// the end of each is written.
func (b *bench) endtoend(slots int) func(context.Context, turn) (gauge.Reading, error) {
	return func(ctx context.Context, t turn) (gauge.Reading, error) {
		jobs := b.theirJobs
		if t.name == queues.Ours {
			jobs = b.ourJobs
		}
		return b.burnDown(ctx, t, slots, jobs)
	}
}

// endtoendOnServer has asynq beside where the slots are few.
func (b *bench) endtoendOnServer(ctx context.Context) error {
	err := b.rates(ctx, contest{
		name: "endtoend", of: strconv.Itoa(slots), sides: b.beside(queues.RiverBusy, true), run: b.endtoend(slots),
	})
	if err != nil {
		return err
	}
	return b.rates(ctx, contest{
		name: "endtoend", of: strconv.Itoa(manySlots), sides: b.beside(queues.RiverWide, false), run: b.endtoend(manySlots),
	})
}

func (b *bench) burnDown(ctx context.Context, t turn, slots, jobs int) (r gauge.Reading, err error) {
	if err := b.fill(ctx, t, 1, jobs); err != nil {
		return gauge.Reading{}, err
	}
	var handled atomic.Int64
	all := make(chan struct{})
	w, err := t.watch()
	if err != nil {
		return gauge.Reading{}, err
	}
	stop, err := t.Work(ctx, slots, func(queues.Order, any) {
		if handled.Add(1) == int64(jobs) {
			close(all)
		}
	})
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() {
		err = errors.Join(err, stop())
		if left, wrong := t.Left(ctx); err == nil && (wrong != nil || left != 0) {
			err = errors.Join(wrong, fmt.Errorf("%d jobs have no end, though the worker was done", left))
		}
	}()
	if err := wait(ctx, all); err != nil {
		return gauge.Reading{}, err
	}
	if err := drained(ctx, t); err != nil {
		return gauge.Reading{}, err
	}
	return w.Rate(int64(jobs))
}
