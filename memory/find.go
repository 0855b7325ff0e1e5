package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Find returns one page; see nexjob.Archive.
func (s *Store) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	return read(ctx, s, "find", now, func() (nexjob.Page, error) { return s.tables.find(now, &q) })
}

// Count tallies jobs; see nexjob.Archive.
func (s *Store) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	return read(ctx, s, "count", now, func() ([]nexjob.Tally, error) { return s.tables.count(now, &q), nil })
}

// NextDue returns when the next job falls due; see nexjob.Forecaster.
func (s *Store) NextDue(ctx context.Context, now time.Time, queues, kinds []string) (time.Time, error) {
	return read(ctx, s, "next due", now, func() (time.Time, error) { return s.tables.nextDue(now, queues, kinds), nil })
}

// Entries returns unexpired entries by name; see nexjob.Registry.
func (s *Store) Entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	return read(ctx, s, "entries", now, func() ([]nexjob.Entry, error) {
		var found []nexjob.Entry
		for name, e := range s.tables.entries {
			if name.kind == kind && (e.ExpiresAt.IsZero() || e.ExpiresAt.After(now)) {
				e.Value = bytes.Clone(e.Value)
				found = append(found, e)
			}
		}
		slices.SortFunc(found, func(a, b nexjob.Entry) int { return strings.Compare(a.Name, b.Name) })
		return found, nil
	})
}

// read runs f while nobody writes. The waiting does not move now: a page shows what
// the caller asked for.
func read[T any](ctx context.Context, s *Store, verb string, now time.Time, f func() (T, error)) (T, error) {
	var none T
	if _, err := s.lock(ctx, now); err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	defer s.unlock()
	answer, err := f()
	if err != nil {
		return none, fmt.Errorf("memory: %s: %w", verb, err)
	}
	return answer, nil
}

func (t *tables) find(now time.Time, q *nexjob.Query) (nexjob.Page, error) {
	window, err := rules.Paging(q)
	if err != nil {
		return nexjob.Page{}, err
	}
	switch q.Of {
	case nexjob.Keys:
		return t.findKeys(now, q, window), nil
	case nexjob.Effects:
		return t.findReceipts(q, window), nil
	case nexjob.Jobs:
	}
	return t.findJobs(now, q, window), nil
}

func (t *tables) findJobs(now time.Time, q *nexjob.Query, w rules.Window) nexjob.Page {
	ids := slices.Clone(t.candidates(q))
	if q.NewestFirst {
		slices.Reverse(ids)
	}
	var page nexjob.Page
	for _, id := range ids {
		if !w.First && (q.NewestFirst && id.Compare(w.Job) >= 0 || !q.NewestFirst && id.Compare(w.Job) <= 0) {
			continue
		}
		j, ok := t.jobs[id]
		if !ok || !rules.Selects(q, &j, now) {
			continue
		}
		if len(page.Jobs) == w.Limit {
			page.Next = rules.NextJobs(page.Jobs[w.Limit-1].ID)
			break
		}
		j = clone(j)
		j.State = j.ReportedState(now)
		page.Jobs = append(page.Jobs, j)
	}
	return page
}

func (t *tables) findKeys(now time.Time, q *nexjob.Query, w rules.Window) nexjob.Page {
	var page nexjob.Page
	for _, key := range slices.Sorted(maps.Keys(t.keys)) {
		row := t.keys[key]
		if rules.KeyOver(&row, now) || q.Key != "" && q.Key != key ||
			!strings.HasPrefix(key, q.KeyPrefix) || !w.First && key <= w.After {
			continue
		}
		if len(page.Keys) == w.Limit {
			page.Next = rules.NextKeys(page.Keys[w.Limit-1].Key)
			break
		}
		page.Keys = append(page.Keys, row)
	}
	return page
}

func (t *tables) findReceipts(q *nexjob.Query, w rules.Window) nexjob.Page {
	operations := q.Operations
	if len(operations) == 0 {
		operations = slices.Collect(maps.Keys(t.receipts))
	}
	operations = slices.Clone(operations)
	slices.SortFunc(operations, nexjob.ID.Compare)
	var page nexjob.Page
	for _, operation := range slices.Compact(operations) {
		for _, slot := range slices.Sorted(maps.Keys(t.receipts[operation])) {
			r := t.receipts[operation][slot]
			if len(q.EffectStates) > 0 && !slices.Contains(q.EffectStates, r.State) ||
				!w.First && rules.Position(&r) <= w.After {
				continue
			}
			if len(page.Effects) == w.Limit {
				page.Next = rules.NextEffects(&page.Effects[w.Limit-1])
				return page
			}
			r.Value = bytes.Clone(r.Value)
			page.Effects = append(page.Effects, r)
		}
	}
	return page
}

func (t *tables) count(now time.Time, q *nexjob.Query) []nexjob.Tally {
	type group struct {
		queue, kind string
		state       nexjob.State
	}
	tallies := make(map[group]nexjob.Tally)
	for _, id := range t.candidates(q) {
		j, ok := t.jobs[id]
		if !ok || !rules.Selects(q, &j, now) {
			continue
		}
		g := group{j.Queue, j.Kind, j.ReportedState(now)}
		tally := tallies[g]
		tally.Queue, tally.Kind, tally.State = g.queue, g.kind, g.state
		tally.Jobs++
		if !j.DueAt.IsZero() && (tally.OldestDue.IsZero() || j.DueAt.Before(tally.OldestDue)) {
			tally.OldestDue = j.DueAt
		}
		tallies[g] = tally
	}
	return slices.SortedFunc(maps.Values(tallies), func(a, b nexjob.Tally) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
}

// clone copies a record so that the caller may change it.
func clone(j nexjob.Job) nexjob.Job {
	j.Args, j.Result = bytes.Clone(j.Args), bytes.Clone(j.Result)
	j.Tags, j.Parents = slices.Clone(j.Tags), slices.Clone(j.Parents)
	j.Attempts, j.Followers = slices.Clone(j.Attempts), slices.Clone(j.Followers)
	j.Meta = maps.Clone(j.Meta)
	return j
}

func cloneReceipts(receipts []nexjob.Receipt) {
	for i := range receipts {
		receipts[i].Value = bytes.Clone(receipts[i].Value)
	}
}
