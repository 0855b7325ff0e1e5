package queues

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// stream is River, whatever its database. The zero tune is River's own defaults.
type stream[Tx any] struct {
	driver riverdriver.Driver[Tx]
	tune   tune
	client *river.Client[Tx] // that the enqueues go through
}

// tune is how River is set.
type tune struct {
	cooldown, poll time.Duration
	pollOnly       bool // it neither listens nor waits for notifications
	// shared lets enqueues go through the client that works, as in a program that does
	// both; else one without workers does it, at the default cooldown.
	shared bool
	unique bool // by the number of the order
	conns  int  // of the pool, on PostgreSQL; 0: the pool's default, 4 or as many as there are processors
}

// least is the shortest cooldown, and time between polls, that River allows.
const least = time.Millisecond

// Kind names the orders.
func (Order) Kind() string { return "charge" }

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// start makes the tables, and a client without workers.
func (q *stream[Tx]) start(ctx context.Context) error {
	migrator, err := rivermigrate.New(q.driver, &rivermigrate.Config{Logger: silent()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	q.client, err = river.NewClient(q.driver, &river.Config{Logger: silent()})
	return err
}

func (q *stream[Tx]) options() *river.InsertOpts {
	return &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: q.tune.unique}}
}

// Add enqueues one job.
func (q *stream[Tx]) Add(ctx context.Context, o Order) error {
	result, err := q.client.Insert(ctx, o, q.options())
	if err == nil && result.UniqueSkippedAsDuplicate {
		err = fmt.Errorf("order %d was there already", o.Number)
	}
	return err
}

// Again enqueues a job that is there.
func (q *stream[Tx]) Again(ctx context.Context, o Order) error {
	result, err := q.client.Insert(ctx, o, q.options())
	if err == nil && !result.UniqueSkippedAsDuplicate {
		err = fmt.Errorf("order %d was not there", o.Number)
	}
	return err
}

// AddMany enqueues a batch.
func (q *stream[Tx]) AddMany(ctx context.Context, list []Order) error {
	return q.AddAt(ctx, list, make([]time.Time, len(list)))
}

// AddAt answers each job, as ours does. InsertManyFast does not, and a duplicate fails
// its whole batch.
func (q *stream[Tx]) AddAt(ctx context.Context, list []Order, due []time.Time) error {
	params := make([]river.InsertManyParams, len(list))
	for i, o := range list {
		options := q.options()
		options.ScheduledAt = due[i]
		params[i] = river.InsertManyParams{Args: o, InsertOpts: options}
	}
	results, err := q.client.InsertMany(ctx, params)
	if err != nil {
		return err
	}
	for i, result := range results {
		if result.UniqueSkippedAsDuplicate {
			return fmt.Errorf("order %d was there already", list[i].Number)
		}
	}
	return nil
}

// Work starts a client that works.
func (q *stream[Tx]) Work(ctx context.Context, slots int, handle Handler) (func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[Order]) error {
		handle(job.Args, job.ID)
		return nil
	}))
	client, err := river.NewClient(q.driver, &river.Config{
		Logger:            silent(),
		Workers:           workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		FetchCooldown:     q.tune.cooldown,
		FetchPollInterval: q.tune.poll,
		PollOnly:          q.tune.pollOnly,
	})
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	if q.tune.shared {
		q.client = client
	}
	return func() error { return client.Stop(ctx) }, nil
}

// unfinished counts the jobs whose end is not written.
const unfinished = "SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')"

// completed is the state of a job that succeeded.
const completed = string(rivertype.JobStateCompleted)
