package storagetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

// The words of most checks: one queue, one kind, a second of each where needed.
const (
	mainQueue  = "main"
	otherQueue = "other"
	charge     = "charge"
	ship       = "ship"
	lease      = 30 * time.Second
	over       = lease + 2*time.Second // moves the clock past a lease
	someone    = "alice"               // who amends
)

// bench is one storage on the bench: the storage, its clock, and the words that
// checks are written in. A word that does not say "try" ends the test when the
// storage answers an error.
type bench struct {
	t      testing.TB
	h      Harness
	ctx    context.Context //nolint:containedctx // lives as long as its test
	clock  *clock
	s      nexjob.Storage
	second nexjob.Storage // another handle on s, once handles has opened it
	closed bool
}

// open puts a fresh storage on the bench. At the test's end it asserts that no key
// has two active jobs.
func open(t testing.TB, h Harness) *bench {
	t.Helper()
	c := newClock()
	b := &bench{t: t, h: h, ctx: t.Context(), clock: c, s: h.Open(t, c.Now)}
	t.Cleanup(func() {
		if !b.closed && !t.Failed() {
			b.ctx = context.WithoutCancel(t.Context())
			b.oneActivePerKey()
		}
	})
	return b
}

func (b *bench) now() time.Time { return b.clock.Now() }

// pass moves the clock on as it passes over a storage that is alive: its last
// minutes hold a write every few seconds. An engine may spare leases that ended
// while nothing could be written, so a bare jump would show no lease run out.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	b.must(live(b.ctx, b.s, b.clock, d), "Put while time passes")
}

