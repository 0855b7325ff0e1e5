package harm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
)

// StaleWrite is an attempt to write under the lease of a worker that was killed or frozen.
type StaleWrite struct {
	Lease nexjob.Lease
	What  string
	Err   error // nil: it was accepted, which must never be
}

// Refused reports whether the write was refused for the reason it must be.
func (w *StaleWrite) Refused() bool { return errors.Is(w.Err, nexjob.ErrLeaseLost) }

// Ghost makes the writes that a killed worker would still make had it only been frozen,
// once its lease is over: it settles the job, and it commits a row of the shop's together
// with the job's success. Both must be refused with nexjob.ErrLeaseLost. A killed process
// cannot do it itself, so the demo does it with what the process knew: the job's ID and
// its fence. What a thawed process writes, it writes itself; the ghost then adds what it
// would have written had it not noticed.
type Ghost struct {
	store  nexjob.Storage
	client *nexjob.Client
	books  shop.Books
	clock  *nexjob.StorageTime

	mu     sync.Mutex
	writes []StaleWrite
}

// NewGhost returns a ghost on a storage and the books beside it.
func NewGhost(store nexjob.Storage, client *nexjob.Client, books shop.Books) *Ghost {
	return &Ghost{store: store, client: client, books: books, clock: nexjob.NewStorageTime(store)}
}

// over waits until the lease is no longer its job's: another attempt runs, or the job
// was put back or ended.
func (g *Ghost) over(ctx context.Context, lease nexjob.Lease) bool {
	for g.current(ctx, lease) {
		if !wait(ctx, tick) {
			return false
		}
	}
	return ctx.Err() == nil
}

// current reports whether the lease may still be its job's; it may, where nobody can tell.
func (g *Ghost) current(ctx context.Context, lease nexjob.Lease) bool {
	job, err := g.client.Job(ctx, lease.Job)
	return err != nil || job.Fence == lease.Fence && job.State == nexjob.Processing
}

// free reports whether the storage can be written within so long a wait. Where many write
// at a time, it always can.
func (g *Ghost) free(ctx context.Context, patience time.Duration) bool {
	if !g.books.InOrder() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return g.books.InTx(ctx, func(shop.Tx) error { return nil }) == nil
}

// breath is how long a process that kept what others wait for goes on until it is stopped
// again. On a server its renewal is overdue by then, and must be through.
func (g *Ghost) breath() time.Duration {
	if g.books.InOrder() {
		return tick / 4
	}
	return cast.Lease / 8
}

// rise makes the writes once the lease is over.
func (g *Ghost) rise(ctx context.Context, lease nexjob.Lease) {
	if !g.over(ctx, lease) {
		return // the audit misses the writes
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	settle := cast.Patiently(ctx, func() error { return g.settle(ctx, lease) })
	commit := cast.Patiently(ctx, func() error { return g.commit(ctx, lease) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes = append(g.writes, StaleWrite{lease, "settlement", settle}, StaleWrite{lease, "transaction", commit})
}

// settle ends the job as failed.
func (g *Ghost) settle(ctx context.Context, lease nexjob.Lease) error {
	return g.clock.Do(ctx, func(now time.Time) error {
		settled, err := g.store.Settle(ctx, now, []nexjob.Settlement{
			{Lease: lease, As: nexjob.EndFailed, Error: "a stale worker's word"},
		})
		return refusal(settled, err)
	})
}

// commit writes an invoice that nobody owes and ends the job as succeeded, in one
// transaction. The time is taken inside: on a busy machine the file is waited for, and the
// storage refuses a time that is a second old.
func (g *Ghost) commit(ctx context.Context, lease nexjob.Lease) error {
	return g.books.InTx(ctx, func(tx shop.Tx) error {
		err := tx.Exec(ctx, `INSERT INTO invoices (order_id, cents, charge, job, fence)
			VALUES (0, 0, 'stale', $1, $2)`, lease.Job.String(), lease.Fence)
		if err != nil {
			return fmt.Errorf("demo: write a stale invoice: %w", err)
		}
		joined, err := g.store.Join(tx.Jobs())
		if err != nil {
			return fmt.Errorf("demo: join: %w", err)
		}
		return g.clock.Do(ctx, func(now time.Time) error {
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

// Writes returns what was tried.
func (g *Ghost) Writes() []StaleWrite {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.writes)
}
