package main

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
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

// endtoendOnServer has asynq beside where the handlers are few: with as many as two
// thousand, it keeps that many connections.
func (b *bench) endtoendOnServer(ctx context.Context) error {
	for _, slots := range []int{100, 2_000} {
		err := b.rates(ctx, contest{
			name: "endtoend", of: strconv.Itoa(slots),
			sides: b.beside(queues.RiverBusy, slots == 100), run: b.endtoend(slots),
		})
		if err != nil {
			return err
		}
	}
	return nil
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
		if stopped := stop(); err == nil {
			err = stopped
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
