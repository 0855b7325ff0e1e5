package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/sqlstore"
)

// InTx runs f in a transaction of db that commits when f returns nil and is rolled
// back when it returns an error or panics; f's error comes back as it is. Join the
// transaction with sqlite.Tx(tx).
//
// The transaction holds the file's write lock from its beginning, on any *sql.DB
// of the file, so what f reads stays true until the commit. Waiting for the lock
// takes as long as ctx allows. Everybody else waits meanwhile, so it ends by itself
// after DefaultTxLimit: f's next statement then fails, nothing of it happens, and
// the answer says so. If the commit's outcome is not known, the answer is
// nexjob.ErrOutcomeUnknown.
//
// SQLite may roll the transaction back at a statement that fails: ON CONFLICT ROLLBACK,
// a full disk, a write that is interrupted. What f writes afterwards is refused too, where
// db's driver is modernc.org/sqlite, whose commit and rollback hooks are used for as
// long; with another driver f must return the statement's error. Either way no step of
// the store in it is done and InTx answers an error.
//
// In f enqueue with Client.In: Client.Enqueue and the other calls that need a
// transaction of their own wait for the lock until the limit. Where ctx is a run's, or
// one of nexjob.WithOpenTx, they answer nexjob.ErrInTransaction at once.
//
// With a Store's DB it is Store.InTx. With a *sql.DB of the user's own, workers find
// new jobs at their next poll, and a busy store in the same process may keep it
// waiting longer.
func InTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	if s := storeOf(db); s != nil {
		return s.InTx(ctx, f)
	}
	return inTx(ctx, db, DefaultTxLimit, nil, f)
}

// InTx is the function InTx on connections of DB, with Options.TxLimit. It takes
// turns with the store's own steps, and after the commit it wakes idle workers of
// this process.
func (s *Store) InTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	if s.closed.Load() {
		return wrap("in tx", nexjob.ErrClosed)
	}
	if err := inTx(ctx, s.db, s.txLimit, s.lane, f); err != nil {
		return err
	}
	s.bell.Ring()
	return nil
}

func inTx(
	ctx context.Context, db *sql.DB, limit time.Duration, turns *lane, f func(tx *sql.Tx) error,
) error {
	if nexjob.InTx(ctx) {
		return wrap("in tx", nexjob.ErrInTransaction)
	}
	lock, err := lockStatement(turns)
	if err != nil {
		return wrap("in tx", err)
	}
	_, leave := nexjob.EnterTx(ctx)
	defer leave()
	tooLong := fmt.Errorf("the transaction held the file for longer than %s and was rolled back: "+
		"keep slow work, such as calls of other services, out of it, and enqueue in it with Client.In, "+
		"for Client.Enqueue waits until it ends", limit)
	// The transaction has a context of its own, which ends with the caller's, at the
	// limit, and never once the commit has begun.
	open, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	leaveCaller := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer leaveCaller()
	waiting := wait{since: onewriter.StartWait(onewriter.HostClock(nil))}
	if turns != nil {
		waiting.on = &turns.holder
		leaveTurn, err := turns.enter(open)
		if err != nil {
			return wrap("in tx", waiting.ended(open, err))
		}
		defer leaveTurn()
		// At the limit the file is free again, also while f has not noticed.
		defer context.AfterFunc(open, leaveTurn)()
	}
	conn, err := db.Conn(open)
	if err != nil {
		return wrap("in tx", ended(open, err))
	}
	defer func() { _ = conn.Close() }() // back to the pool, or gone with what broke it
	waiting.on.begins()
	tx, err := beginWriting(open, conn, lock)
	if err != nil {
		err = waiting.ended(open, err)
	}
	waiting.on.began(err)
	if err != nil {
		return wrap("in tx", err)
	}
	defer waiting.on.enter()()
	defer tx.Rollback()
	defer guard(conn, func() { end(errBroken) })()
	timer := time.AfterFunc(limit, func() { end(tooLong) })
	defer timer.Stop()
	if err := f(tx); err != nil {
		if open.Err() != nil {
			return wrap("in tx", ended(open, err))
		}
		return err
	}
	// What has begun to end the transaction may not be there yet.
	if !leaveCaller() {
		end(context.Cause(ctx))
	}
	if !timer.Stop() {
		end(tooLong)
	}
	if open.Err() != nil {
		return wrap("in tx", context.Cause(open))
	}
	if err := tx.Commit(); err != nil {
		if !isBusy(err) && !errors.Is(err, sql.ErrTxDone) {
			err = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
		}
		return wrap("in tx", err)
	}
	return nil
}

// lockStatement is what takes the write lock. A store has its sheet ready; to read it
// costs more than a small transaction does.
func lockStatement(turns *lane) (string, error) {
	const name = "take the write lock"
	if turns != nil {
		return turns.store.sheet[name], nil
	}
	statements, err := sqlstore.ParseSheet(statementText)
	return statements[name], err
}

// ended says why a transaction is over, beside what its next statement met.
func ended(open context.Context, err error) error {
	cause := context.Cause(open)
	if cause == nil || errors.Is(err, cause) {
		return explain(err)
	}
	return fmt.Errorf("%w (%w)", cause, err)
}

// guard calls broken when the connection's transaction is rolled back under us, and
// keeps later statements, which would then commit one by one, from it, until the
// returned function is called. Ending the context alone would not do: database/sql
// heeds it a moment later.
func guard(conn *sql.Conn, broken func()) (leave func()) {
	var over atomic.Bool
	hook := func(rollback driver.RollbackHookFn, commit driver.CommitHookFn) {
		_ = conn.Raw(func(c any) error {
			if hooks, ok := c.(driver.HookRegisterer); ok {
				hooks.RegisterRollbackHook(rollback)
				hooks.RegisterCommitHook(commit)
			}
			return nil
		})
	}
	hook(func() {
		over.Store(true)
		broken()
	}, func() int32 {
		if over.Load() {
			return 1
		}
		return 0
	})
	return func() { hook(nil, nil) }
}

// beginWriting begins a transaction and takes the write lock by a write that changes
// nothing, for it may begin its transactions DEFERRED. While others hold the lock it
// tries again: nothing has been read yet. It asks as often as the lane does, because it
// holds the lane's turn meanwhile, and with it the renewals of all leases: SQLite's own
// waiting comes to sleep for 100 ms, and a busy writer in another process leaves the file
// free for moments only.
func beginWriting(ctx context.Context, conn *sql.Conn, lock string) (*sql.Tx, error) {
	patient, err := impatient(ctx, conn)
	if err != nil {
		return nil, err
	}
	defer patient()
	for waited := time.Duration(0); ; {
		tx, err := conn.BeginTx(ctx, nil)
		if err == nil {
			if _, err = tx.ExecContext(ctx, lock); err == nil {
				return tx, nil
			}
			_ = tx.Rollback()
		}
		if !isBusy(err) {
			return nil, err
		}
		again := askAgain(waited)
		if err := pause(ctx, again); err != nil {
			return nil, err
		}
		waited += again
	}
}

// impatient lets the connection answer at once that the file is held, until the returned
// function gives it its own patience back.
func impatient(ctx context.Context, conn *sql.Conn) (patient func(), err error) {
	var busy int64 // milliseconds
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy); err != nil {
		return nil, err
	}
	set := func(ctx context.Context, busy int64) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busy))
		return err
	}
	if err := set(ctx, 0); err != nil {
		return nil, err
	}
	return func() { _ = set(context.WithoutCancel(ctx), busy) }, nil // it can only fail with the connection
}
