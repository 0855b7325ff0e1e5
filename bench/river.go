package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/nexjob/nexjob/sqlite"
)

// stream is River on its SQLite driver: one connection, as the driver's documents
// have it. Jobs that are only enqueued are unique by their number; those that are
// worked are not, which is cheaper.
type stream struct {
	db     *sql.DB
	client *river.Client[*sql.Tx] // without workers
	unique river.UniqueOpts
}

// Kind names the orders.
func (order) Kind() string { return "charge" }

func openRiver(ctx context.Context, file string, mode sqlite.Synchronous) (*stream, error) {
	db, err := pool(file, mode)
	if err != nil {
		return nil, err
	}
	q := &stream{db: db}
	if err := q.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func openRiverUnique(ctx context.Context, file string, mode sqlite.Synchronous) (queue, error) {
	q, err := openRiver(ctx, file, mode)
	if err != nil {
		return nil, err
	}
	q.unique = river.UniqueOpts{ByArgs: true}
	return q, nil
}

func openRiverPlain(ctx context.Context, file string, mode sqlite.Synchronous) (queue, error) {
	q, err := openRiver(ctx, file, mode)
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (q *stream) start(ctx context.Context) error {
	logger := slog.New(slog.DiscardHandler)
	driver := riversqlite.New(q.db)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: logger})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	q.client, err = river.NewClient(driver, &river.Config{Logger: logger})
	return err
}

func (q *stream) add(ctx context.Context, o order) error {
	result, err := q.client.Insert(ctx, o, &river.InsertOpts{UniqueOpts: q.unique})
	if err == nil && result.UniqueSkippedAsDuplicate {
		err = fmt.Errorf("order %d was there already", o.Number)
	}
	return err
}

// addMany answers each job, as ours does. InsertManyFast does not, and a duplicate
// fails its whole batch.
func (q *stream) addMany(ctx context.Context, list []order) error {
	params := make([]river.InsertManyParams, len(list))
	for i, o := range list {
		params[i] = river.InsertManyParams{Args: o, InsertOpts: &river.InsertOpts{UniqueOpts: q.unique}}
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

// work fetches as often as River allows, instead of every 100 ms or when the poll of
// its notifications, every 50 ms, finds something.
func (q *stream) work(ctx context.Context, slots int, handle func(order)) (func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[order]) error {
		handle(job.Args)
		return nil
	}))
	client, err := river.NewClient(riversqlite.New(q.db), &river.Config{
		Logger:            slog.New(slog.DiscardHandler),
		Workers:           workers,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: time.Millisecond,
	})
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	return func() error { return client.Stop(ctx) }, nil
}

func (q *stream) left(ctx context.Context) (int, error) {
	return number(ctx, q.db, "SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending')")
}

func (q *stream) close() error { return q.db.Close() }
