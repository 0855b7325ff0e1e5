package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/sqlite"
)

// withStore opens the storage that the command line names, for a command that reads or
// changes what is there, and closes it.
func withStore(cmd *cobra.Command, do func(ctx context.Context, store nexjob.Storage, client *nexjob.Client) error) error {
	ctx := cmd.Context()
	store, err := openStore(ctx, cmd)
	if err != nil {
		return err
	}
	client, done := clientOf(ctx, store)
	err = do(ctx, store, client)
	if errors.Is(err, nexjob.ErrNotFound) {
		err = fmt.Errorf("%w; it was deleted, or removed after its retention, or --store names another storage", err)
	}
	return errors.Join(err, done())
}

// openForJobs opens the storage for a command that brings jobs, and says so when that
// makes a file. done closes it.
func openForJobs(cmd *cobra.Command) (_ *nexjob.Client, done func() error, err error) {
	store, made, err := openOrMakeStore(cmd.Context(), cmd)
	if err != nil {
		return nil, nil, err
	}
	if made != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "nexjob: %s is a new SQLite file\n", view.Safe(made))
	}
	client, done := clientOf(cmd.Context(), store)
	return client, done, nil
}

// clientOf makes a client on a storage. What it would log, the answers tell. done closes
// both.
func clientOf(ctx context.Context, store nexjob.Storage) (client *nexjob.Client, done func() error) {
	client = nexjob.NewClient(store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	return client, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = client.Close(ctx) // decisions that are not written down are statistics lost, and no job
		return store.Close()
	}
}

// openStore opens the storage of a command that reads or changes what is there: it
// makes no file and no schema, so that a mistyped name is not answered with an empty
// list. The caller closes it.
func openStore(ctx context.Context, cmd *cobra.Command) (nexjob.Storage, error) {
	at, err := storeLocation(cmd)
	if err != nil {
		return nil, err
	}
	if at.onPostgres() {
		return at.openServer(ctx, cmd)
	}
	schema, err := at.schema(ctx)
	switch {
	case err != nil:
		return nil, err
	case !schema.Exists:
		return nil, input.Wrong(at.by, "there is no file %q: name the one that holds the jobs, with --%s or %s; "+
			"nexjob enqueue or nexjob migrate makes a new one", at.path, storeFlag, storeEnv)
	}
	return at.openFile(ctx, cmd, schema)
}

// openOrMakeStore opens the storage of a command that brings the first job: a file that
// is not there, or is still blank, is made, which made tells. Tables on a server are made
// by nexjob migrate alone: the database is somebody's, and others look at what is in it.
func openOrMakeStore(ctx context.Context, cmd *cobra.Command) (_ nexjob.Storage, made string, err error) {
	at, err := storeLocation(cmd)
	if err != nil {
		return nil, "", err
	}
	if at.onPostgres() {
		store, err := at.openServer(ctx, cmd)
		return store, "", err
	}
	schema, err := at.schema(ctx)
	if err != nil {
		return nil, "", err
	}
	if schema.Blank {
		made = at.path
		schema.Version = schema.Newest
	}
	store, err := at.openFile(ctx, cmd, schema)
	return store, made, err
}

// schema looks at the file and refuses what can be none.
func (at *location) schema(ctx context.Context) (sqlite.Schema, error) {
	folder := filepath.Dir(at.path)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return sqlite.Schema{}, input.Wrong(at.by, "there is no folder %q for file %q: make it first", folder, at.path)
	}
	if info, err := os.Stat(at.path); err == nil && info.IsDir() {
		return sqlite.Schema{}, input.Wrong(at.by, "%q is a folder: name a file in it", at.path)
	}
	schema, err := sqlite.SchemaOf(ctx, at.path)
	if err != nil {
		return sqlite.Schema{}, fmt.Errorf("%s: %w", at.by, err)
	}
	return schema, nil
}

// openFile refuses a schema that is behind: bringing it up is a decision of whoever runs
// the workers on it, and one command.
func (at *location) openFile(ctx context.Context, cmd *cobra.Command, schema sqlite.Schema) (nexjob.Storage, error) {
	switch {
	case schema.Version == 0:
		return nil, input.Wrong(at.by, "file %q has no tables of nexjob: name another one, or run "+
			"nexjob migrate to keep jobs in it", at.path)
	case schema.Version < schema.Newest:
		return nil, fmt.Errorf("%s: the schema of file %q is at version %d and this nexjob works on %d: "+
			"run nexjob migrate", at.by, at.path, schema.Version, schema.Newest)
	}
	store, err := sqlite.Open(ctx, at.path, sqlite.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.by, err)
	}
	return &patientStore{Storage: store, notes: cmd.ErrOrStderr()}, nil
}

