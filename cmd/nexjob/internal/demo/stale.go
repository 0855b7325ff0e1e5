package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/sqlite"
)

// StaleWrite is an attempt to write under the lease of a worker that was killed.
type StaleWrite struct {
	OrderID int64
	What    string
	Err     error // nil: it was accepted, which must never be
}

// stale makes the writes that a killed worker would still make had it only been
// frozen, once its job runs again under a new lease: it settles the job, and it
// commits the invoice together with the job's success. Both must be refused with
// nexjob.ErrLeaseLost. A killed process cannot do it itself, so the demo does it
// with what the process knew: the job's ID and its fence.
type stale struct {
	store nexjob.Storage
	db    *sql.DB
	clock *nexjob.StorageTime

	mu     sync.Mutex
	dead   map[int64][]nexjob.Lease
	writes []StaleWrite
}

func newStale(store nexjob.Storage, db *sql.DB) *stale {
	return &stale{store: store, db: db, clock: nexjob.NewStorageTime(store), dead: make(map[int64][]nexjob.Lease)}
}

// died remembers the lease of a killed attempt.
func (s *stale) died(k Kill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[k.OrderID] = append(s.dead[k.OrderID], k.Lease)
}

// rise writes for the dead attempts of an order whose charge is asked for again.
func (s *stale) rise(ctx context.Context, call outside.Call) {
	order := orderOf(call)
	s.mu.Lock()
	dead := s.dead[order]
	delete(s.dead, order)
	s.mu.Unlock()
	for _, lease := range dead {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		settle, commit := s.settle(ctx, lease), s.commit(ctx, order, lease)
		cancel()
		s.mu.Lock()
		s.writes = append(s.writes,
			StaleWrite{order, "settlement", settle}, StaleWrite{order, "transaction", commit})
		s.mu.Unlock()
	}
}

// settle ends the job as failed.
func (s *stale) settle(ctx context.Context, lease nexjob.Lease) error {
	return s.clock.Do(ctx, func(now time.Time) error {
		settled, err := s.store.Settle(ctx, now, []nexjob.Settlement{
			{Lease: lease, As: nexjob.EndFailed, Error: "a stale worker's word"},
		})
		return refusal(settled, err)
	})
}

// commit writes the invoice and ends the job as succeeded, in one transaction.
func (s *stale) commit(ctx context.Context, order int64, lease nexjob.Lease) error {
	return s.clock.Do(ctx, func(now time.Time) error {
		return sqlite.InTx(ctx, s.db, func(tx *sql.Tx) error {
			if err := book(ctx, tx, outside.Payment{ID: "stale", OrderID: order}, lease); err != nil {
				return err
			}
			joined, err := s.store.Join(sqlite.Tx(tx))
			if err != nil {
				return fmt.Errorf("demo: join: %w", err)
			}
			settled, err := joined.Settle(ctx, now, []nexjob.Settlement{{Lease: lease, As: nexjob.EndSucceeded}})
			return refusal(settled, err)
		})
	})
}

// refusal is the error of the one settlement.
func refusal(settled []nexjob.Settled, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("demo: settle: %w", err)
	case len(settled) != 1:
		return fmt.Errorf("demo: settle: %d answers for one settlement", len(settled))
	}
	return settled[0].Err
}

// list returns what was tried.
func (s *stale) list() []StaleWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.writes)
}

// refused reports whether the write was refused for the reason it must be.
func (w *StaleWrite) refused() bool { return errors.Is(w.Err, nexjob.ErrLeaseLost) }
