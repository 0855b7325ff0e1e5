package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mikestefanello/backlite"

	"github.com/nexjob/nexjob/sqlite"
)

// lite is backlite, which has no keys. Ended tasks are not retained, which is its
// cheapest choice. One connection: with sixteen it was up to a tenth slower, for its
// callers then meet in SQLite's busy wait instead of a queue.
type lite struct {
	db     *sql.DB
	client *backlite.Client // without workers
}

// Config names the queue of the orders.
func (order) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "charge", MaxAttempts: 10, Timeout: time.Minute}
}

func openBacklite(_ context.Context, file string, mode sqlite.Synchronous) (queue, error) {
	db, err := pool(file, mode)
	if err != nil {
		return nil, err
	}
	q := &lite{db: db}
	if q.client, err = newBacklite(db, 1); err == nil {
		err = q.client.Install()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

func newBacklite(db *sql.DB, workers int) (*backlite.Client, error) {
	return backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: workers, ReleaseAfter: 10 * time.Minute})
}

func (q *lite) add(ctx context.Context, o order) error {
	_, err := q.client.Add(o).Ctx(ctx).Save()
	return err
}

func (q *lite) addMany(ctx context.Context, list []order) error {
	tasks := make([]backlite.Task, len(list))
	for i, o := range list {
		tasks[i] = o
	}
	_, err := q.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

// work starts a client that the enqueues go through from now on, for only the client
// that has the workers wakes them.
func (q *lite) work(ctx context.Context, slots int, handle func(order)) (func() error, error) {
	client, err := newBacklite(q.db, slots)
	if err != nil {
		return nil, err
	}
	client.Register(backlite.NewQueue(func(_ context.Context, o order) error {
		handle(o)
		return nil
	}))
	client.Start(ctx)
	q.client = client
	return func() error {
		if !client.Stop(ctx) {
			return errors.New("backlite did not stop")
		}
		return nil
	}, nil
}

func (q *lite) left(ctx context.Context) (int, error) {
	return number(ctx, q.db, "SELECT count(*) FROM backlite_tasks")
}

func (q *lite) close() error { return q.db.Close() }
