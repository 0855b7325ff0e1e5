package sqlite

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// search puts a query's conditions together: fixed pieces of SQL and arguments.
// Nothing that a caller wrote becomes SQL.
type search struct {
	sheet  sheet
	index  string // to be used, for SQLite keeps no statistics; "" leaves the choice
	where  []string
	args   []any
	newest bool
}

func (s *search) and(condition string, args ...any) {
	s.where = append(s.where, condition)
	s.args = append(s.args, args...)
}

func (s *search) conditions() string {
	text := ""
	if s.index != "" {
		text = " INDEXED BY " + s.index
	}
	if len(s.where) > 0 {
		text += " WHERE " + strings.Join(s.where, " AND ")
	}
	return text
}

// page is the statement that reads the first n jobs in order of ID. The order is
// found on the indexes alone before whole rows are read.
func (s *search) page(n int) (text string, args []any) {
	order := " ORDER BY j.id"
	if s.newest {
		order += " DESC"
	}
	return s.sheet["search jobs"] + " WHERE j.seq IN (" + s.sheet["search ids"] + s.conditions() +
		order + " LIMIT ?)" + order, append(slices.Clone(s.args), n)
}

// tally is the statement that counts jobs by queue, kind and reported state.
func (s *search) tally(now time.Time) (text string, args []any) {
	return s.sheet["count jobs"] + s.conditions() + " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
		append([]any{now.UnixMicro()}, s.args...)
}

// searchJobs is rules.Selects as conditions, but for the page.
func searchJobs(sheet sheet, q *nexjob.Query, now time.Time) *search {
	s := &search{sheet: sheet}
	narrow := s.byName(q)
	if len(q.Kinds) > 0 {
		s.and("j.kind IN (SELECT value FROM json_each(?))", jsonNames(q.Kinds))
	}
	if len(q.Queues) > 0 {
		s.and("j.queue IN (SELECT value FROM json_each(?))", jsonNames(q.Queues))
	}
	for _, tag := range q.Tags {
		s.and("EXISTS (SELECT 1 FROM "+tagsOf+" t WHERE t.value = ?)", tag)
	}
	if len(q.AnyTags) > 0 {
		s.and("EXISTS (SELECT 1 FROM "+tagsOf+" t WHERE t.value IN (SELECT value FROM json_each(?)))",
			jsonNames(q.AnyTags))
	}
	if !q.DeadlineBefore.IsZero() {
		s.and("j.deadline <= ?", q.DeadlineBefore.UnixMicro())
	}
	if !q.EndedBefore.IsZero() {
		s.and("j.ended_at <= ?", q.EndedBefore.UnixMicro())
	}
	if len(q.States) > 0 {
		s.states(q.States, now)
	}
	if !narrow {
		s.choose(q)
	}
	return s
}

// tagsOf lists a job's tags, which stand in its row or, with a large body, beside it.
const tagsOf = "json_each(CASE WHEN j.flags & 16" +
	" THEN (SELECT b.tags FROM nexjob_bodies b WHERE b.seq = j.seq) ELSE j.tags END)"

// byName adds the conditions that name jobs and reports whether there are any.
func (s *search) byName(q *nexjob.Query) bool {
	before := len(s.where)
	if len(q.IDs) > 0 {
		s.and("j.id IN (SELECT unhex(value) FROM json_each(?))", hexIDs(q.IDs))
	}
	if len(q.Operations) > 0 {
		operations := hexIDs(q.Operations)
		s.and("j.seq IN (SELECT o.seq FROM json_each(?) e CROSS JOIN nexjob_jobs o"+
			" ON o.operation = unhex(e.value)"+
			" UNION ALL SELECT o.seq FROM json_each(?) e CROSS JOIN nexjob_jobs o"+
			" ON o.id = unhex(e.value) AND o.operation IS NULL)", operations, operations)
	}
	if q.Key != "" {
		s.keyed("{key} = ?", []byte(q.Key))
	}
	if q.KeyPrefix != "" {
		condition, args := beginning(q.KeyPrefix)
		s.keyed(condition, args...)
	}
	if !q.Parent.IsZero() {
		s.and("j.id IN (SELECT p.child FROM nexjob_parents p WHERE p.parent = ?)", q.Parent[:])
	}
	return len(s.where) > before
}

