package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

var _ onewriter.Rows = (*rows)(nil)

// rows lends the tables to onewriter for one transaction.
type rows struct {
	*session
	known
	pulses *pulseText
	floor  int64 // of fences
	keys   keyNotes
	added  span
	lately int // how many due jobs were found last: about as many come next
}

// few is the least room that is made for due jobs. A claim asks for as many as there are
// free slots, and most often finds one or all.
const few = 4

// span is the places of the jobs that a flush has added, first to last, and how many of
// them have keys.
type span struct {
	first, last int64
	keyed       int
}

// Jobs returns stored jobs.
func (r *rows) Jobs(ctx context.Context, ids []nexjob.ID) ([]nexjob.Job, error) {
	found, unknown, err := r.recall(ctx, ids)
	if err != nil || len(unknown) == 0 {
		return found, err
	}
	c := r.collect(len(unknown))
	if err := r.each(ctx, "jobs by id", c.take, hexIDs(unknown)); err != nil {
		return nil, err
	}
	if err := r.complete(ctx, c); err != nil {
		return nil, err
	}
	return append(found, c.found...), nil
}

// Due returns claimable jobs in order.
func (r *rows) Due(
	ctx context.Context, now time.Time, queue string, kinds []string, n int,
) ([]nexjob.Job, error) {
	served, err := names(kinds)
	if err != nil {
		return nil, err
	}
	var priorities []int64
	err = r.each(ctx, "priorities due", func(v values) error {
		priorities = append(priorities, v.int64(0))
		return nil
	}, served, queue, now.UnixMicro())
	if err != nil {
		return nil, err
	}
	var found []nexjob.Job
	defer func() { r.lately = len(found) }()
	for _, priority := range priorities {
		if len(found) >= n {
			break
		}
		some, err := r.dueOf(ctx, now, queue, priority, kinds, n-len(found))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			found = some
		} else {
			found = append(found, some...)
		}
	}
	return found, nil
}

// dueOf returns claimable jobs of one queue and priority in order. Those of several
// kinds are put in order before their rows are read, for SQLite sorts whole rows dearly.
func (r *rows) dueOf(
	ctx context.Context, now time.Time, queue string, priority int64, kinds []string, n int,
) ([]nexjob.Job, error) {
	if len(kinds) == 1 {
		return r.freshOrWhole(ctx, queue, priority, min(n, r.lately+few), "jobs due", queue, priority, kinds[0], now.UnixMicro(), n)
	}
	served, err := names(kinds)
	if err != nil {
		return nil, err
	}
	var at []placed
	err = r.each(ctx, "places due", func(v values) error {
		at = append(at, placed{seq: v.int64(0)})
		return nil
	}, served, queue, priority, now.UnixMicro(), n)
	if err != nil || len(at) == 0 {
		return nil, err
	}
	return r.freshOrWhole(ctx, queue, priority, len(at), "due at", places(at))
}

