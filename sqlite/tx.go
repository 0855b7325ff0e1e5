package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	code "modernc.org/sqlite/lib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

const engine = "sqlite"

// SQLTx is an open transaction of database/sql, or of what stands on it: *sql.Tx,
// and those of sqlx, gorm and ent, have these methods, while a *sql.DB has not.
// Commit and Rollback are never called: they keep a *sql.DB out at compile time.
// Those of bun's Tx rewrite statements, which the first step answers: give its field Tx.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// Tx wraps a caller's open transaction for Store.Join and client.In: what is done in
// it is visible on commit and gone on rollback. It must be one of the store's own
// file, and one that may write: begun by InTx, by Store.DB, or IMMEDIATE. A
// transaction that began DEFERRED and has read is refused when others have written
// since, for SQLite will never let it write.
func Tx(tx SQLTx) nexjob.Tx { return callersTx{tx} }

type callersTx struct{ tx SQLTx }

// Engine names the engine whose Join takes the transaction.
func (callersTx) Engine() string { return engine }

var (
	errStale = errors.New("the transaction has read before it wrote, and others have written since: " +
		"SQLite will never let it write; use sqlite.InTx, or begin it IMMEDIATE (_txlock=immediate)")
	errNoTx     = errors.New("there is none: it is nil, as after a Begin that failed; look at the error of that")
	errForeign  = errors.New("the transaction is not one of this store's file")
	errRewrites = errors.New("the transaction's methods rewrite statements, as those of bun do: " +
		"give sqlite.Tx the *sql.Tx within, which bun calls tx.Tx")
	errEnded  = fmt.Errorf("the transaction has ended: %w", nexjob.ErrClosed)
	errBroken = fmt.Errorf("a statement that failed has rolled the whole transaction back, and what came after "+
		"it stands alone: return that statement's error: %w", nexjob.ErrClosed)
)

// Join returns the store's steps inside a transaction of Tx. What is wrong with the
// transaction is answered by the first step.
func (s *Store) Join(tx nexjob.Tx) (nexjob.Joined, error) {
	t, ok := tx.(callersTx)
	if !ok {
		return nil, fmt.Errorf("sqlite: join: a transaction of sqlite.Tx is wanted, not one of %s: %w",
			tx.Engine(), nexjob.ErrUnsupported)
	}
	if plain, ok := t.tx.(*sql.Tx); t.tx == nil || ok && plain == nil {
		return nil, fmt.Errorf("sqlite: join: %w", errNoTx)
	}
	return &joined{store: s, on: &session{sheet: s.sheet, on: t.tx}}, nil
}

// joined is a store inside a caller's transaction.
type joined struct {
	store  *Store
	on     *session
	ours   bool // the transaction is one of this file
	writes bool // it holds the write lock
}

// within runs one step: it happens as a whole or, with an error, not at all, and the
// transaction can go on.
func within[T any](
	ctx context.Context, j *joined, verb string, now time.Time, f func(ctx context.Context, u *onewriter.Unit) (T, error),
) (T, error) {
	var none T
	if err := j.store.check(ctx, now); err != nil {
		return none, wrap(verb, err)
	}
	wait := onewriter.StartWait(j.store.clock)
	// An interrupt in the middle of a write would roll the whole transaction back.
	ctx = context.WithoutCancel(ctx)
	if err := j.lock(ctx); err != nil {
		return none, wrap(verb, explain(err))
	}
	if _, err := j.on.on.ExecContext(ctx, "SAVEPOINT nexjob_step"); err != nil {
		return none, wrap(verb, explain(err))
	}
	// What a session has seen is not true any more once the caller has rolled back to a
	// savepoint, so each step has its own.
	own := &session{sheet: j.on.sheet, on: j.on.on}
	unit := onewriter.Join(&rows{session: own, pulses: new(pulseText)}, wait.Add(now))
	answer, err := f(ctx, unit)
	if err == nil {
		_, err = unit.End(ctx)
	}
	end := "RELEASE nexjob_step"
	if err != nil {
		end = "ROLLBACK TO nexjob_step; RELEASE nexjob_step"
	}
	if _, endErr := j.on.on.ExecContext(ctx, end); err == nil {
		err = endErr
	}
	if err != nil {
		return none, wrap(verb, explain(err))
	}
	return answer, nil
}

