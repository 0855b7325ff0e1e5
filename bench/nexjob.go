package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

var charge = nexjob.KindOf[order]("charge", nexjob.Defaults{})

// our is nexjob itself, as a program would use it: the client, the worker, and
// default options but for the slots. Every job has an idempotency key of its own, in
// every bench, though only River's unique jobs can say the same.
type our struct {
	store  *sqlite.Store
	client *nexjob.Client
	added  atomic.Int64
	worker *worker.Worker // nil until work
}

func openOurs(ctx context.Context, file string, mode sqlite.Synchronous) (queue, error) {
	q, err := openOur(ctx, file, mode)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func openOur(ctx context.Context, file string, mode sqlite.Synchronous) (*our, error) {
	store, err := sqlite.Open(ctx, file, sqlite.Options{Synchronous: mode})
	if err != nil {
		return nil, err
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	return &our{store: store, client: client}, nil
}

func keyed(o order) nexjob.NewJob {
	return charge.New(o, nexjob.Options{IdempotencyKey: "payment-" + strconv.FormatInt(o.Number, 10)})
}

func (q *our) add(ctx context.Context, o order) error {
	answer, err := q.client.Enqueue(ctx, keyed(o))
	return q.count(answer, err)
}

func (q *our) addMany(ctx context.Context, list []order) error {
	jobs := make([]nexjob.NewJob, len(list))
	for i, o := range list {
		jobs[i] = keyed(o)
	}
	answers, err := q.client.EnqueueMany(ctx, jobs)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if err := q.count(answer, answer.Err); err != nil {
			return err
		}
	}
	return nil
}

// count demands that a job was created: a benchmark of duplicates would flatter us.
func (q *our) count(answer nexjob.Answer, err error) error {
	if err == nil && answer.Outcome != nexjob.Created {
		err = fmt.Errorf("an enqueue answered %v", answer.Outcome)
	}
	if err == nil {
		q.added.Add(1)
	}
	return err
}

func (q *our) work(ctx context.Context, slots int, handle func(order)) (func() error, error) {
	q.worker = worker.New(q.store, worker.Options{Slots: slots, Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(q.worker, charge, func(_ context.Context, _ *worker.Run, o order) error {
		handle(o)
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- q.worker.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

// left asks the worker, which counts what is written, and in the end the storage.
func (q *our) left(ctx context.Context) (int, error) {
	if q.worker != nil {
		if left := q.added.Load() - q.worker.Health().Succeeded; left > 0 {
			return int(left), nil
		}
	}
	tallies, err := q.store.Count(ctx, time.Now(), nexjob.Query{States: []nexjob.State{
		nexjob.Enqueued, nexjob.Scheduled, nexjob.Processing, nexjob.Uncertain, nexjob.Failed,
	}})
	left := int64(0)
	for _, t := range tallies {
		left += t.Jobs
	}
	return int(left), err
}

func (q *our) close() error { return q.store.Close() }
