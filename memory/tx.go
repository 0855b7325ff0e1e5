package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

const engine = "memory"

// Tx is a transaction of a Store: what is done in it is visible on Commit and gone
// on Rollback. Everybody else waits meanwhile, as with the writer of SQLite.
type Tx struct {
	store *Store
	rang  bool
	ended bool
}

// Begin starts a transaction when nobody else writes.
func (s *Store) Begin(ctx context.Context) (*Tx, error) {
	if _, err := s.lock(ctx, s.clock()); err != nil {
		return nil, fmt.Errorf("memory: begin: %w", err)
	}
	return &Tx{store: s}, nil
}

// Engine names the engine whose Join takes the transaction.
func (t *Tx) Engine() string { return engine }

// Commit makes what was done visible and wakes those who wait for work.
func (t *Tx) Commit() error {
	if t.ended {
		return fmt.Errorf("memory: commit: %w", nexjob.ErrClosed)
	}
	t.ended = true
	t.store.tables.commit()
	t.store.unlock()
	if t.rang {
		t.store.bell.Ring()
	}
	return nil
}

// Rollback undoes what was done. After Commit it answers ErrClosed and does
// nothing, so it may be deferred.
func (t *Tx) Rollback() error {
	if t.ended {
		return fmt.Errorf("memory: rollback: %w", nexjob.ErrClosed)
	}
	t.ended = true
	t.store.tables.rollback()
	t.store.unlock()
	return nil
}

// InTx runs f in a transaction that commits when f returns nil. Calls that are not
// made in the transaction answer nexjob.ErrInTransaction while f runs, where ctx is
// a run's.
func InTx(ctx context.Context, s *Store, f func(tx *Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	_, leave := nexjob.EnterTx(ctx)
	defer leave()
	defer func() { _ = tx.Rollback() }() // ended already, unless f failed or panicked
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Join returns the store's steps inside a transaction of Begin.
func (s *Store) Join(tx nexjob.Tx) (nexjob.Joined, error) {
	t, ok := tx.(*Tx)
	if !ok || t.store != s {
		return nil, fmt.Errorf("memory: join: a transaction of this store is wanted, not one of %s; test with a store of that engine: %w",
			tx.Engine(), nexjob.ErrUnsupported)
	}
	return joined{t}, nil
}

// joined is a store inside a caller's transaction.
type joined struct{ tx *Tx }

func within[T any](
	ctx context.Context, j joined, verb string, now time.Time, f func(u *onewriter.Unit) (T, error),
) (T, error) {
	var none T
	if j.tx.ended {
		return none, fmt.Errorf("memory: %s: the transaction has ended: %w", verb, nexjob.ErrClosed)
	}
	if err := j.tx.store.check(ctx, now); err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	unit := onewriter.Join(j.tx.store.tables, now)
	answer, err := f(unit)
	if err == nil {
		_, err = unit.End(ctx)
	}
	if err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	j.tx.rang = j.tx.rang || unit.Rings()
	return answer, nil
}

// Enqueue adds jobs in the transaction.
func (j joined) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	return within(ctx, j, "enqueue", now, func(u *onewriter.Unit) ([]nexjob.Answer, error) {
		return u.Enqueue(ctx, jobs)
	})
}

// Settle ends attempts in the transaction.
func (j joined) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return within(ctx, j, "settle", now, func(u *onewriter.Unit) ([]nexjob.Settled, error) {
		return u.Settle(ctx, ends)
	})
}

// Record writes receipts in the transaction.
func (j joined) Record(
	ctx context.Context, now time.Time, receipts []nexjob.Receipt,
) ([]nexjob.Recorded, error) {
	return within(ctx, j, "record", now, func(u *onewriter.Unit) ([]nexjob.Recorded, error) {
		return u.Record(ctx, receipts)
	})
}

// Find returns one page as the transaction sees it.
func (j joined) Find(_ context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	if j.tx.ended {
		return nexjob.Page{}, fmt.Errorf("memory: find: the transaction has ended: %w", nexjob.ErrClosed)
	}
	return j.tx.store.tables.find(now, &q)
}