// alive sees that the transaction is still open. SQLite ends one by itself at a full
// disk, at an interrupted write and where ON CONFLICT ROLLBACK asks for it; what
// database/sql then sends runs without one, and a settlement would commit although
// the rows before it are gone. SQLite tells by refusing to begin within a transaction.
func (j *joined) alive(ctx context.Context) error {
	_, err := j.on.on.ExecContext(ctx, "BEGIN")
	if codeOf(err) == code.SQLITE_ERROR {
		return nil
	}
	if err == nil {
		_, err = j.on.on.ExecContext(ctx, "ROLLBACK")
		err = errors.Join(errBroken, err)
	}
	return err
}

// lock takes the file's write lock before anything is read, and sees that the file
// is the store's.
func (j *joined) lock(ctx context.Context) error {
	if err := j.alive(ctx); err != nil || j.writes {
		return err
	}
	if _, err := j.on.exec(ctx, "take the write lock"); err != nil {
		return err
	}
	j.writes = true
	return j.own(ctx)
}

// own sees that the transaction is one of the store's file.
func (j *joined) own(ctx context.Context) error {
	if j.ours {
		return nil
	}
	if err := j.rewrites(ctx); err != nil {
		return err
	}
	id, err := identity(ctx, j.on.on, j.on.sheet)
	if err == nil && id != j.store.id {
		err = errForeign
	}
	j.ours = err == nil
	return err
}

// rewrites refuses a transaction whose methods put arguments elsewhere than SQLite does,
// which might go unnoticed: bun's count places from 0.
func (j *joined) rewrites(ctx context.Context) error {
	same := false
	rows, err := j.on.on.QueryContext(ctx, "SELECT ?2 = 'b' AND ?1 = 'a'", "a", "b")
	if err == nil {
		defer rows.Close()
		for rows.Next() {
			err = errors.Join(err, rows.Scan(&same))
		}
		err = errors.Join(err, rows.Err())
	}
	switch {
	case err != nil && j.alive(ctx) != nil:
		return err
	case err != nil:
		return fmt.Errorf("%w (%w)", errRewrites, err)
	case !same:
		return errRewrites
	}
	return nil
}

// explain says in words what SQLite's answer means for a caller's transaction.
func explain(err error) error {
	switch {
	case errors.Is(err, sql.ErrTxDone):
		return errEnded
	case isStale(err):
		return fmt.Errorf("%w (%w)", errStale, err)
	case codeOf(err) == code.SQLITE_ERROR: // no such table
		return fmt.Errorf("%w (%w)", errForeign, err)
	}
	return err
}

// Enqueue adds jobs in the transaction.
func (j *joined) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	return within(ctx, j, "enqueue", now, func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Answer, error) {
		return u.Enqueue(ctx, jobs)
	})
}

// Settle ends attempts in the transaction.
func (j *joined) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return within(ctx, j, "settle", now, func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Settled, error) {
		return u.Settle(ctx, ends)
	})
}

// Record writes receipts in the transaction.
func (j *joined) Record(
	ctx context.Context, now time.Time, receipts []nexjob.Receipt,
) ([]nexjob.Recorded, error) {
	return within(ctx, j, "record", now, func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Recorded, error) {
		return u.Record(ctx, receipts)
	})
}

// Find returns one page as the transaction sees it.
func (j *joined) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	err := j.store.check(ctx, now)
	if err == nil {
		err = j.alive(context.WithoutCancel(ctx))
	}
	if err == nil {
		err = j.own(ctx)
	}
	var page nexjob.Page
	if err == nil {
		page, err = j.on.find(ctx, now, &q)
	}
	if err != nil {
		return nexjob.Page{}, wrap("find", explain(err))
	}
	return page, nil
}