// openServer likewise.
func (at *location) openServer(ctx context.Context, cmd *cobra.Command) (nexjob.Storage, error) {
	schema, err := postgres.SchemaOf(ctx, at.url, at.options)
	switch {
	case err != nil:
		return nil, at.explain(err)
	case schema.Version == 0:
		return nil, input.Wrong(at.by, "%s has no tables of nexjob: name another database, schema or prefix, or run "+
			"nexjob migrate to make them", at)
	case schema.Version < schema.Newest:
		return nil, fmt.Errorf("%s: the schema of %s is at version %d and this nexjob works on %d: run nexjob migrate",
			at.by, at, schema.Version, schema.Newest)
	}
	store, err := postgres.Open(ctx, at.url, at.options)
	if err != nil {
		return nil, at.explain(err)
	}
	return &patientStore{Storage: store, notes: cmd.ErrOrStderr()}, nil
}

// The codes of PostgreSQL for which there is something to say; appendix A of its manual.
const (
	codeNoDatabase   = "3D000"
	codeBadPassword  = "28P01"
	codeNotLetIn     = "28000"
	codeNotPermitted = "42501"
	codeNoSetting    = "42704"
)

// explain says what to do about an error of a server, and what it is.
func (at *location) explain(err error) error {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch said.Code {
		case codeNoDatabase:
			return input.Wrong(at.by, "%s: %s: name another database, or make it with createdb", at, said.Message)
		case codeBadPassword, codeNotLetIn:
			return fmt.Errorf("%s: %s: the server does not let us in: %s; give user and password in %s, or the "+
				"password in PGPASSWORD or ~/.pgpass", at.by, at, said.Message, storeEnv)
		case codeNotPermitted:
			return fmt.Errorf("%s: %s: %s: ask the owner of the database for the right, or to run nexjob migrate",
				at.by, at, said.Message)
		case codeNoSetting:
			return input.Wrong(at.by, "%s: %s: want schema, prefix, or a setting of libpq or pgxpool", at, said.Message)
		}
		return fmt.Errorf("%s: %s: %w", at.by, at, oneLineError{err})
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%s: %s: no PostgreSQL can be reached there: is the server running, and are host and port "+
			"right? %w", at.by, at, oneLineError{err})
	}
	return fmt.Errorf("%s: %s: %w", at.by, at, oneLineError{err})
}

// oneLineError is an error of pgx without the line per address and per way of encryption that it
// has tried. Those that say the same are said once.
type oneLineError struct{ error }

func (e oneLineError) Error() string {
	head, tried, _ := strings.Cut(e.error.Error(), "\n")
	lines := strings.Split(tried, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(head + " " + strings.Join(slices.Compact(lines), "; "))
}

func (e oneLineError) Unwrap() error { return e.error }

// patience is how long a write waits until the command says what it waits for.
const patience = 3 * time.Second

// patientStore is a storage that says so, once, when a write has to wait. One process
// writes into a file at a time, and one that is stopped in the middle makes all others
// wait for as long as it is; on a server so does one that has locked the same job or key.
type patientStore struct {
	nexjob.Storage
	notes io.Writer
	said  sync.Once
}

// Enqueue adds jobs.
func (s *patientStore) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	defer s.waiting()()
	return s.Storage.Enqueue(ctx, now, jobs)
}

// Amend acts on jobs.
func (s *patientStore) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, what nexjob.Action, limit int,
) (nexjob.Amended, error) {
	defer s.waiting()()
	return s.Storage.Amend(ctx, now, q, what, limit)
}

// waiting begins a wait; what it returns ends it.
func (s *patientStore) waiting() (ended func() bool) {
	return time.AfterFunc(patience, func() {
		s.said.Do(func() {
			fmt.Fprintln(s.notes, "nexjob: still waiting for the storage: another process may hold its write lock or the same job; "+
				"interrupt to give up")
		})
	}).Stop
}
