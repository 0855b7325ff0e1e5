package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"

	"github.com/nexjob/nexjob/sqlite"
)

// messages is goqite with its job runner; it has no keys. One connection, as its
// documents have it, and the shortest poll: the runner also sleeps for one poll when
// all its slots are taken.
type messages struct {
	db    *sql.DB
	queue *goqite.Queue
}

func openGoqite(ctx context.Context, file string, mode sqlite.Synchronous) (queue, error) {
	db, err := pool(file, mode)
	if err != nil {
		return nil, err
	}
	schema, err := goqiteSchema(ctx)
	if err == nil {
		_, err = db.ExecContext(ctx, schema)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &messages{db: db, queue: goqite.New(goqite.NewOpts{DB: db, Name: "charge"})}, nil
}

// goqiteSchema reads the schema that goqite's users copy from its module, which does
// not export it.
func goqiteSchema(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "maragu.dev/goqite").Output()
	if err != nil {
		return "", fmt.Errorf("finding the schema of goqite: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "schema_sqlite.sql"))
	return string(text), err
}

func (q *messages) add(ctx context.Context, o order) error {
	body, err := json.Marshal(o)
	if err == nil {
		_, err = jobs.Create(ctx, q.queue, "charge", goqite.Message{Body: body})
	}
	return err
}

// addMany sends one by one in a transaction of its own: it knows no batches.
func (q *messages) addMany(ctx context.Context, list []order) error {
	tx, err := q.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, o := range list {
		body, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := jobs.CreateTx(ctx, tx, q.queue, "charge", goqite.Message{Body: body}); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (q *messages) work(ctx context.Context, slots int, handle func(order)) (func() error, error) {
	runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: q.queue, Limit: slots, PollInterval: time.Millisecond})
	runner.Register("charge", func(_ context.Context, body []byte) error {
		var o order
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		handle(o)
		return nil
	})
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runner.Start(ctx)
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}, nil
}

func (q *messages) left(ctx context.Context) (int, error) {
	return number(ctx, q.db, "SELECT count(*) FROM goqite")
}

func (q *messages) close() error { return q.db.Close() }
