package queues

import (
	"context"
	"database/sql"
	"errors"

	"github.com/riverqueue/river/riverdriver/riversqlite"
)

// streamFile is River on its SQLite driver: one connection, as the driver's documents
// have it.
type streamFile struct {
	stream[*sql.Tx]
	db *sql.DB
}

// OpenRiverFile opens River on a file. Its jobs are not unique, which is cheaper.
func OpenRiverFile(ctx context.Context, at Place) (Queue, error) {
	return openRiverFile(ctx, at, false)
}

// OpenRiverFileUnique opens River on a file, with jobs that are unique by their number.
func OpenRiverFileUnique(ctx context.Context, at Place) (Queue, error) {
	return openRiverFile(ctx, at, true)
}

// openRiverFile fetches as often as River allows, instead of every 100 ms or when the
// poll of its notifications, every 50 ms, finds something.
func openRiverFile(ctx context.Context, at Place, unique bool) (Queue, error) {
	db, err := pool(at)
	if err != nil {
		return nil, err
	}
	q := &streamFile{db: db}
	q.driver = riversqlite.New(db)
	q.tune = tune{cooldown: least, poll: least, unique: unique}
	if err := q.start(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return q, nil
}

// Left counts the jobs whose end is not written.
func (q *streamFile) Left(ctx context.Context) (int, error) { return number(ctx, q.db, unfinished) }

// Close closes the file.
func (q *streamFile) Close() error { return q.db.Close() }
