package queues

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mikestefanello/backlite"
)

// lite is backlite, which has no keys. Ended tasks are not retained, which is its
// cheapest choice. One connection: with sixteen it was up to a tenth slower, for its
// callers then meet in SQLite's busy wait instead of a queue.
type lite struct {
	db     *sql.DB
	client *backlite.Client // without workers
}

// Config names the queue of the orders.
func (Order) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "charge", MaxAttempts: 10, Timeout: time.Minute}
}

// OpenBacklite opens backlite on a file.
func OpenBacklite(_ context.Context, at Place) (Queue, error) {
	db, err := pool(at)
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

// Add enqueues one task.
func (q *lite) Add(ctx context.Context, o Order) error {
	_, err := q.client.Add(o).Ctx(ctx).Save()
	return err
}

// AddMany enqueues tasks in one step.
func (q *lite) AddMany(ctx context.Context, list []Order) error {
	tasks := make([]backlite.Task, len(list))
	for i, o := range list {
		tasks[i] = o
	}
	_, err := q.client.Add(tasks...).Ctx(ctx).Save()
	return err
}

// Work starts a client that the enqueues go through from now on, for only the client
// that has the workers wakes them.
func (q *lite) Work(ctx context.Context, slots int, handle Handler) (func() error, error) {
	client, err := newBacklite(q.db, slots)
	if err != nil {
		return nil, err
	}
	client.Register(backlite.NewQueue(func(_ context.Context, o Order) error {
		handle(o, nil)
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

// Left counts the tasks, which are deleted at their end.
func (q *lite) Left(ctx context.Context) (int, error) {
	return number(ctx, q.db, "SELECT count(*) FROM backlite_tasks")
}

// Close closes the file.
func (q *lite) Close() error { return q.db.Close() }
