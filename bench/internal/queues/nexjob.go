package queues

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

var charge = nexjob.KindOf[Order]("charge", nexjob.Defaults{})

// Nexjob is nexjob itself, as a program would use it: the client, the worker, and
// default options but for the slots. Every job has an idempotency key of its own, in
// every bench, though of the peers only River's unique jobs and the task IDs of asynq
// can say the same.
type Nexjob struct {
	nexjob.Storage
	client *nexjob.Client
	added  atomic.Int64
	before int64          // jobs ended by workers that have stopped
	worker *worker.Worker // nil until Work
}

var (
	_ Keyed   = (*Nexjob)(nil)
	_ Timed   = (*Nexjob)(nil)
	_ Witness = (*Nexjob)(nil)
)

// OpenSQLite opens nexjob on a file.
func OpenSQLite(ctx context.Context, at Place) (Queue, error) {
	store, err := sqlite.Open(ctx, at.At, sqlite.Options{Synchronous: at.Mode})
	if err != nil {
		return nil, err
	}
	return newNexjob(store), nil
}

// OpenPostgres opens nexjob on an empty database.
func OpenPostgres(ctx context.Context, at Place) (Queue, error) {
	store, err := postgres.Open(ctx, at.At, postgres.Options{Migrate: true})
	if err != nil {
		return nil, err
	}
	return newNexjob(store), nil
}

func newNexjob(store nexjob.Storage) *Nexjob {
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	return &Nexjob{Storage: store, client: client}
}

func keyed(o Order) nexjob.NewJob {
	return keyedAt(o, time.Time{})
}

func keyedAt(o Order, due time.Time) nexjob.NewJob {
	return charge.New(o, nexjob.Options{
		IdempotencyKey: "payment-" + strconv.FormatInt(o.Number, 10), DueAt: due,
	})
}

// Add enqueues one job.
func (q *Nexjob) Add(ctx context.Context, o Order) error {
	answer, err := q.client.Enqueue(ctx, keyed(o))
	return q.count(answer, err)
}

// AddMany enqueues a batch.
func (q *Nexjob) AddMany(ctx context.Context, list []Order) error {
	return q.AddAt(ctx, list, make([]time.Time, len(list)))
}

// AddAt enqueues a batch of jobs that are due later.
func (q *Nexjob) AddAt(ctx context.Context, list []Order, due []time.Time) error {
	jobs := make([]nexjob.NewJob, len(list))
	for i, o := range list {
		jobs[i] = keyedAt(o, due[i])
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

// Again enqueues a job whose key is held.
func (q *Nexjob) Again(ctx context.Context, o Order) error {
	answer, err := q.client.Enqueue(ctx, keyed(o))
	if err == nil && answer.Outcome != nexjob.Existing {
		err = fmt.Errorf("an enqueue under a held key answered %v", answer.Outcome)
	}
	return err
}

// count demands that a job was created: a benchmark of duplicates would flatter us.
func (q *Nexjob) count(answer nexjob.Answer, err error) error {
	if err == nil && answer.Outcome != nexjob.Created {
		err = fmt.Errorf("an enqueue answered %v", answer.Outcome)
	}
	if err == nil {
		q.added.Add(1)
	}
	return err
}

// Work starts a worker with default options.
func (q *Nexjob) Work(ctx context.Context, slots int, handle Handler) (func() error, error) {
	q.worker = worker.New(q.Storage, worker.Options{Slots: slots, Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(q.worker, charge, func(_ context.Context, run *worker.Run, o Order) error {
		handle(o, run.JobID())
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- q.worker.Run(ctx) }()
	return func() error {
		cancel()
		err := <-ended
		q.before += q.worker.Health().Succeeded
		q.worker = nil
		return err
	}, nil
}

// Left asks the worker, which counts what is written, or the storage if there is none.
func (q *Nexjob) Left(ctx context.Context) (int, error) {
	if q.worker != nil {
		return int(q.added.Load() - q.before - q.worker.Health().Succeeded), nil
	}
	tallies, err := q.Count(ctx, time.Now(), nexjob.Query{States: []nexjob.State{
		nexjob.Enqueued, nexjob.Scheduled, nexjob.Processing, nexjob.Uncertain, nexjob.Failed,
	}})
	left := int64(0)
	for _, t := range tallies {
		left += t.Jobs
	}
	return int(left), err
}

// Succeeded reads the job by its ID.
func (q *Nexjob) Succeeded(ctx context.Context, id any) (bool, error) {
	job, ok := id.(nexjob.ID)
	if !ok {
		return false, fmt.Errorf("%v is no ID", id)
	}
	page, err := q.Find(ctx, time.Now(), nexjob.Query{IDs: []nexjob.ID{job}, Limit: 1})
	return err == nil && len(page.Jobs) == 1 && page.Jobs[0].State == nexjob.Succeeded, err
}

// Checkpoint moves what was written out of the log of a file.
func (q *Nexjob) Checkpoint(ctx context.Context) error {
	store, ok := q.Storage.(*sqlite.Store)
	if !ok {
		return nil
	}
	_, err := store.DB().ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}

// Take claims jobs at the storage, so many at a time, and settles them, until n are
// done. No worker is beside it.
func (q *Nexjob) Take(ctx context.Context, n, grip int) error {
	for done := 0; done < n; {
		claimed, err := q.Claim(ctx, time.Now(), nexjob.ClaimRequest{
			Worker: "bench", N: min(grip, n-done), Lease: time.Minute,
			Queues: []string{nexjob.DefaultQueue}, Kinds: []string{charge.Name()},
		})
		if err != nil {
			return err
		}
		if len(claimed) == 0 {
			return errors.New("nothing to claim")
		}
		ends := make([]nexjob.Settlement, len(claimed))
		for i := range claimed {
			ends[i] = nexjob.Settlement{Lease: claimed[i].Job.Lease(), As: nexjob.EndSucceeded}
		}
		settled, err := q.Settle(ctx, time.Now(), ends)
		if err != nil {
			return err
		}
		for _, s := range settled {
			if s.Err != nil {
				return s.Err
			}
		}
		done += len(claimed)
	}
	return nil
}