// freshOrWhole reads jobs of one queue and priority with a statement of {due}, and those
// that are not fresh whole. They come in the order in which they are claimed.
func (r *rows) freshOrWhole(
	ctx context.Context, queue string, priority int64, room int, name string, args ...any,
) ([]nexjob.Job, error) {
	found := make([]nexjob.Job, 0, room)
	var whole []placed
	err := r.each(ctx, name, func(v values) error {
		if seq := v.int64(0); v.bool(10) {
			found = append(found, v.fresh(queue, priority))
			r.stands(found[len(found)-1].ID, place{seq: seq})
		} else {
			whole = append(whole, placed{seq: seq})
		}
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	if len(whole) > 0 {
		others, err := r.jobs(ctx, "jobs at", len(whole), places(whole))
		if err != nil {
			return nil, err
		}
		found = append(found, others...)
	}
	slices.SortFunc(found, func(a, b nexjob.Job) int {
		return cmp.Or(a.DueAt.Compare(b.DueAt), a.ID.Compare(b.ID))
	})
	return found, nil
}

// Leased returns jobs whose lease has ended.
func (r *rows) Leased(ctx context.Context, now time.Time, n int) ([]nexjob.Job, error) {
	return r.jobs(ctx, "jobs leased", 0, now.UnixMicro(), n)
}

// Select returns the oldest jobs that a query selects.
func (r *rows) Select(ctx context.Context, now time.Time, q nexjob.Query, n int) ([]nexjob.Job, error) {
	return r.search(ctx, searchJobs(r.sheet, &q, now), n)
}

// Children returns the jobs that wait for parents.
func (r *rows) Children(ctx context.Context, parents []nexjob.ID) ([]nexjob.Job, error) {
	return r.jobs(ctx, "children", 0, hexIDs(parents))
}

// jobs reads whole records but for large bodies. There is room for so many at once.
func (s *session) jobs(ctx context.Context, name string, room int, args ...any) ([]nexjob.Job, error) {
	c := s.collect(room)
	if err := s.each(ctx, name, c.take, args...); err != nil {
		return nil, err
	}
	return c.found, s.complete(ctx, c)
}

// search reads the jobs of a statement that was put together.
func (s *session) search(ctx context.Context, q *search, n int) ([]nexjob.Job, error) {
	c := s.collect(0)
	text, args := q.page(n)
	if err := s.query(ctx, text, c.take, args...); err != nil {
		return nil, err
	}
	return c.found, s.complete(ctx, c)
}

// place is where a job stands in the file.
type place struct {
	seq   int64
	apart bool // its body stands in nexjob_bodies
}

// collector gathers jobs and notes which of them have rows in other tables.
type collector struct {
	in                         *session
	found                      []nexjob.Job
	attempts, parents, results []nexjob.ID
	told                       []int // of found: the newest attempt is told by the row
}

// stands notes where a job stands.
func (s *session) stands(id nexjob.ID, at place) {
	if s.places == nil {
		s.places = make(map[nexjob.ID]place)
	}
	s.places[id] = at
}

func (s *session) collect(n int) *collector {
	return &collector{in: s, found: make([]nexjob.Job, 0, n)}
}

func (c *collector) take(v values) error {
	c.found = append(c.found, nexjob.Job{})
	at := len(c.found) - 1
	has, err := v.job(&c.found[at])
	if err != nil {
		return err
	}
	id := c.found[at].ID
	c.in.stands(id, place{seq: has.seq, apart: has.flags&flagApart != 0})
	if has.attempts > 0 {
		c.attempts = append(c.attempts, id)
	}
	if has.parents > 0 {
		c.parents = append(c.parents, id)
	}
	if has.flags&flagResult != 0 {
		c.results = append(c.results, id)
	}
	if has.flags&flagTold != 0 {
		c.told = append(c.told, at)
	}
	return nil
}

// complete reads what other tables hold of the jobs.
func (s *session) complete(ctx context.Context, c *collector) error {
	// Told attempts are the newest, so they come after those that are read here.
	defer func() {
		for _, i := range c.told {
			j := &c.found[i]
			j.Attempts = append(j.Attempts, toldAttempt(j))
		}
	}()
	if len(c.attempts)+len(c.parents)+len(c.results) == 0 {
		return nil
	}
	at := make(map[nexjob.ID]*nexjob.Job, len(c.found))
	for i := range c.found {
		at[c.found[i].ID] = &c.found[i]
	}
	if len(c.attempts) > 0 {
		err := s.each(ctx, "attempts", func(v values) error {
			j := at[v.id(0)]
			j.Attempts = append(j.Attempts, nexjob.Attempt{
				Fence: v.int64(1), Worker: v.text(2), Started: v.time(3), Ended: v.time(4),
				Ending: nexjob.Ending(v.int64(5)), Error: v.text(6), //nolint:gosec // written from an Ending
			})
			return nil
		}, hexIDs(c.attempts))
		if err != nil {
			return err
		}
	}
	if len(c.parents) > 0 {
		err := s.each(ctx, "parents", func(v values) error {
			j := at[v.id(0)]
			j.Parents = append(j.Parents, nexjob.Parent{
				ID: v.id(1), Rule: nexjob.Rule(v.int64(2)), Decided: v.bool(3), //nolint:gosec // written from a Rule
			})
			return nil
		}, hexIDs(c.parents))
		if err != nil {
			return err
		}
	}
	if len(c.results) == 0 {
		return nil
	}
	return s.each(ctx, "results", func(v values) error {
		at[v.id(0)].Result = v.bytes(1)
		return nil
	}, hexIDs(c.results))
}
