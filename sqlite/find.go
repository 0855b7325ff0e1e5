package sqlite

import (
	"context"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// find reads one page in a transaction.
func (s *session) find(ctx context.Context, now time.Time, q *nexjob.Query) (nexjob.Page, error) {
	window, err := rules.Paging(q)
	if err != nil {
		return nexjob.Page{}, err
	}
	switch q.Of {
	case nexjob.Keys:
		return s.findKeys(ctx, now, q, window)
	case nexjob.Effects:
		return s.findReceipts(ctx, q, window)
	case nexjob.Jobs:
	}
	return s.findJobs(ctx, now, q, window)
}

func (s *session) findJobs(
	ctx context.Context, now time.Time, q *nexjob.Query, w rules.Window,
) (nexjob.Page, error) {
	wanted := searchJobs(s.sheet, q, now)
	wanted.newest = q.NewestFirst
	wanted.after(w)
	found, err := s.search(ctx, wanted, w.Limit+1)
	if err != nil || len(found) == 0 {
		return nexjob.Page{}, err
	}
	var page nexjob.Page
	if len(found) > w.Limit {
		found = found[:w.Limit]
		page.Next = rules.NextJobs(found[w.Limit-1].ID)
	}
	whole := make([]*nexjob.Job, len(found))
	for i := range found {
		found[i].State = found[i].ReportedState(now)
		whole[i] = &found[i]
	}
	page.Jobs = found
	return page, s.Bodies(ctx, whole)
}

func (s *session) findKeys(
	ctx context.Context, now time.Time, q *nexjob.Query, w rules.Window,
) (nexjob.Page, error) {
	wanted := &search{sheet: s.sheet}
	if q.Key != "" {
		wanted.and("k.key = ?", []byte(q.Key))
	}
	if q.KeyPrefix != "" {
		condition, args := beginning(q.KeyPrefix)
		wanted.and(strings.ReplaceAll(condition, "{key}", "k.key"), args...)
	}
	if !w.First {
		wanted.and("k.key > ?", []byte(w.After))
	}
	wanted.and("(k.until IS NULL OR k.until > ?)", now.UnixMicro())
	var page nexjob.Page
	err := s.query(ctx, s.sheet["search keys"]+wanted.conditions()+" ORDER BY k.key LIMIT ?", func(v values) error {
		page.Keys = append(page.Keys, v.key())
		return nil
	}, append(wanted.args, w.Limit+1)...)
	if len(page.Keys) > w.Limit {
		page.Keys = page.Keys[:w.Limit]
		page.Next = rules.NextKeys(page.Keys[w.Limit-1].Key)
	}
	return page, err
}

func (s *session) findReceipts(ctx context.Context, q *nexjob.Query, w rules.Window) (nexjob.Page, error) {
	wanted := &search{sheet: s.sheet}
	if len(q.Operations) > 0 {
		wanted.and("r.operation IN (SELECT unhex(value) FROM json_each(?))", hexIDs(q.Operations))
	}
	if states := literals(q.EffectStates); len(q.EffectStates) == 1 {
		wanted.and("r.state = " + states) // as the index of open effects says it
	} else if len(q.EffectStates) > 1 {
		wanted.and("r.state IN (" + states + ")")
	}
	if !w.First {
		var operation nexjob.ID
		slot := w.After[copy(operation[:], w.After):]
		wanted.and("(r.operation, r.slot) > (?, ?)", operation[:], []byte(slot))
	}
	var page nexjob.Page
	err := s.query(ctx, s.sheet["search receipts"]+wanted.conditions()+" ORDER BY r.operation, r.slot LIMIT ?",
		func(v values) error {
			page.Effects = append(page.Effects, v.receipt())
			return nil
		}, append(wanted.args, w.Limit+1)...)
	if len(page.Effects) > w.Limit {
		page.Effects = page.Effects[:w.Limit]
		page.Next = rules.NextEffects(&page.Effects[w.Limit-1])
	}
	return page, err
}

func (s *session) count(ctx context.Context, now time.Time, q *nexjob.Query) ([]nexjob.Tally, error) {
	text, args := searchJobs(s.sheet, q, now).tally(now)
	var tallies []nexjob.Tally
	err := s.query(ctx, text, func(v values) error {
		tallies = append(tallies, nexjob.Tally{
			Queue: v.text(0), Kind: v.text(1), State: nexjob.State(v.int64(2)), //nolint:gosec // written from a State
			Jobs: v.int64(3), OldestDue: v.time(4),
		})
		return nil
	}, args...)
	return tallies, err
}

func (s *session) entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	var found []nexjob.Entry
	err := s.each(ctx, "entries", func(v values) error {
		found = append(found, v.entry())
		return nil
	}, kind, now.UnixMicro())
	return found, err
}
