package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/internal/sqlstore"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// Options are the choices of a Store. The zero value is safe.
type Options struct {
	// Schema is where the tables stand; default the first of the connection's search path,
	// which is public where nobody has changed it.
	Schema string
	// Prefix begins the names of the tables; default nexjob, as in nexjob_jobs.
	Prefix string
	// Migrate brings the schema up to date at Open. Otherwise a schema that this code
	// cannot run on is an error that says so.
	Migrate bool
	// ListenURL is where wake-ups of other processes are heard, on a connection of its own.
	// The connection is made when a worker starts or a client waits for a job, and lives
	// until Close. Default the URL of Open, or the settings of the pool that was wrapped;
	// "none" turns listening off, and workers find the jobs of other processes at their
	// polls. So they do where the URL leads through a pooler, which hands no wake-ups on:
	// give the server's own here.
	ListenURL string
	// Clock replaces the server's clock, for tests. Every step is then as exact as on an
	// engine with one writer: nothing that can be spared is put off.
	Clock func() time.Time
}

// Store is a storage engine in a PostgreSQL database. It may be used by many goroutines
// at once, and the tables by many processes. Make one with Open or Wrap.
type Store struct {
	pool    *pgxpool.Pool
	ours    bool // the pool is closed with the store
	names   names
	id      string // of the tables
	sheet   sheet
	steps   []sqlstore.Migration
	clock   func() time.Time // nil: the server's
	bell    *nexjob.Bell
	closed  atomic.Bool
	leaves  atomic.Bool     // the hot statement has left items of the newest batch
	looking atomic.Bool     // a ring is on its way; see lookAgain
	strict  bool            // sessions begin at a stricter level than the steps are made for
	life    context.Context //nolint:containedctx // ends at Close
	end     context.CancelFunc
	workers sync.WaitGroup

	enqueues *lane
	waits    *waits

	acquireFor time.Duration
	notifies   *notifier
	hears      *listener
	lookback   lookback
	upkeep     upkeep
	renewals   upkeep // the beats of renewals
}

var (
	_ nexjob.Storage    = (*Store)(nil)
	_ nexjob.Ringer     = (*Store)(nil)
	_ nexjob.Forecaster = (*Store)(nil)
)

// Open connects to a database by its URL, as pgx reads it: postgres://user@host/database,
// with pool_max_conns and the like as parameters. The pool is the store's own; Pool lends
// it.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, wrap("open", err)
	}
	for field, option := range map[string]string{"schema": "Options.Schema", "prefix": "Options.Prefix"} {
		if _, ok := config.ConnConfig.RuntimeParams[field]; ok { // the server would refuse it, as a setting of its own
			return nil, wrap("open", &nexjob.InvalidError{
				Field: field + " in the URL", Why: "only the command takes it there", Remedy: "give it as " + option,
			})
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, wrap("open", err)
	}
	s, err := open(ctx, pool, options)
	if err != nil {
		pool.Close()
		return nil, wrap("open", err)
	}
	s.ours = true
	return s, nil
}

// Wrap makes a store on a pool of the user's, which stays the user's to close, after the
// store. A step takes a connection of it for as long as the step lasts.
func Wrap(ctx context.Context, pool *pgxpool.Pool, options Options) (*Store, error) {
	s, err := open(ctx, pool, options)
	if err != nil {
		return nil, wrap("wrap", err)
	}
	return s, nil
}

func open(ctx context.Context, pool *pgxpool.Pool, options Options) (*Store, error) {
	s := &Store{pool: pool, clock: options.Clock, acquireFor: acquireFor}
	if err := s.named(ctx, options); err != nil {
		return nil, err
	}
	var err error
	if s.hears, err = newListener(s, options.ListenURL); err != nil {
		return nil, err
	}
	s.notifies = &notifier{store: s, name: nexjob.NewID().String()}
	s.bell = nexjob.NewRelayedBell(relay{s})
	if options.Migrate {
		err = s.migrate(ctx, int64(len(s.steps)))
	} else {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, err
	}
	err = s.pool.QueryRow(ctx, "SELECT current_setting('default_transaction_isolation') NOT IN ('read committed', 'read uncommitted')").
		Scan(&s.strict)
	if err != nil {
		return nil, err
	}
	err = s.hot(ctx, "meta", func(row wire.Row) error {
		s.id = row.Text(1)
		return nil
	}, wire.Text("store"))
	if err != nil {
		return nil, err
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.enqueues = newLane(s)
	s.waits = newWaits(s)
	s.lookback.exact = s.clock != nil
	s.lookback.horizons.again, s.lookback.horizons.dear = s.lookAgain, dearClaim
	return s, nil
}

// named finds out what the tables are called, and what steps there are to make them.
func (s *Store) named(ctx context.Context, options Options) (err error) {
	n := names{schema: options.Schema, prefix: options.Prefix}
	if n.prefix == "" {
		n.prefix = "nexjob"
	}
	if err := n.check(); err != nil {
		return err
	}
	if err := keepsStatements(ctx, s.pool); err != nil {
		return err
	}
	if n.schema == "" {
		if err := s.pool.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&n.schema); err != nil {
			return err
		}
		if err := n.check(); err != nil || n.schema == "" {
			return errors.Join(err, lasting("the search path names no schema that can be used: name one with Options.Schema"))
		}
	}
	s.names = n
	if s.sheet, err = n.sheet(); err != nil {
		return err
	}
	s.steps, err = sqlstore.ReadMigrations(migrationFiles)
	return err
}

