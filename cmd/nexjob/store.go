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
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
	"github.com/nexjob/nexjob/sqlite"
)

// What names the storage, strongest first: the flag, the environment, the default.
const (
	storeFlag    = "store"
	storeEnv     = "NEXJOB_STORE"
	storeDefault = "sqlite:nexjob.db"
)

// storeText is the part of each command's help that says where jobs are kept.
const storeText = `The storage is named by --store or NEXJOB_STORE, and is sqlite:nexjob.db otherwise:
  sqlite:PATH   a SQLite file, PATH as the system writes it: sqlite:/var/lib/jobs.db`

// location is a storage that was named, and by what, for messages.
type location struct {
	by   string // --store, NEXJOB_STORE or "the default store"
	path string // of the SQLite file
}

// addStoreFlag declares --store on the root, for every command below it.
func addStoreFlag(root *cobra.Command) {
	root.PersistentFlags().String(storeFlag, "", "the storage, sqlite:PATH (default $"+storeEnv+", else "+storeDefault+")")
}

// storeLocation reads which storage the command line names. Nothing is opened.
func storeLocation(cmd *cobra.Command) (location, error) {
	text, by := storeDefault, "the default store"
	if env := os.Getenv(storeEnv); env != "" {
		text, by = env, storeEnv
	}
	if flag := cmd.Flag(storeFlag); flag != nil && flag.Changed {
		text, by = flag.Value.String(), "--"+storeFlag
	}
	path, err := parseStore(text)
	if err != nil {
		return location{}, input.Wrong(by, "%v", err)
	}
	return location{by, path}, nil
}

// parseStore reads the URL of a storage. A scheme that is not known is repeated without
// the rest, which may hold a password.
func parseStore(text string) (path string, err error) {
	scheme, path, found := strings.Cut(text, ":")
	switch {
	case !found:
		return "", fmt.Errorf("%q has no scheme: a SQLite file is sqlite:%s", text, text)
	case scheme != "sqlite":
		return "", fmt.Errorf("unknown scheme %q: want sqlite:PATH", scheme)
	case path == "" || strings.HasPrefix(path, ":memory:"):
		return "", fmt.Errorf("sqlite: without the path of a file: want sqlite:PATH, as in %s", storeDefault)
	case strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("%q: leave out file:, and write the path as the system does", text)
	case strings.HasPrefix(path, "//"):
		// Some tools read sqlite:///a.db as a file in this folder, others as one in the
		// root folder. Guessing would open the wrong one.
		return "", fmt.Errorf("%q can be read in two ways: write sqlite:jobs.db for a file here, "+
			"sqlite:/var/lib/jobs.db for one elsewhere", text)
	case strings.Contains(path, "?"):
		return "", fmt.Errorf("%q: no settings are known after the path: leave out ? and what follows", text)
	}
	return path, nil
}

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
	schema, err := at.schema(ctx)
	switch {
	case err != nil:
		return nil, err
	case !schema.Exists:
		return nil, input.Wrong(at.by, "there is no file %q: name the one that holds the jobs, with --%s or %s; "+
			"nexjob enqueue or nexjob migrate makes a new one", at.path, storeFlag, storeEnv)
	}
	return at.open(ctx, cmd, schema)
}

// openOrMakeStore opens the storage of a command that brings the first job: a file that
// is not there, or is still blank, is made, which made tells.
func openOrMakeStore(ctx context.Context, cmd *cobra.Command) (_ nexjob.Storage, made string, err error) {
	at, err := storeLocation(cmd)
	if err != nil {
		return nil, "", err
	}
	schema, err := at.schema(ctx)
	if err != nil {
		return nil, "", err
	}
	if schema.Blank {
		made = at.path
		schema.Version = schema.Newest
	}
	store, err := at.open(ctx, cmd, schema)
	return store, made, err
}

// schema looks at the file and refuses what can be none.
func (at location) schema(ctx context.Context) (sqlite.Schema, error) {
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

// open refuses a schema that is behind: bringing it up is a decision of whoever runs
// the workers on it, and one command.
func (at location) open(ctx context.Context, cmd *cobra.Command, schema sqlite.Schema) (nexjob.Storage, error) {
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

// patience is how long a write waits until the command says what it waits for.
const patience = 3 * time.Second

// patientStore is a storage that says so, once, when a write has to wait. One process
// writes into a file at a time, and one that is stopped in the middle makes all others
// wait for as long as it is.
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
			fmt.Fprintln(s.notes, "nexjob: still waiting for the storage: another process may hold its write lock; "+
				"interrupt to give up")
		})
	}).Stop
}
