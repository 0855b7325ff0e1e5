package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// work is one kind of load. It prepares, calls start, and goes on while more says so;
// it answers how many rows it has worked.
type work struct {
	name string
	run  func(ctx context.Context, c conn, start func() error, more func() bool) (int64, error)
}

// works are all of them; depth is how many jobs wait while others are claimed.
func works(depth int64) []work {
	return []work{
		{"keyed single inserts, 16 callers gathered", gathered},
		{"keyed batches of 1,000", batches},
		{"claim 100, settle 100", claims(depth)},
	}
}

// schema is the connection's settings and a queue in little: jobs with the indexes
// that cost most, and keys.
func schema(mode string) []string {
	return []string{
		"PRAGMA journal_mode = wal",
		"PRAGMA synchronous = " + mode,
		"PRAGMA cache_size = -16384",
		"PRAGMA temp_store = memory",
		"PRAGMA wal_autocheckpoint = 4000",
		`CREATE TABLE jobs (seq INTEGER PRIMARY KEY, id BLOB NOT NULL, kind TEXT NOT NULL, queue TEXT NOT NULL,
			priority INTEGER NOT NULL, state INTEGER NOT NULL, key BLOB, args BLOB, due_at INTEGER,
			lease_until INTEGER, fence INTEGER NOT NULL DEFAULT 0, ended_at INTEGER) STRICT`,
		`CREATE UNIQUE INDEX jobs_id ON jobs (id)`,
		`CREATE INDEX jobs_due ON jobs (queue, priority, due_at, id) WHERE due_at IS NOT NULL`,
		`CREATE INDEX jobs_lease ON jobs (lease_until) WHERE lease_until IS NOT NULL`,
		`CREATE TABLE keys (key BLOB PRIMARY KEY, job BLOB NOT NULL) STRICT, WITHOUT ROWID`,
	}
}

const (
	jobColumns = "INSERT INTO jobs (id, kind, queue, priority, state, key, args, due_at) VALUES "
	jobRow     = "(?, 'charge', 'default', 2, 1, ?, ?, ?)"
	keyColumns = "INSERT INTO keys (key, job) VALUES "
	keyRow     = "(?, ?)"
	keyStands  = " ON CONFLICT DO NOTHING"

	rowsAtOnce = 50
	batch      = 1_000
	grip       = 100
	callers    = 16
)

// row is the values of job n, as a job and as a key.
func row(n int64) (job, key []any) {
	id := binary.BigEndian.AppendUint64(make([]byte, 8, 16), uint64(n)) //nolint:gosec // a count
	name := strconv.AppendInt([]byte("payment-"), n, 10)
	return []any{id, name, []byte(`{"order_id":42,"cents":1999}`), n}, []any{name, id}
}

// in runs f in one transaction.
func in(ctx context.Context, c conn, f func() error) error {
	if err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if err := f(); err != nil {
		return errors.Join(err, c.exec(ctx, "ROLLBACK"))
	}
	return c.exec(ctx, "COMMIT")
}

// gathered is group commit: what waits is written in one transaction, each row by
// statements of its own, and its caller goes on when that is durable.
func gathered(ctx context.Context, c conn, start func() error, more func() bool) (int64, error) {
	waiting := make(chan chan struct{}, callers)
	stopped := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stopped)
	for range callers {
		group.Go(func() {
			done := make(chan struct{}, 1)
			for {
				select {
				case waiting <- done:
				case <-stopped:
					return
				}
				select {
				case <-done:
				case <-stopped:
					return
				}
			}
		})
	}
	if err := start(); err != nil {
		return 0, err
	}
	rows := int64(0)
	for more() {
		together := []chan struct{}{<-waiting}
		for range len(waiting) {
			together = append(together, <-waiting)
		}
		err := in(ctx, c, func() error {
			for range together {
				rows++
				job, key := row(rows)
				if err := c.exec(ctx, keyColumns+keyRow+keyStands, key...); err != nil {
					return err
				}
				if err := c.exec(ctx, jobColumns+jobRow, job...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, done := range together {
			done <- struct{}{}
		}
	}
	return rows, ctx.Err()
}

// batches writes a thousand jobs in one transaction, many in a statement.
func batches(ctx context.Context, c conn, start func() error, more func() bool) (int64, error) {
	if err := start(); err != nil {
		return 0, err
	}
	rows := int64(0)
	for more() {
		if err := fill(ctx, c, rows, batch); err != nil {
			return 0, err
		}
		rows += batch
	}
	return rows, ctx.Err()
}

// fill adds n jobs after the first ones, in one transaction.
func fill(ctx context.Context, c conn, first int64, n int) error {
	manyJobs := jobColumns + jobRow + strings.Repeat(", "+jobRow, rowsAtOnce-1)
	manyKeys := keyColumns + keyRow + strings.Repeat(", "+keyRow, rowsAtOnce-1) + keyStands
	return in(ctx, c, func() error {
		for range n / rowsAtOnce {
			var jobs, keys []any
			for range rowsAtOnce {
				first++
				job, key := row(first)
				jobs, keys = append(jobs, job...), append(keys, key...)
			}
			if err := c.exec(ctx, manyKeys, keys...); err != nil {
				return err
			}
			if err := c.exec(ctx, manyJobs, jobs...); err != nil {
				return err
			}
		}
		return nil
	})
}

// claims takes a hundred jobs in one transaction and ends them in the next, and fills
// the queue up in between: that counts into the time of every driver alike.
func claims(depth int64) func(context.Context, conn, func() error, func() bool) (int64, error) {
	return func(ctx context.Context, c conn, start func() error, more func() bool) (int64, error) {
		return claimed(ctx, c, depth, start, more)
	}
}

func claimed(ctx context.Context, c conn, depth int64, start func() error, more func() bool) (int64, error) {
	filled, rows := int64(0), int64(0)
	for ; filled < depth; filled += batch {
		if err := fill(ctx, c, filled, batch); err != nil {
			return 0, err
		}
	}
	if err := start(); err != nil {
		return 0, err
	}
	for more() {
		if filled-rows < depth/2 {
			if err := fill(ctx, c, filled, batch); err != nil {
				return 0, err
			}
			filled += batch
		}
		var taken []int64
		err := in(ctx, c, func() (err error) {
			taken, err = c.numbers(ctx, `UPDATE jobs SET state = 2, due_at = NULL, lease_until = ?1, fence = ?1
				WHERE seq IN (SELECT seq FROM jobs INDEXED BY jobs_due WHERE queue = 'default' AND priority = 2
					AND due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3)
				RETURNING seq`, rows+1, filled, int64(grip))
			return err
		})
		if err != nil {
			return 0, err
		}
		if len(taken) != grip {
			return 0, fmt.Errorf("claimed %d jobs", len(taken))
		}
		err = in(ctx, c, func() error {
			for _, seq := range taken {
				err := c.exec(ctx, `UPDATE jobs SET state = 5, lease_until = NULL, ended_at = ?2
					WHERE seq = ?1 AND state = 2 AND fence = ?3`, seq, filled, rows+1)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		rows += grip
	}
	return rows, ctx.Err()
}