// Pool returns the store's connections, for tables of the user's own. It is closed by
// Close if Open made it.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Bell rings after each step of this process that made a job claimable or ended one, and
// when another process says so.
func (s *Store) Bell() *nexjob.Bell { return s.bell }

// Clock returns the server's time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if s.closed.Load() {
		return time.Time{}, wrap("clock", nexjob.ErrClosed)
	}
	if s.clock != nil {
		return rules.Micro(s.clock()), ctx.Err()
	}
	var now time.Time
	err := s.hot(ctx, "clock", func(row wire.Row) error {
		now = time.UnixMicro(row.Int64(0)).UTC()
		return nil
	})
	return now, wrap("clock", err)
}

// Migrate brings the schema up to date.
func (s *Store) Migrate(ctx context.Context) error {
	if s.closed.Load() {
		return wrap("migrate", nexjob.ErrClosed)
	}
	return wrap("migrate", s.migrate(ctx, int64(len(s.steps))))
}

// Close waits for steps under way and releases what Open took. Later calls answer
// ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.enqueues.close()
	s.notifies.close()
	s.hears.close()
	s.end()
	s.workers.Wait()
	if s.ours {
		s.pool.Close()
	}
	return nil
}

// check refuses a call before anything is done.
func (s *Store) check(ctx context.Context, now time.Time) error {
	if s.closed.Load() {
		return nexjob.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.clock != nil {
		return onewriter.Guard(s.clock, now)
	}
	return nil
}

// wait measures how long a step waits for its connection.
func (s *Store) wait() onewriter.Wait { return onewriter.StartWait(onewriter.HostClock(s.clock)) }

// guarded is whether the server compares a caller's time with its own clock.
func (s *Store) guarded() wire.Arg { return wire.Bool(s.clock == nil) }

// hot runs one statement by itself. Where sessions begin at a stricter level, it brings its
// transaction along, in the same round trip: a claim would otherwise fail by whatever others
// have claimed since it began. A setting of the connections would not do: they serve the
// user's transactions too, and a pooler refuses or forgets it.
func (s *Store) hot(ctx context.Context, name string, take func(wire.Row) error, args ...wire.Arg) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.hotOn(ctx, conn, name, take, args...)
}

// hotOn is hot on a connection that the caller holds.
func (s *Store) hotOn(
	ctx context.Context, conn *pgxpool.Conn, name string, take func(wire.Row) error, args ...wire.Arg,
) (err error) {
	on := wire.NewConn(conn.Conn())
	if !s.strict {
		_, err = on.Run(ctx, s.sheet[name], take, args...)
		return refresh(ctx, conn, err)
	}
	call := wire.Call{Statement: s.sheet[name], Args: args, Take: take}
	if err = on.RunAll(ctx, []wire.Call{{Statement: dynamic(begin)}, call, {Statement: dynamic("COMMIT")}}); err != nil {
		rollback(ctx, conn)
	}
	return refresh(ctx, conn, err)
}

// refresh lets a connection forget its prepared statements where that is what failed.
func refresh(ctx context.Context, conn *pgxpool.Conn, err error) error {
	switch codeOf(err) {
	case codeNoStatement, codeStatementTwice, codePlanChanged:
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // the pool makes a new one
	}
	return err
}

// orClosed explains an error that Close has caused.
func (s *Store) orClosed(err error) error {
	if s.closed.Load() {
		return nexjob.ErrClosed
	}
	return err
}

// read runs f on one state of the tables.
func read[T any](
	ctx context.Context, s *Store, verb string, now time.Time, f func(in session) (T, error),
) (T, error) {
	var none T
	if err := s.check(ctx, now); err != nil {
		return none, wrap(verb, err)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return none, wrap(verb, err)
	}
	defer conn.Release()
	var answer T
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
		func(tx pgx.Tx) (err error) {
			answer, err = f(session{sheet: s.sheet, on: anew{wire.NewConn(tx.Conn())}})
			return err
		})
	if err != nil {
		return none, wrap(verb, s.orClosed(err))
	}
	return answer, nil
}

// look runs f, which is one statement: it needs no transaction to see one state.
func look[T any](
	ctx context.Context, s *Store, verb string, now time.Time, f func(in session) (T, error),
) (T, error) {
	var none T
	if err := s.check(ctx, now); err != nil {
		return none, wrap(verb, err)
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return none, wrap(verb, s.orClosed(err))
	}
	defer conn.Release()
	answer, err := f(session{sheet: s.sheet, on: anew{wire.NewConn(conn.Conn())}})
	return answer, wrap(verb, refresh(ctx, conn, err))
}

// Find returns one page; see nexjob.Archive.
func (s *Store) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	if q.Of != nexjob.Jobs {
		return look(ctx, s, "find", now, func(in session) (nexjob.Page, error) { return in.find(ctx, now, &q) })
	}
	return read(ctx, s, "find", now, func(in session) (nexjob.Page, error) { return in.find(ctx, now, &q) })
}

// Count tallies jobs; see nexjob.Archive.
func (s *Store) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	return look(ctx, s, "count", now, func(in session) ([]nexjob.Tally, error) { return in.count(ctx, now, &q) })
}

// Entries returns unexpired entries by name; see nexjob.Registry.
func (s *Store) Entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	return look(ctx, s, "entries", now, func(in session) ([]nexjob.Entry, error) { return in.entries(ctx, now, kind) })
}

// rang wakes those who wait for work, in this process at once and in others by a signal.
func (s *Store) rang() { s.bell.Ring() }
