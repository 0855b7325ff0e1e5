package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
)

// DefaultTxLimit is how long a transaction of InTx or InSQLTx may do nothing, which is a
// worker's lease as long as nobody chose another: a program that froze with an open
// transaction holds rows and keys for no longer than its jobs.
const DefaultTxLimit = 30 * time.Second

// commitLimit is how long the end of a transaction may take on a connection that is silent.
const commitLimit = 10 * time.Second

// InTx runs f in a transaction of pool that commits when f returns nil and is rolled back
// when it returns an error or panics; f's error comes back as it is. Join the transaction
// with postgres.Tx(tx). After the commit, idle workers hear of the jobs that f enqueued
// through tx; through a wrapping of yours around tx they do not: see nexjob.Answer.Wake.
//
// The transaction has the pool's isolation level; f may choose another by SET TRANSACTION
// as its first statement. When it does nothing for DefaultTxLimit the server ends it with its
// connection (idle_in_transaction_session_timeout): f's next statement then fails, and
// nothing of it happens. A statement that runs, or waits for a lock, counts as doing
// something. Another limit is set in f by SET LOCAL.
//
// When ctx ends before f returns, the transaction is rolled back. From then on the commit is not
// interrupted. If its outcome is not known, the answer is nexjob.ErrOutcomeUnknown. A
// serialization error or a dead-lock, of f's statement or of the commit, is
// nexjob.IsTransient where it came through this package: call InTx again.
//
// In f enqueue with Client.In: where ctx is a run's, or one of nexjob.WithOpenTx,
// Client.Enqueue and InTx answer nexjob.ErrInTransaction at once. f's tx.Begin makes
// savepoints, which may be joined too.
func InTx(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	if nexjob.InTx(ctx) {
		return wrap("in tx", nexjob.ErrInTransaction)
	}
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: "BEGIN; " + limitStatement()}) // one round trip
	if err != nil {
		return wrap("in tx", err)
	}
	work := new(made)
	end := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
		defer cancel()
		return committed(tx.Commit(ctx))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
		defer cancel()
		_ = tx.Rollback(ctx) // one that has ended answers so
	}()
	if err := run(ctx, func() error { return f(outer{noting{tx, work}}) }, end); err != nil {
		return err
	}
	work.rang()
	return nil
}

// InTx is the function InTx on the store's pool.
func (s *Store) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	if s.closed.Load() {
		return wrap("in tx", nexjob.ErrClosed)
	}
	return InTx(ctx, s.pool, f)
}

// InSQLTx is InTx on a *sql.DB of whichever driver of PostgreSQL; join the transaction with
// postgres.SQLTx(tx). It takes a round trip more to begin. It knows of no store, so workers
// find f's jobs at their next poll; Store.InSQLTx wakes them.
func InSQLTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	if nexjob.InTx(ctx) {
		return wrap("in tx", nexjob.ErrInTransaction)
	}
	// A transaction of database/sql ends with the context that it began with, also in the
	// middle of its commit. So it has one of its own, which ends with the caller's until then.
	open, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	leaveCaller := context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
	defer leaveCaller()
	tx, err := db.BeginTx(open, nil)
	if err != nil {
		return wrap("in tx", because(open, err))
	}
	bound := func() (done func() bool) {
		return time.AfterFunc(commitLimit, func() { stop(context.DeadlineExceeded) }).Stop
	}
	defer func() {
		defer bound()()
		_ = tx.Rollback() // one that has ended answers so
	}()
	if _, err := tx.ExecContext(open, limitStatement()); err != nil {
		return wrap("in tx", because(open, err))
	}
	return run(ctx, func() error { return f(tx) }, func() error {
		if !leaveCaller() {
			return context.Cause(ctx)
		}
		defer bound()()
		return committed(tx.Commit())
	})
}

// InSQLTx is the function InSQLTx, and after the commit wakes those who wait for work of
// the store. db is one of the store's database.
func (s *Store) InSQLTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	if s.closed.Load() {
		return wrap("in tx", nexjob.ErrClosed)
	}
	if err := InSQLTx(ctx, db, f); err != nil {
		return err
	}
	s.rang()
	return nil
}

func limitStatement() string {
	return fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", DefaultTxLimit.Milliseconds())
}

// because adds why a context has ended to what that led to.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// run calls f in a transaction that is open, and commits it.
func run(ctx context.Context, f, commit func() error) error {
	_, leave := nexjob.EnterTx(ctx)
	defer leave()
	if err := f(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return wrap("in tx", context.Cause(ctx))
	}
	return wrap("in tx", commit())
}

// committed says what the answer of a commit means. That a statement before has failed,
// lib/pq says in a form that cannot be told from a broken connection.
func committed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("%w (%w)", errBroken, err)
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return errEnded
	case unknown(err):
		return fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
	}
	return err
}

// made lists the stores in which a transaction has made work.
type made struct{ stores []*Store }

func (m *made) add(s *Store) {
	if !slices.Contains(m.stores, s) {
		m.stores = append(m.stores, s)
	}
}

func (m *made) rang() {
	for _, s := range m.stores {
		s.rang()
	}
}

// noter is a transaction that notes in which stores it makes work.
type noter interface{ notes() *made }

// noting is a transaction that InTx has begun, or a savepoint in one.
type noting struct {
	pgx.Tx
	work *made
}

func (n noting) notes() *made { return n.work }

// Begin makes a savepoint.
func (n noting) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := n.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return noting{tx, n.work}, nil
}

// outer is the transaction that InTx has begun.
type outer struct{ noting }

var errCommits = errors.New("postgres: in tx: InTx commits the transaction when f returns nil")

// Commit is refused: InTx could not tell what became of the transaction.
func (outer) Commit(context.Context) error { return errCommits }
