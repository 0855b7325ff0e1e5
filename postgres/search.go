package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// search puts a query's conditions together: fixed pieces of SQL and arguments. Nothing
// that a caller wrote becomes SQL.
type search struct {
	sheet  sheet
	where  []string
	args   []wire.Arg
	newest bool
}

// arg adds an argument and returns how a condition names it, as a value of a type.
func (s *search) arg(a wire.Arg, as string) string {
	s.args = append(s.args, a)
	return "$" + strconv.Itoa(len(s.args)) + "::" + as
}

func (s *search) and(condition string) { s.where = append(s.where, condition) }

// conditions are those of a statement that has some already, or none.
func (s *search) conditions(begins string) string {
	if len(s.where) == 0 {
		return ""
	}
	return begins + strings.Join(s.where, " AND ")
}

// dynamic is a statement that was put together. It has no name: it is not prepared.
func dynamic(text string) wire.Statement { return wire.Statement{Text: text} }

// order ends a statement with the first n jobs in order of ID.
func (s *search) order(n int) string {
	direction := ""
	if s.newest {
		direction = " DESC"
	}
	return " ORDER BY j.id" + direction + " LIMIT " + s.arg(wire.Int8(int64(n)), "bigint")
}

// page is the statement that reads the first n jobs.
func (s *search) page(n int) (wire.Statement, []wire.Arg) {
	text := s.sheet["search jobs"].Text + s.conditions(" WHERE ") + s.order(n)
	return dynamic(text), s.args
}

// ids is the statement that names the first n jobs.
func (s *search) ids(n int) (wire.Statement, []wire.Arg) {
	text := s.sheet["search ids"].Text + s.conditions(" WHERE ") + s.order(n)
	return dynamic(text), s.args
}

// tally is the statement that counts jobs by queue, kind and reported state.
func (s *search) tally() (wire.Statement, []wire.Arg) {
	return dynamic(s.sheet["count jobs"].Text + s.conditions(" WHERE ") + " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"), s.args
}

// searchJobs is rules.Selects as conditions, but for the page. The arguments that stand
// before those of the conditions are handed in.
func searchJobs(sheet sheet, q *nexjob.Query, now time.Time, before ...wire.Arg) *search {
	s := &search{sheet: sheet, args: before}
	s.byName(q)
	if len(q.Kinds) > 0 {
		s.and("j.kind = ANY (" + s.arg(nameList(q.Kinds), "text[]") + ")")
	}
	if len(q.Queues) > 0 {
		s.and("j.queue = ANY (" + s.arg(nameList(q.Queues), "text[]") + ")")
	}
	if len(q.Tags) > 0 {
		s.and("j.tags @> " + s.arg(nameList(q.Tags), "text[]"))
	}
	if len(q.AnyTags) > 0 {
		s.and("j.tags && " + s.arg(nameList(q.AnyTags), "text[]"))
	}
	if !q.DeadlineBefore.IsZero() {
		s.and("j.deadline <= " + s.arg(micros(q.DeadlineBefore), "bigint"))
	}
	if !q.EndedBefore.IsZero() {
		s.and("j.ended_at <= " + s.arg(micros(q.EndedBefore), "bigint"))
	}
	if len(q.States) > 0 {
		s.states(q.States, now)
	}
	return s
}

// byName adds the conditions that name jobs.
func (s *search) byName(q *nexjob.Query) {
	if len(q.IDs) > 0 {
		s.and("j.id = ANY (" + s.arg(idList(q.IDs), "uuid[]") + ")")
	}
	if len(q.Operations) > 0 {
		list := s.arg(idList(q.Operations), "uuid[]")
		s.and("j.id IN (SELECT o.id FROM " + s.table("jobs") + " o WHERE o.operation = ANY (" + list +
			") UNION ALL SELECT o.id FROM " + s.table("jobs") + " o WHERE o.id = ANY (" + list + ") AND o.operation IS NULL)")
	}
	if q.Key != "" {
		s.keyed("{key} = " + s.arg(wire.Bytes([]byte(q.Key)), "bytea"))
	}
	if q.KeyPrefix != "" {
		s.keyed(s.beginning(q.KeyPrefix))
	}
	if !q.Parent.IsZero() {
		s.and("j.id IN (SELECT p.child FROM " + s.table("parents") + " p WHERE p.parent = " +
			s.arg(wire.UUID(q.Parent), "uuid") + ")")
	}
}

