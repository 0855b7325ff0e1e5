package queues

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// streamPool is River on PostgreSQL, with its pgx driver.
type streamPool struct {
	stream[pgx.Tx]
	pool *pgxpool.Pool
}

var (
	_ Keyed   = (*streamPool)(nil)
	_ Timed   = (*streamPool)(nil)
	_ Witness = (*streamPool)(nil)
)

// RiverUnique enqueues jobs that are unique by their number, and works none.
func RiverUnique(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{unique: true, conns: 32})
}

// RiverCrowded is the same for hundreds of callers, who would be in each other's way
// with more connections.
func RiverCrowded(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{unique: true, conns: 16})
}

// RiverBusy is set for many jobs and a hundred slots: it fetches again as soon as it
// may, and listens to nobody.
func RiverBusy(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{cooldown: least, poll: least, pollOnly: true})
}

// RiverWide is set for many jobs and thousands of slots.
func RiverWide(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{cooldown: least, poll: least})
}

// RiverLive is set for many jobs that are enqueued while others are worked. Enqueues
// that notified more often than ten times a second would wait for each other.
func RiverLive(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{cooldown: 5 * least, poll: 5 * least, unique: true, conns: 32})
}

// RiverPrompt is set for short waits: each insert notifies, and each notification
// fetches.
func RiverPrompt(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{cooldown: least, shared: true})
}

// RiverPunctual is set for jobs that are due later: it looks as often as it may.
func RiverPunctual(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{cooldown: least, poll: least, shared: true})
}

// RiverDefault is River as it comes.
func RiverDefault(ctx context.Context, at Place) (Queue, error) {
	return openRiver(ctx, at, tune{shared: true})
}

func openRiver(ctx context.Context, at Place, how tune) (Queue, error) {
	config, err := pgxpool.ParseConfig(at.At)
	if err != nil {
		return nil, err
	}
	if how.conns > 0 {
		config.MaxConns = int32(how.conns) //nolint:gosec // G115: a small constant
	}
	q := &streamPool{}
	if q.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	q.driver, q.tune = riverpgxv5.New(q.pool), how
	if err := q.start(ctx); err != nil {
		q.pool.Close()
		return nil, err
	}
	return q, nil
}

// Left counts the jobs whose end is not written.
func (q *streamPool) Left(ctx context.Context) (n int, err error) {
	err = q.pool.QueryRow(ctx, unfinished).Scan(&n)
	return n, err
}

// Succeeded reads the state of a job by its ID.
func (q *streamPool) Succeeded(ctx context.Context, id any) (bool, error) {
	state := ""
	err := q.pool.QueryRow(ctx, "SELECT state FROM river_job WHERE id = $1", id).Scan(&state)
	if err != nil {
		err = fmt.Errorf("job %v: %w", id, err)
	}
	return state == completed, err
}

// Close closes the pool.
func (q *streamPool) Close() error {
	q.pool.Close()
	return nil
}