// keyed selects jobs by a condition on their key, written {key}: former jobs have an
// index, and the last one of each key stands in the key's row.
func (s *search) keyed(condition string, args ...any) {
	of := func(column string) string { return strings.ReplaceAll(condition, "{key}", column) }
	s.and("j.seq IN (SELECT p.seq FROM nexjob_jobs p WHERE p.past = 1 AND "+of("p.key")+
		" UNION ALL SELECT h.seq FROM nexjob_keys k CROSS JOIN nexjob_jobs h ON h.id = k.job AND h.key = k.key"+
		" WHERE "+of("k.key")+")",
		append(slices.Clone(args), args...)...)
}

// beginning is the condition that {key} begins with some bytes.
func beginning(prefix string) (condition string, args []any) {
	above := []byte(prefix)
	for i := len(above) - 1; i >= 0; i-- {
		if above[i] < 0xff {
			above[i]++
			return "{key} >= ? AND {key} < ?", []any{[]byte(prefix), above[:i+1]}
		}
	}
	return "{key} >= ?", []any{[]byte(prefix)}
}

// states adds the states as people see them.
func (s *search) states(wanted []nexjob.State, now time.Time) {
	var stored []nexjob.State
	due, later := slices.Contains(wanted, nexjob.Enqueued), slices.Contains(wanted, nexjob.Scheduled)
	for _, state := range wanted {
		if state != nexjob.Enqueued && state != nexjob.Scheduled || due && later {
			if state == nexjob.Scheduled { // a name of Enqueued, never stored
				state = nexjob.Enqueued
			}
			stored = append(stored, state)
		}
	}
	either := "j.state IN (" + literals(stored) + ")"
	switch {
	case due && !later:
		s.and("("+either+" OR j.state = 1 AND (j.due_at IS NULL OR j.due_at <= ?))", now.UnixMicro())
	case later && !due:
		s.and("("+either+" OR j.state = 1 AND j.due_at > ?)", now.UnixMicro())
	default:
		s.and(either)
	}
}

// literals writes states into SQL, where a partial index wants to see them.
func literals[T ~uint8](states []T) string {
	text := make([]string, len(states))
	for i, state := range states {
		text[i] = strconv.Itoa(int(state))
	}
	return strings.Join(text, ", ")
}

// choose names the index to walk, where the states tell which jobs are few.
func (s *search) choose(q *nexjob.Query) {
	only := func(states ...nexjob.State) bool {
		return len(q.States) > 0 && !slices.ContainsFunc(q.States, func(state nexjob.State) bool {
			return !slices.Contains(states, state)
		})
	}
	switch {
	case !q.DeadlineBefore.IsZero() && only(nexjob.Enqueued, nexjob.Scheduled, nexjob.AwaitingContinuation):
		s.index = "nexjob_jobs_deadline"
		s.and("j.deadline IS NOT NULL AND j.state IN (1, 3)")
	case only(nexjob.Failed, nexjob.Expired, nexjob.Cancelled),
		!q.EndedBefore.IsZero() && only(nexjob.Succeeded, nexjob.Failed, nexjob.Expired, nexjob.Cancelled):
		s.index = "nexjob_jobs_ended"
		s.and("j.ended_at IS NOT NULL")
	case only(nexjob.Processing):
		s.index = "nexjob_jobs_lease"
		s.and("j.lease_until IS NOT NULL")
	case only(nexjob.AwaitingContinuation, nexjob.Uncertain):
		s.index = "nexjob_jobs_held"
		s.and("j.state IN (3, 4)")
	}
}

// after begins the page behind the one before.
func (s *search) after(w rules.Window) {
	switch {
	case w.First:
	case s.newest:
		s.and("j.id < ?", w.Job[:])
	default:
		s.and("j.id > ?", w.Job[:])
	}
}

// jsonNames lists names for a statement.
func jsonNames(list []string) string {
	text, err := names(list)
	if err != nil {
		return "[]" // strings always encode
	}
	return text
}

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
