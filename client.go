package nexjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Client enqueues jobs and looks after them. It is safe for concurrent use; one per
// process is enough. The one goroutine that it starts writes down the decisions
// about duplicates and ends by itself; Close waits for it.
type Client struct {
	store     Storage
	time      *StorageTime
	bell      *Bell  // nil: the engine has none
	ring      func() // rings the bell; nil without one
	log       *slog.Logger
	strict    bool
	counts    clientCounts
	decisions *decisionLog
	closed    atomic.Bool
}

// ClientOptions are the choices of a client. The zero value works.
type ClientOptions struct {
	Logger *slog.Logger // default slog.Default()
	// StrictArgs makes every enqueue strict: an equal key with different args is
	// *KeyMismatchError. Without it each NewJob chooses for itself.
	StrictArgs bool
}

// errNoStorage answers every call of a client that stands on nothing.
var errNoStorage = errors.New("NewClient was given no storage")

// NewClient returns a client on a storage, which it neither migrates nor closes.
func NewClient(store Storage, options ClientOptions) *Client {
	c := &Client{
		store:  store,
		time:   NewStorageTime(store),
		log:    options.Logger,
		strict: options.StrictArgs,
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	if ringer, ok := store.(Ringer); ok {
		c.bell = ringer.Bell()
		c.ring = c.bell.Ring
	}
	c.decisions = newDecisionLog(store, c.time, c.log)
	return c
}

// Find returns one page of what the query selects. It never writes.
func (c *Client) Find(ctx context.Context, q Query) (Page, error) {
	var page Page
	err := c.do(ctx, "find", func(now time.Time) (err error) {
		page, err = c.store.Find(ctx, now, q)
		return err
	})
	return page, err
}

// Job returns the record of one job, or ErrNotFound.
func (c *Client) Job(ctx context.Context, id ID) (Job, error) {
	page, err := c.Find(ctx, Query{IDs: []ID{id}, Limit: 1})
	if err != nil {
		return Job{}, err
	}
	if len(page.Jobs) == 0 {
		return Job{}, fmt.Errorf("nexjob: job %s: %w", id, ErrNotFound)
	}
	return page.Jobs[0], nil
}

// Count tallies the jobs that the query selects by queue, kind and reported state,
// ignoring its page fields.
func (c *Client) Count(ctx context.Context, q Query) ([]Tally, error) {
	var tallies []Tally
	err := c.do(ctx, "count", func(now time.Time) (err error) {
		tallies, err = c.store.Count(ctx, now, q)
		return err
	})
	return tallies, err
}

// Close writes down the decisions that are still pending and waits for it until
// ctx ends; what could not be written is lost and counted. Enqueue and Amend answer
// ErrClosed afterwards. Close it before the storage; closing twice is harmless.
func (c *Client) Close(ctx context.Context) error {
	c.closed.Store(true)
	if err := c.decisions.close(ctx); err != nil {
		return fmt.Errorf("nexjob: close: %w", err)
	}
	return nil
}

// do makes one step at the storage's time and wraps its error with the verb.
func (c *Client) do(ctx context.Context, verb string, step func(now time.Time) error) error {
	if c.store == nil {
		return fmt.Errorf("nexjob: %s: %w", verb, errNoStorage)
	}
	if err := c.time.Do(ctx, step); err != nil {
		return fmt.Errorf("nexjob: %s: %w", verb, err)
	}
	return nil
}

// writable refuses a write that the client must not begin: after Close, and under
// a transaction of the caller, for which it could only wait.
func (c *Client) writable(ctx context.Context, verb string) error {
	if c.store == nil {
		return fmt.Errorf("nexjob: %s: %w", verb, errNoStorage)
	}
	if c.closed.Load() {
		return fmt.Errorf("nexjob: %s: %w", verb, ErrClosed)
	}
	if InTx(ctx) {
		return fmt.Errorf("nexjob: %s: %w; use Client.In with the transaction", verb, ErrInTransaction)
	}
	return nil
}

// ClientStats are what a client counted since it was made.
type ClientStats struct {
	Created, Existing, Replaced int64 // answers without an error
	Rejected, Mismatched        int64 // *DuplicateJobError, *KeyMismatchError
	Failed                      int64 // items with another error, such as *InvalidError
	ArgsDiffer                  int64 // answers for an equal key with different args
	Repeated                    int64 // enqueues repeated after transient trouble
	DecisionsLost               int64 // decisions about duplicates that were never written down
}

type clientCounts struct {
	outcomes             [Mismatched + 1]atomic.Int64 // 0: failed
	argsDiffer, repeated atomic.Int64
}

// Stats returns the client's counters. They are this process's alone.
func (c *Client) Stats() ClientStats {
	n := &c.counts
	return ClientStats{
		Created:       n.outcomes[Created].Load(),
		Existing:      n.outcomes[Existing].Load(),
		Replaced:      n.outcomes[Replaced].Load(),
		Rejected:      n.outcomes[Rejected].Load(),
		Mismatched:    n.outcomes[Mismatched].Load(),
		Failed:        n.outcomes[0].Load(),
		ArgsDiffer:    n.argsDiffer.Load(),
		Repeated:      n.repeated.Load(),
		DecisionsLost: c.decisions.lost.Load(),
	}
}
