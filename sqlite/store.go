package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/internal/sqlstore"
)

// Options are the choices of a Store. The zero value is safe.
type Options struct {
	// Synchronous says when a commit counts as durable; default Full.
	Synchronous Synchronous
	// BusyTimeout is how long one attempt waits for a writer in another process or
	// in a transaction of DB; default 5 s. Steps of the store try again for as long
	// as their callers wait.
	BusyTimeout time.Duration
	// TxLimit is how long a transaction of InTx may hold the file; default 5 s.
	TxLimit time.Duration
	// ForeignKeys makes SQLite hold the foreign keys of the user's tables on every
	// connection of DB, and so in InTx; default off, as SQLite has it. The store's own
	// connections leave them off: its steps touch no table of a user's, and a row that
	// refers to a table of nexjob's neither keeps a job from being removed nor goes with
	// it, so let none do that: keep the job's ID, or its key, as a plain value.
	ForeignKeys bool
	// Clock is the storage's clock; nil: time.Now.
	Clock func() time.Time
}

// Synchronous says what of the newest commits a power failure may take. The death
// of the process takes nothing in either mode.
type Synchronous uint8

// The modes.
const (
	// Full flushes every commit: nothing that was answered is lost.
	Full Synchronous = iota
	// Normal may lose the newest commits at a power failure, never the file.
	Normal
)

// DefaultTxLimit ends a transaction of InTx that holds the file for too long.
const DefaultTxLimit = 5 * time.Second

// Store is a storage engine in a SQLite file. It may be used by many goroutines at
// once, and the file by several processes. Make one with Open.
type Store struct {
	id      string // of the file
	clock   func() time.Time
	txLimit time.Duration
	floor   int64 // of fences: the seconds at Open, and room for a million claims in each
	sheet   sheet
	steps   []migration
	bell    *nexjob.Bell
	closed  atomic.Bool

	db      *sql.DB // the user's
	readers *sql.DB // beside the lane, which has a connection of its own
	lane    *lane
	look    *sql.Stmt   // on readers: whether a claim would find anything
	busy    atomic.Bool // the newest claim found as many jobs as it wanted
}

var (
	_ nexjob.Storage = (*Store)(nil)
	_ nexjob.Ringer  = (*Store)(nil)

	_ nexjob.Forecaster = (*Store)(nil)
)

// Open opens or makes the file and brings its schema up to date. The path is a
// plain file name in a folder that exists; a store in memory is package memory's.
//
// One store per process and file is enough for all its goroutines. A second one
// works, as other processes do, but hears of new jobs only at its workers' next poll.
func Open(ctx context.Context, path string, options Options) (*Store, error) {
	s, err := open(ctx, path, options)
	if err != nil {
		return nil, wrap("open", err)
	}
	return s, nil
}

func open(ctx context.Context, path string, options Options) (_ *Store, err error) {
	if err := options.fill(); err != nil {
		return nil, err
	}
	s := &Store{clock: onewriter.HostClock(options.Clock), txLimit: options.TxLimit, bell: nexjob.NewBell()}
	s.floor = max(s.clock().Unix(), 0) << 20
	if s.sheet, err = statements(); err != nil {
		return nil, err
	}
	if s.steps, err = sqlstore.ReadMigrations(migrationFiles); err != nil {
		return nil, err
	}
	if err := s.connect(path, options); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		_ = s.release()
		return nil, notOpened(path, err)
	}
	return s, nil
}

// start makes the file ready and begins to serve.
func (s *Store) start(ctx context.Context) (err error) {
	if err := useWAL(ctx, s.db); err != nil {
		return err
	}
	if err := migrate(ctx, s.db, s.steps, s.clock()); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if s.id, err = identity(ctx, s.db, s.sheet); err != nil {
		return err
	}
	if s.look, err = s.readers.PrepareContext(ctx, s.sheet["anything to claim"]); err != nil {
		return err
	}
	return s.lane.start(ctx)
}

// identity reads what a file is called among all files.
func identity(ctx context.Context, on runner, statements sheet) (string, error) {
	id := ""
	err := (&session{sheet: statements, on: on}).each(ctx, "meta", func(v values) error {
		id = v.text(1)
		return nil
	}, "store")
	return id, err
}

// DB returns connections to the file for tables of the user's own: transactions
// begin IMMEDIATE and wait their turn for BusyTimeout. Foreign keys are held if
// Options.ForeignKeys says so. It is closed by Close. A transaction that is begun here
// has no limit, and everybody else waits until it ends: prefer InTx, which has one.
func (s *Store) DB() *sql.DB { return s.db }

// Bell rings after each step of this process that made a job claimable or ended
// one, and after InTx on DB. A step inside a transaction that the caller commits does not
// ring.
func (s *Store) Bell() *nexjob.Bell { return s.bell }

// Clock returns the store's time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if s.closed.Load() {
		return time.Time{}, wrap("clock", nexjob.ErrClosed)
	}
	return rules.Micro(s.clock()), ctx.Err()
}

// Migrate brings the schema up to date; Open has done it.
func (s *Store) Migrate(ctx context.Context) error {
	if s.closed.Load() {
		return wrap("migrate", nexjob.ErrClosed)
	}
	return wrap("migrate", migrate(ctx, s.db, s.steps, s.clock()))
}

// Close waits for steps under way and closes the file. Calls that still wait for
// somebody else's transaction, and later ones, answer ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.lane.stop()
	return wrap("close", s.release())
}

// check refuses a call before anything is done.
func (s *Store) check(ctx context.Context, now time.Time) error {
	if s.closed.Load() {
		return nexjob.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return onewriter.Guard(s.clock, now)
}

// read runs f on one state of the file, beside the writer.
func read[T any](
	ctx context.Context, s *Store, verb string, now time.Time, f func(in *session) (T, error),
) (T, error) {
	var none T
	err := s.check(ctx, now)
	if err != nil {
		return none, wrap(verb, err)
	}
	tx, err := s.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return none, wrap(verb, s.orClosed(err))
	}
	defer tx.Rollback()
	answer, err := f(&session{sheet: s.sheet, on: tx})
	if err != nil {
		return none, wrap(verb, s.orClosed(err))
	}
	return answer, nil
}

// orClosed explains an error that Close has caused.
func (s *Store) orClosed(err error) error {
	if s.closed.Load() {
		return nexjob.ErrClosed
	}
	return err
}

// Find returns one page; see nexjob.Archive.
func (s *Store) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	return read(ctx, s, "find", now, func(in *session) (nexjob.Page, error) { return in.find(ctx, now, &q) })
}

// Count tallies jobs; see nexjob.Archive.
func (s *Store) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	return read(ctx, s, "count", now, func(in *session) ([]nexjob.Tally, error) { return in.count(ctx, now, &q) })
}

// NextDue returns when the next job falls due; see nexjob.Forecaster.
func (s *Store) NextDue(ctx context.Context, now time.Time, queues, kinds []string) (time.Time, error) {
	return read(ctx, s, "next due", now, func(in *session) (next time.Time, _ error) {
		err := in.each(ctx, "next due", func(v values) error {
			next = v.time(0)
			return nil
		}, now.UnixMicro(), jsonNames(queues), jsonNames(kinds))
		return next, err
	})
}

// Entries returns unexpired entries by name; see nexjob.Registry.
func (s *Store) Entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	return read(ctx, s, "entries", now, func(in *session) ([]nexjob.Entry, error) {
		return in.entries(ctx, now, kind)
	})
}