// live moves a storage's clock on by d and keeps the storage alive meanwhile. While nobody
// is at work there is no lease to spare, and time may jump.
func live(ctx context.Context, s nexjob.Storage, c *clock, d time.Duration) error {
	atWork, err := s.Find(ctx, c.Now(), nexjob.Query{States: []nexjob.State{nexjob.Processing}, Limit: 1})
	if err != nil {
		return err
	}
	if len(atWork.Jobs) == 0 {
		c.Pass(d)
		return nil
	}
	const beat, lively = lease / 6, 4 * lease
	for d > 0 {
		by := min(d, beat)
		if d > lively {
			by = d - lively
		}
		c.Pass(by)
		d -= by
		beat := nexjob.Put{Entry: nexjob.Entry{Kind: "storagetest", Name: "beat"}, Always: true}
		if _, err := s.Put(ctx, c.Now(), []nexjob.Put{beat}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) must(err error, verb string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", verb, err)
	}
}

// check reports what is not as it must be and goes on.
func (b *bench) check(ok bool, format string, args ...any) {
	b.t.Helper()
	if !ok {
		b.t.Errorf(format, args...)
	}
}

// need reports what is not as it must be and ends the test.
func (b *bench) need(ok bool, format string, args ...any) {
	b.t.Helper()
	if !ok {
		b.t.Fatalf(format, args...)
	}
}

// equal reports a difference between what must be and what is.
func (b *bench) equal(what string, want, got any) {
	b.t.Helper()
	if diff := difference(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// state requires the reported state of a job.
func (b *bench) state(id nexjob.ID, want nexjob.State, why string) nexjob.Job {
	b.t.Helper()
	j := b.job(id)
	if j.State != want {
		b.t.Fatalf("%s: job is %s (reason %q), want %s", why, j.State, j.Reason, want)
	}
	return j
}

// is requires an error that matches a sentinel.
func (b *bench) is(err, want error, what string) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.t.Errorf("%s: error is %v, want %v", what, err, want)
	}
}

// as requires an error of type E and returns it.
func as[E error](b *bench, err error, what string) E {
	b.t.Helper()
	var typed E
	if !errors.As(err, &typed) {
		b.t.Fatalf("%s: error is %v, want a %T", what, err, typed)
	}
	return typed
}

// job returns a stored job.
func (b *bench) job(id nexjob.ID) nexjob.Job {
	b.t.Helper()
	j, ok := b.look(id)
	b.need(ok, "job %s is not stored", id)
	return j
}

// look returns a job if it is stored.
func (b *bench) look(id nexjob.ID) (nexjob.Job, bool) {
	b.t.Helper()
	page := b.find(nexjob.Query{IDs: []nexjob.ID{id}})
	if len(page.Jobs) == 0 {
		return nexjob.Job{}, false
	}
	b.need(len(page.Jobs) == 1 && page.Jobs[0].ID == id, "Find by ID %s answers %v", id, ids(page.Jobs))
	return page.Jobs[0], true
}

// key returns the standing of a key, if it has any.
func (b *bench) key(key string) (nexjob.KeyRow, bool) {
	b.t.Helper()
	page := b.find(nexjob.Query{Of: nexjob.Keys, Key: key})
	if len(page.Keys) == 0 {
		return nexjob.KeyRow{}, false
	}
	b.need(len(page.Keys) == 1 && page.Keys[0].Key == key, "Find of key %q answers %v", key, page.Keys)
	return page.Keys[0], true
}

// receipts returns what is recorded of an operation.
func (b *bench) receipts(operation nexjob.ID) []nexjob.Receipt {
	b.t.Helper()
	return b.find(nexjob.Query{Of: nexjob.Effects, Operations: []nexjob.ID{operation}, Limit: nexjob.MaxPage}).Effects
}

// card returns the receipt of the effect "card" under its first outside key.
func (b *bench) card(operation nexjob.ID) nexjob.Receipt {
	b.t.Helper()
	for _, r := range b.receipts(operation) {
		if r.Name == "card" && r.Turn == 0 {
			return r
		}
	}
	b.t.Fatalf("operation %s has no receipt of its effect \"card\"", operation)
	return nexjob.Receipt{}
}

func (b *bench) find(q nexjob.Query) nexjob.Page {
	b.t.Helper()
	page, err := b.s.Find(b.ctx, b.now(), q)
	b.must(err, "Find")
	return page
}

// snapshot is everything that Find shows.
type snapshot struct {
	Jobs    []nexjob.Job
	Keys    []nexjob.KeyRow
	Effects []nexjob.Receipt
	Counts  []nexjob.Tally
}

// dump reads everything, page by page.
func (b *bench) dump() snapshot {
	b.t.Helper()
	all, err := dump(b.ctx, b.s, b.now())
	b.must(err, "dump")
	return all
}

func dump(ctx context.Context, s nexjob.Storage, now time.Time) (snapshot, error) {
	var all snapshot
	for _, of := range []nexjob.Subject{nexjob.Jobs, nexjob.Keys, nexjob.Effects} {
		q := nexjob.Query{Of: of, Limit: nexjob.MaxPage}
		for more := true; more; more = q.After != "" {
			page, err := s.Find(ctx, now, q)
			if err != nil {
				return all, fmt.Errorf("find: %w", err)
			}
			all.Jobs = append(all.Jobs, page.Jobs...)
			all.Keys = append(all.Keys, page.Keys...)
			all.Effects = append(all.Effects, page.Effects...)
			q.After = page.Next
		}
	}
	counts, err := s.Count(ctx, now, nexjob.Query{})
	if err != nil {
		return all, fmt.Errorf("count: %w", err)
	}
	all.Counts = counts
	return all, nil
}

// unchanged requires that a step leaves everything as it was.
func (b *bench) unchanged(what string, step func()) {
	b.t.Helper()
	before := b.dump()
	step()
	if diff := difference(before, b.dump()); diff != "" {
		b.t.Errorf("%s changed what is stored (-before +after):\n%s", what, diff)
	}
}

// oneActivePerKey is promise 1: no key has two active jobs.
func (b *bench) oneActivePerKey() {
	b.t.Helper()
	holder := make(map[string]nexjob.Job)
	for _, j := range b.dump().Jobs {
		if j.Key == "" || !j.State.Active() {
			continue
		}
		if other, twice := holder[j.Key]; twice {
			b.t.Errorf("key %q has two active jobs: %s (%s) and %s (%s)", j.Key, other.ID, other.State, j.ID, j.State)
		}
		holder[j.Key] = j
	}
}

func ids(jobs []nexjob.Job) []nexjob.ID {
	out := make([]nexjob.ID, len(jobs))
	for i := range jobs {
		out[i] = jobs[i].ID
	}
	return out
}
