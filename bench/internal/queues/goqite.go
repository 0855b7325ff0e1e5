package queues

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
)

// messages is goqite with its job runner; it has no keys. One connection, as its
// documents have it, and the shortest poll: the runner also sleeps for one poll when
// all its slots are taken.
type messages struct {
	db    *sql.DB
	queue *goqite.Queue
}

// OpenGoqite opens goqite on a file.
func OpenGoqite(ctx context.Context, at Place) (Queue, error) {
	db, err := pool(at)
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

// Add sends one message.
func (q *messages) Add(ctx context.Context, o Order) error {
	body, err := json.Marshal(o)
	if err == nil {
		_, err = jobs.Create(ctx, q.queue, "charge", goqite.Message{Body: body})
	}
	return err
}

// AddMany sends one by one in a transaction of its own: it knows no batches.
func (q *messages) AddMany(ctx context.Context, list []Order) error {
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

// Work starts a runner.
func (q *messages) Work(ctx context.Context, slots int, handle Handler) (func() error, error) {
	runner := jobs.NewRunner(jobs.NewRunnerOpts{Queue: q.queue, Limit: slots, PollInterval: time.Millisecond})
	runner.Register("charge", func(_ context.Context, body []byte) error {
		var o Order
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		handle(o, nil)
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

// Left counts the messages, which are deleted at their end.
func (q *messages) Left(ctx context.Context) (int, error) {
	return number(ctx, q.db, "SELECT count(*) FROM goqite")
}

// Close closes the file.
func (q *messages) Close() error { return q.db.Close() }
