package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/nexjob/nexjob/sqlite"
)

// order is the args of every job, the same for all sides. River takes its number for
// what must be unique; nexjob makes the idempotency key of it.
type order struct {
	Number int64 `json:"number" river:"unique"`
	Cents  int64 `json:"cents"`
}

// orders returns n orders whose numbers follow upon those before first.
func orders(first int64, n int) []order {
	list := make([]order, n)
	for i := range list {
		list[i] = order{Number: first + int64(i), Cents: 1999}
	}
	return list
}

// queue is one side of a comparison: a job queue on a file of its own.
type queue interface {
	// add enqueues one job and returns once it is durable.
	add(ctx context.Context, o order) error
	// addMany enqueues all in one step.
	addMany(ctx context.Context, list []order) error
	// work starts to run handle for every job, in so many slots at once, until stop is
	// called; stop returns when what has begun is written.
	work(ctx context.Context, slots int, handle func(order)) (stop func() error, err error)
	// left counts the jobs whose end is not written yet.
	left(ctx context.Context) (int, error)
	close() error
}

// side names one side and opens it on a file that does not exist yet.
type side struct {
	name string
	open func(ctx context.Context, file string, mode sqlite.Synchronous) (queue, error)
}

// ours is the name of the side that all others are compared with.
const ours = "nexjob"

// pool opens a file for a peer: with the driver, the journal, the cache, the
// checkpoints and the durability of nexjob's own connections, so that what differs is
// the queue. It is one connection, for which each peer has its reason.
func pool(file string, mode sqlite.Synchronous) (*sql.DB, error) {
	settings := url.Values{
		"_pragma": {
			"busy_timeout(5000)",
			"journal_mode(wal)",
			fmt.Sprintf("synchronous(%s)", map[sqlite.Synchronous]string{
				sqlite.Full: "full", sqlite.Normal: "normal",
			}[mode]),
			"cache_size(-16384)",
			"temp_store(memory)",
			"wal_autocheckpoint(4000)",
			"journal_size_limit(67108864)",
		},
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, nil
}

// number reads one number.
func number(ctx context.Context, db *sql.DB, query string) (int, error) {
	n := 0
	err := db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}
