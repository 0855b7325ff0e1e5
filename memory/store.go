package memory

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
)

// Options are the choices of a Store. The zero value is right for all but tests.
type Options struct {
	// Clock is the storage's clock; nil: time.Now.
	Clock func() time.Time
}

// Store is a storage engine in memory. It may be used by many goroutines at once;
// there is one writer at a time. Make one with New.
type Store struct {
	clock  func() time.Time
	bell   *nexjob.Bell
	writer chan struct{} // holds a token while nobody uses the tables
	tables *tables
	closed atomic.Bool
}

var (
	_ nexjob.Storage = (*Store)(nil)
	_ nexjob.Ringer  = (*Store)(nil)

	_ nexjob.Forecaster = (*Store)(nil)
)

// New returns an empty store.
func New(options Options) *Store {
	s := &Store{
		clock: onewriter.HostClock(options.Clock), bell: nexjob.NewBell(),
		writer: make(chan struct{}, 1), tables: newTables(),
	}
	s.writer <- struct{}{}
	return s
}

// Bell rings after each step that made a job claimable or ended one.
func (s *Store) Bell() *nexjob.Bell { return s.bell }

// Clock returns the store's time.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	if s.closed.Load() {
		return time.Time{}, fmt.Errorf("memory: clock: %w", nexjob.ErrClosed)
	}
	return rules.Micro(s.clock()), ctx.Err()
}

// Migrate does nothing: there is no schema.
func (s *Store) Migrate(ctx context.Context) error { return ctx.Err() }

// Close makes every later step answer ErrClosed. What was stored is lost.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// lock takes the tables and returns now with the time that the waiting took, so
// that a lease runs from the moment its row is locked. Under a transaction that the
// caller holds open it would wait for itself.
func (s *Store) lock(ctx context.Context, now time.Time) (time.Time, error) {
	if err := s.check(ctx, now); err != nil {
		return now, err
	}
	if nexjob.InTx(ctx) {
		return now, nexjob.ErrInTransaction
	}
	wait := onewriter.StartWait(s.clock)
	select {
	case <-s.writer:
		return wait.Add(now), nil
	case <-ctx.Done():
		return now, fmt.Errorf("waited for the store, which a transaction holds: end that sooner, or wait longer: %w", ctx.Err())
	}
}

func (s *Store) unlock() { s.writer <- struct{}{} }

func (s *Store) check(ctx context.Context, now time.Time) error {
	if s.closed.Load() {
		return nexjob.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return onewriter.Guard(s.clock, now)
}

// step runs one write transaction: f's changes stand together, or, when it answers
// an error, not at all.
func step[T any](
	ctx context.Context, s *Store, verb string, now time.Time, f func(u *onewriter.Unit) (T, error),
) (T, error) {
	var none T
	now, err := s.lock(ctx, now)
	if err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	defer s.unlock()
	// The step is not interrupted half-way: the caller's context ends only its wait.
	ctx = context.WithoutCancel(ctx)
	// Of a step that fails, or panics, nothing is left.
	defer s.tables.rollback()
	unit, err := onewriter.Begin(ctx, s.tables, now)
	var answer T
	if err == nil {
		answer, err = f(unit)
	}
	if err == nil {
		_, err = unit.End(ctx)
	}
	if err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	s.tables.commit()
	if unit.Rings() {
		s.bell.Ring()
	}
	return answer, nil
}

// Enqueue adds jobs; see nexjob.Queue.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	return step(ctx, s, "enqueue", now, func(u *onewriter.Unit) ([]nexjob.Answer, error) {
		return u.Enqueue(ctx, jobs)
	})
}

// Claim leases due jobs; see nexjob.Queue.
func (s *Store) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	return step(ctx, s, "claim", now, func(u *onewriter.Unit) ([]nexjob.Claimed, error) {
		claimed, err := u.Claim(ctx, ask)
		for i := range claimed {
			claimed[i].Job = clone(claimed[i].Job)
			cloneReceipts(claimed[i].Receipts)
		}
		return claimed, err
	})
}

// Renew extends leases; see nexjob.Queue. While a transaction is open for longer than
// the caller can wait, all are busy.
func (s *Store) Renew(
	ctx context.Context, now, until time.Time, leases []nexjob.Lease,
) ([]nexjob.Renewal, error) {
	length := until.Sub(now)
	patient, cancel := onewriter.Patience(ctx, length)
	defer cancel()
	answers, err := step(patient, s, "renew", now, func(u *onewriter.Unit) ([]nexjob.Renewal, error) {
		return u.Renew(ctx, length, leases)
	})
	if onewriter.Impatient(ctx, patient, err) {
		answers = make([]nexjob.Renewal, len(leases))
		for i := range answers { // the tables are not to be read: a transaction is open on them
			answers[i].Status = nexjob.Busy
		}
		return answers, nil
	}
	return answers, err
}

// Settle ends attempts; see nexjob.Queue.
func (s *Store) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return step(ctx, s, "settle", now, func(u *onewriter.Unit) ([]nexjob.Settled, error) {
		return u.Settle(ctx, ends)
	})
}

// Record writes receipts; see nexjob.Ledger.
func (s *Store) Record(
	ctx context.Context, now time.Time, receipts []nexjob.Receipt,
) ([]nexjob.Recorded, error) {
	return step(ctx, s, "record", now, func(u *onewriter.Unit) ([]nexjob.Recorded, error) {
		return u.Record(ctx, receipts)
	})
}

// Amend applies an action to jobs; see nexjob.Archive.
func (s *Store) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	return step(ctx, s, "amend", now, func(u *onewriter.Unit) (nexjob.Amended, error) {
		return u.Amend(ctx, q, do, limit)
	})
}

// Put compares and swaps entries; see nexjob.Registry.
func (s *Store) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	return step(ctx, s, "put", now, func(u *onewriter.Unit) ([]nexjob.PutAnswer, error) {
		return u.Put(ctx, puts)
	})
}