// table is the name of a table in the sheet's schema.
func (s *search) table(name string) string { return s.sheet["table "+name].Text }

// keyed selects jobs by a condition on their key, written {key}: former jobs have an
// index, and the last one of each key stands in the key's row.
func (s *search) keyed(condition string) {
	of := func(column string) string { return strings.ReplaceAll(condition, "{key}", column) }
	s.and("j.id IN (SELECT p.id FROM " + s.table("jobs") + " p WHERE p.past AND " + of("p.key") +
		" UNION ALL SELECT h.id FROM " + s.table("keys") + " k JOIN " + s.table("jobs") +
		" h ON h.id = k.job AND h.key = k.key WHERE " + of("k.key") + ")")
}

// beginning is the condition that {key} begins with some bytes.
func (s *search) beginning(prefix string) string {
	condition := "{key} >= " + s.arg(wire.Bytes([]byte(prefix)), "bytea")
	above := []byte(prefix)
	for i := len(above) - 1; i >= 0; i-- {
		if above[i] < 0xff {
			above[i]++
			return condition + " AND {key} < " + s.arg(wire.Bytes(above[:i+1]), "bytea")
		}
	}
	return condition
}

// states adds the states as people see them, and what the partial indexes want to see.
func (s *search) states(wanted []nexjob.State, now time.Time) {
	var stored []nexjob.State
	due, later := slices.Contains(wanted, nexjob.Enqueued), slices.Contains(wanted, nexjob.Scheduled)
	for _, state := range wanted {
		if state == nexjob.Scheduled { // a name of Enqueued, never stored
			state = nexjob.Enqueued
		}
		stored = append(stored, state)
	}
	slices.Sort(stored)
	stored = slices.Compact(stored)
	s.and("j.state IN (" + literals(stored) + ")")
	switch {
	case due && !later:
		s.and("(j.state <> 1 OR j.due_at IS NULL OR j.due_at <= " + s.arg(micros(now), "bigint") + ")")
	case later && !due:
		s.and("(j.state <> 1 OR j.due_at > " + s.arg(micros(now), "bigint") + ")")
	}
	if !slices.ContainsFunc(wanted, nexjob.State.Active) {
		s.and("j.ended_at IS NOT NULL")
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

// after begins the page behind the one before.
func (s *search) after(w rules.Window) {
	switch {
	case w.First:
	case s.newest:
		s.and("j.id < " + s.arg(wire.UUID(w.Job), "uuid"))
	default:
		s.and("j.id > " + s.arg(wire.UUID(w.Job), "uuid"))
	}
}

// find reads one page in a transaction.
func (s session) find(ctx context.Context, now time.Time, q *nexjob.Query) (nexjob.Page, error) {
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

func (s session) findJobs(ctx context.Context, now time.Time, q *nexjob.Query, w rules.Window) (nexjob.Page, error) {
	wanted := searchJobs(s.sheet, q, now)
	wanted.newest = q.NewestFirst
	wanted.after(w)
	c := collector{session: s}
	text, args := wanted.page(w.Limit + 1)
	_, err := s.on.Run(ctx, text, func(row wire.Row) error {
		in, err := c.takeJob(row)
		if until := in.time(); err == nil && !until.IsZero() { // renewed
			j := &c.found[len(c.found)-1]
			j.LeaseUntil, j.LeaseFor = until, in.duration()
		}
		return err
	}, args...)
	if err != nil {
		return nexjob.Page{}, err
	}
	if err := c.complete(ctx); err != nil {
		return nexjob.Page{}, err
	}
	var page nexjob.Page
	if len(c.found) > w.Limit {
		c.found = c.found[:w.Limit]
		page.Next = rules.NextJobs(c.found[w.Limit-1].ID)
	}
	for i := range c.found {
		c.found[i].State = c.found[i].ReportedState(now)
	}
	page.Jobs = c.found
	return page, nil
}

func (s session) findKeys(ctx context.Context, now time.Time, q *nexjob.Query, w rules.Window) (nexjob.Page, error) {
	wanted := &search{sheet: s.sheet}
	if q.Key != "" {
		wanted.and("k.key = " + wanted.arg(wire.Bytes([]byte(q.Key)), "bytea"))
	}
	if q.KeyPrefix != "" {
		wanted.and(strings.ReplaceAll(wanted.beginning(q.KeyPrefix), "{key}", "k.key"))
	}
	if !w.First {
		wanted.and("k.key > " + wanted.arg(wire.Bytes([]byte(w.After)), "bytea"))
	}
	wanted.and("(k.until IS NULL OR k.until > " + wanted.arg(micros(now), "bigint") + ")")
	var page nexjob.Page
	text := s.sheet["search keys"].Text + wanted.conditions(" AND ") + " ORDER BY k.key LIMIT " +
		wanted.arg(wire.Int8(int64(w.Limit+1)), "bigint")
	_, err := s.on.Run(ctx, dynamic(text), func(row wire.Row) error {
		c := column{row: row}
		page.Keys = append(page.Keys, c.key())
		return nil
	}, wanted.args...)
	if len(page.Keys) > w.Limit {
		page.Keys = page.Keys[:w.Limit]
		page.Next = rules.NextKeys(page.Keys[w.Limit-1].Key)
	}
	return page, err
}

func (s session) findReceipts(ctx context.Context, q *nexjob.Query, w rules.Window) (nexjob.Page, error) {
	wanted := &search{sheet: s.sheet}
	if len(q.Operations) > 0 {
		wanted.and("r.operation = ANY (" + wanted.arg(idList(q.Operations), "uuid[]") + ")")
	}
	if len(q.EffectStates) > 0 {
		wanted.and("r.state IN (" + literals(q.EffectStates) + ")")
	}
	if !w.First {
		var operation nexjob.ID
		slot := w.After[copy(operation[:], w.After):]
		wanted.and("(r.operation, r.slot) > (" + wanted.arg(wire.UUID(operation), "uuid") + ", " +
			wanted.arg(wire.Bytes([]byte(slot)), "bytea") + ")")
	}
	var page nexjob.Page
	text := s.sheet["search receipts"].Text + wanted.conditions(" AND ") + " ORDER BY r.operation, r.slot LIMIT " +
		wanted.arg(wire.Int8(int64(w.Limit+1)), "bigint")
	_, err := s.on.Run(ctx, dynamic(text), func(row wire.Row) error {
		c := column{row: row}
		page.Effects = append(page.Effects, c.receipt())
		return nil
	}, wanted.args...)
	if len(page.Effects) > w.Limit {
		page.Effects = page.Effects[:w.Limit]
		page.Next = rules.NextEffects(&page.Effects[w.Limit-1])
	}
	return page, err
}

func (s session) count(ctx context.Context, now time.Time, q *nexjob.Query) ([]nexjob.Tally, error) {
	text, args := searchJobs(s.sheet, q, now, micros(now)).tally()
	var tallies []nexjob.Tally
	_, err := s.on.Run(ctx, text, func(row wire.Row) error {
		c := column{row: row}
		tallies = append(tallies, nexjob.Tally{
			Queue: c.text(), Kind: c.text(), State: c.state(), Jobs: c.int64(), OldestDue: c.time(),
		})
		return nil
	}, args...)
	return tallies, err
}

func (s session) entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	var found []nexjob.Entry
	_, err := s.run(ctx, "entries", func(row wire.Row) error {
		c := column{row: row}
		found = append(found, c.entry())
		return nil
	}, wire.Text(kind), micros(now))
	return found, err
}
