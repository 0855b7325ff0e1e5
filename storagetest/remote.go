package storagetest

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
)

// remote is a storage that Serve serves at the other end of a pipe.
type remote struct {
	clock func() time.Time
	in    io.WriteCloser

	number atomic.Uint64
	closed atomic.Bool

	mu      sync.Mutex // guards the rest
	encoder *gob.Encoder
	waiting map[uint64]chan response
	broken  error
}

var _ nexjob.Storage = (*remote)(nil)

// Remote returns the storage that Serve serves: it writes requests to in and reads
// answers from out. Closing it closes in, upon which Serve returns. It offers no
// caller's transactions.
func Remote(in io.WriteCloser, out io.Reader, clock func() time.Time) nexjob.Storage {
	registerErrors()
	m := &remote{clock: clock, in: in, encoder: gob.NewEncoder(in), waiting: make(map[uint64]chan response)}
	go m.read(gob.NewDecoder(out)) // ends with the pipe
	return m
}

func (m *remote) read(decoder *gob.Decoder) {
	for {
		var r response
		if err := decoder.Decode(&r); err != nil {
			m.mu.Lock()
			m.broken = fmt.Errorf("storagetest: the other process is gone: %w", err)
			for _, c := range m.waiting {
				close(c)
			}
			clear(m.waiting)
			m.mu.Unlock()
			return
		}
		m.mu.Lock()
		c := m.waiting[r.Number]
		delete(m.waiting, r.Number)
		m.mu.Unlock()
		c <- r
	}
}

func (m *remote) send(q request) (chan response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return nil, m.broken
	}
	c := make(chan response, 1)
	m.waiting[q.Number] = c
	if err := m.encoder.Encode(q); err != nil {
		delete(m.waiting, q.Number)
		return nil, fmt.Errorf("storagetest: %s: %w", q.Method, err)
	}
	return c, nil
}

// call makes one call. When the context ends first, the call may still happen.
func (m *remote) call(ctx context.Context, q request) (response, error) {
	if m.closed.Load() {
		return response{}, fmt.Errorf("storagetest: %s: %w", q.Method, nexjob.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return response{}, err
	}
	q.Number, q.Clock = m.number.Add(1), m.clock()
	c, err := m.send(q)
	if err != nil {
		return response{}, err
	}
	select {
	case r, ok := <-c:
		if !ok {
			return response{}, fmt.Errorf("storagetest: %s: the other process is gone: %w", q.Method, nexjob.ErrOutcomeUnknown)
		}
		return r, r.Err
	case <-ctx.Done():
		return response{}, ctx.Err()
	}
}

// Enqueue is made in the other process, as are all that follow.
func (m *remote) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	r, err := m.call(ctx, request{Method: "enqueue", Now: now, Jobs: carryJobs(jobs)})
	return r.Answers, err
}

// Claim takes due jobs.
func (m *remote) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	r, err := m.call(ctx, request{Method: "claim", Now: now, Ask: ask})
	return r.Claimed, err
}

// Renew extends leases.
func (m *remote) Renew(ctx context.Context, now, until time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	r, err := m.call(ctx, request{Method: "renew", Now: now, Until: until, Leases: leases})
	return r.Renewals, err
}

// Settle ends attempts.
func (m *remote) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	ends = append([]nexjob.Settlement(nil), ends...)
	for i := range ends {
		ends[i].Followers = carryJobs(ends[i].Followers)
	}
	r, err := m.call(ctx, request{Method: "settle", Now: now, Ends: ends})
	return r.Settled, err
}

// Record writes receipts.
func (m *remote) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	r, err := m.call(ctx, request{Method: "record", Now: now, Receipts: receipts})
	return r.Recorded, err
}

// Find returns one page.
func (m *remote) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	r, err := m.call(ctx, request{Method: "find", Now: now, Query: q})
	return r.Page, err
}

// Count tallies jobs.
func (m *remote) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	r, err := m.call(ctx, request{Method: "count", Now: now, Query: q})
	return r.Tallies, err
}

// Amend applies an action.
func (m *remote) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if do.FollowUp != nil {
		do.FollowUp = &carryJobs([]nexjob.NewJob{*do.FollowUp})[0]
	}
	r, err := m.call(ctx, request{Method: "amend", Now: now, Query: q, Do: do, Limit: limit})
	return r.Amended, err
}

// Put compares and swaps entries.
func (m *remote) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	r, err := m.call(ctx, request{Method: "swap", Now: now, Puts: puts})
	return r.Put, err
}

// Entries returns the entries of a kind.
func (m *remote) Entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	r, err := m.call(ctx, request{Method: "entries", Now: now, Kind: kind})
	return r.Entries, err
}

// Join is refused: a transaction does not reach into another process.
func (m *remote) Join(nexjob.Tx) (nexjob.Joined, error) {
	return nil, fmt.Errorf("storagetest: join: %w", nexjob.ErrUnsupported)
}

// Clock reads the storage's time.
func (m *remote) Clock(ctx context.Context) (time.Time, error) {
	r, err := m.call(ctx, request{Method: "clock"})
	return r.Time, err
}

// Migrate brings the schema up to date.
func (m *remote) Migrate(ctx context.Context) error {
	_, err := m.call(ctx, request{Method: "migrate"})
	return err
}

// Close ends the pipe; the other process closes its storage.
func (m *remote) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	return m.in.Close()
}
