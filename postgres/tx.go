package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

const engine = "postgres"

// Tx wraps a caller's open transaction of pgx for Store.Join and client.In: what is done
// in it is visible on commit and gone on rollback. It may be of any isolation level: at
// REPEATABLE READ and SERIALIZABLE a key or a job that others have changed since the
// transaction's snapshot is answered with a serialization error, marked transient, after
// which the transaction is to be begun anew.
func Tx(tx pgx.Tx) nexjob.Tx { return pgxTx{tx} }

type pgxTx struct{ tx pgx.Tx }

// Engine names the engine whose Join takes the transaction.
func (pgxTx) Engine() string { return engine }

// SQLTransaction is an open transaction of database/sql, or of what stands on it: *sql.Tx,
// and those of sqlx, gorm and ent, have these methods, while a *sql.DB has not. Commit and
// Rollback are never called: they keep a *sql.DB out at compile time. Those of bun's Tx
// rewrite statements, which the first step answers: give its field Tx.
type SQLTransaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// SQLTx is Tx for a transaction of database/sql, on whichever driver of PostgreSQL.
func SQLTx(tx SQLTransaction) nexjob.Tx { return sqlTx{tx} }

type sqlTx struct{ tx SQLTransaction }

// Engine names the engine whose Join takes the transaction.
func (sqlTx) Engine() string { return engine }

var (
	errNoTx    = errors.New("there is none: it is nil, as after a Begin that failed; look at the error of that")
	errForeign = lasting("the transaction is not one of this store's database: begin it where the store was opened")
	errEnded   = fmt.Errorf("the transaction has ended: %w", nexjob.ErrClosed)
	errBroken  = lasting("a statement before has failed, so PostgreSQL does nothing more in this transaction: " +
		"roll it back and begin anew")
	errRewrites = lasting("the transaction's methods rewrite statements, as those of bun do: " +
		"give SQLTx the *sql.Tx within, which bun calls tx.Tx")
)

// Join returns the store's steps inside a transaction of Tx or SQLTx. What is wrong with
// the transaction is answered by the first step.
func (s *Store) Join(tx nexjob.Tx) (nexjob.Joined, error) {
	switch t := tx.(type) {
	case pgxTx:
		if t.tx == nil {
			return nil, fmt.Errorf("postgres: join: %w", errNoTx)
		}
		j := &joined{store: s, on: pgxRunner(t)}
		if n, ok := t.tx.(noter); ok {
			j.work = n.notes()
		}
		return j, nil
	case sqlTx:
		if plain, ok := t.tx.(*sql.Tx); t.tx == nil || ok && plain == nil {
			return nil, fmt.Errorf("postgres: join: %w", errNoTx)
		}
		return &joined{store: s, on: wire.SQL{Tx: t.tx}}, nil
	}
	return nil, fmt.Errorf("postgres: join: a transaction of postgres.Tx or postgres.SQLTx is wanted, not one of %s: %w",
		tx.Engine(), nexjob.ErrUnsupported)
}

// pgxRunner runs statements on the connection of a transaction of pgx.
type pgxRunner struct{ tx pgx.Tx }

// Run runs a statement. A transaction that has ended may still name its connection, which
// is somebody else's by then; an empty batch costs no round trip, and it refuses it.
func (p pgxRunner) Run(ctx context.Context, s wire.Statement, take func(wire.Row) error, args ...wire.Arg) (int64, error) {
	if err := p.tx.SendBatch(ctx, new(pgx.Batch)).Close(); err != nil {
		return 0, err
	}
	return wire.NewConn(p.tx.Conn()).Run(ctx, s, take, args...)
}

// joined is a store inside a caller's transaction.
type joined struct {
	store *Store
	on    wire.Runner
	ours  bool  // the transaction is one of these tables' database
	work  *made // nil: nobody rings after the commit
}

// rings notes that those who wait for work are to hear of the commit.
func (j *joined) rings() {
	if j.work != nil {
		j.work.add(j.store)
	}
}

// enter checks a call, and that the transaction is one of the store's database.
func (j *joined) enter(ctx context.Context, now time.Time) error {
	if err := j.store.check(ctx, now); err != nil || j.ours {
		return err
	}
	id := ""
	in := session{sheet: j.store.sheet, on: j.on}
	_, err := in.run(ctx, "meta", func(row wire.Row) error {
		id = row.Text(1)
		return nil
	}, wire.Text("store"))
	switch {
	case err == nil && id != j.store.id:
		err = errForeign
	case err != nil && (codeOf(err) == codeNoParameter || codeOf(err) == "" && j.answers(ctx)):
		err = fmt.Errorf("%w (%w)", errRewrites, err) // a driver without a code has refused a statement without its arguments
	}
	j.ours = err == nil
	return err
}

// answers reports whether the transaction does what needs no arguments.
func (j *joined) answers(ctx context.Context) bool {
	_, err := j.on.Run(ctx, dynamic("SELECT 1"), nil)
	return err == nil
}

// within runs one step in a unit. After an error the transaction can only be rolled back.
func within[T any](ctx context.Context, j *joined, verb string, now time.Time, f work[T]) (T, error) {
	var none T
	waited := j.store.wait()
	if err := j.enter(ctx, now); err != nil {
		return none, wrap(verb, explain(err))
	}
	r := &rows{session: session{sheet: j.store.sheet, on: j.on}}
	u := onewriter.Join(r, waited.Add(now))
	answer, err := f(ctx, u, r)
	if err == nil {
		_, err = u.End(ctx)
	}
	if err == nil {
		err = r.end(ctx)
	}
	if err != nil {
		return none, wrap(verb, explain(err))
	}
	if u.Rings() {
		j.rings()
	}
	return answer, nil
}

// explain says in words what PostgreSQL's answer means for a caller's transaction.
func explain(err error) error {
	switch {
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, pgx.ErrTxClosed):
		return errEnded
	case codeOf(err) == codeAborted:
		return fmt.Errorf("%w (%w)", errBroken, err)
	case codeOf(err) == codeNoTable, codeOf(err) == codeNoFunction, codeOf(err) == codeNoSchema:
		return fmt.Errorf("%w (%w)", errForeign, err)
	case errors.Is(err, errRaced):
		return &nexjob.TransientError{Err: err}
	}
	return err
}

// Enqueue adds jobs in the transaction.
func (j *joined) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	p := planOf(jobs)
	if p.whole || len(jobs) == 0 {
		return within(ctx, j, "enqueue", now, func(ctx context.Context, u *onewriter.Unit, _ *rows) ([]nexjob.Answer, error) {
			return u.Enqueue(ctx, jobs)
		})
	}
	waited := j.store.wait()
	if err := j.enter(ctx, now); err != nil {
		return nil, wrap("enqueue", explain(err))
	}
	answers := p.answers
	var left []int
	call := j.adding(now, jobs, p.first, answers, &left)
	if _, err := j.on.Run(ctx, call.Statement, call.Take, call.Args...); err != nil {
		return nil, wrap("enqueue", explain(err))
	}
	if slices.ContainsFunc(answers, madeWork) {
		j.rings()
	}
	if left = append(left, p.later...); len(left) == 0 {
		return answers, nil
	}
	slices.Sort(left)
	_, err := within(ctx, j, "enqueue", waited.Add(now), func(ctx context.Context, u *onewriter.Unit, _ *rows) (struct{}, error) {
		return struct{}{}, enqueueLeft(ctx, u, jobs, left, answers)
	})
	return answers, err
}

// adding is the hot statement for some of the items. One alone makes no subtransaction: beyond
// 64 of them in one transaction, every snapshot of the server pays.
func (j *joined) adding(
	now time.Time, jobs []nexjob.NewJob, which []int, answers []nexjob.Answer, left *[]int,
) wire.Call {
	if len(which) != 1 {
		return j.store.adding(now, jobs, which, forever, answers, left, leaving)
	}
	at, isLeft := which[0], false
	call := j.store.addingOne(now, &jobs[at], forever, &answers[at], &isLeft)
	take := call.Take
	call.Take = func(row wire.Row) error {
		err := take(row)
		if isLeft {
			*left = append(*left, at)
		}
		return err
	}
	return call
}

// Settle ends attempts in the transaction.
func (j *joined) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return within(ctx, j, "settle", now, func(ctx context.Context, u *onewriter.Unit, r *rows) ([]nexjob.Settled, error) {
		return settleIn(ctx, u, r, ends)
	})
}

// Record writes receipts in the transaction.
func (j *joined) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	return within(ctx, j, "record", now, func(ctx context.Context, u *onewriter.Unit, _ *rows) ([]nexjob.Recorded, error) {
		return u.Record(ctx, receipts)
	})
}

// Find returns one page as the transaction sees it.
func (j *joined) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	err := j.enter(ctx, now)
	var page nexjob.Page
	if err == nil {
		page, err = session{sheet: j.store.sheet, on: j.on}.find(ctx, now, &q)
	}
	if err != nil {
		return nexjob.Page{}, wrap("find", explain(err))
	}
	return page, nil
}

// Clock returns the server's time, by the transaction's own connection.
func (j *joined) Clock(ctx context.Context) (time.Time, error) {
	if j.store.clock != nil || j.store.closed.Load() {
		return j.store.Clock(ctx)
	}
	var now time.Time
	_, err := session{sheet: j.store.sheet, on: j.on}.run(ctx, "clock", func(row wire.Row) error {
		now = time.UnixMicro(row.Int64(0)).UTC()
		return nil
	})
	return now, wrap("clock", explain(err))
}
