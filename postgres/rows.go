package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

var _ onewriter.Rows = (*rows)(nil)

// rows lends what one transaction has locked to a unit, so that within it there is one
// writer: what the unit has loaded nobody else changes until the transaction ends. It
// holds to one order: keys, then jobs by ID, then entries; see lockAround.
type rows struct {
	session
	free   bool                // rows that somebody holds are left out instead of waited for
	act    nexjob.Act          // what is done to selected jobs: it says which of their keys are locked before them
	seen   map[nexjob.ID]int64 // flags, as they were loaded
	keys   keyNotes
	vacant []nexjob.Entry // locked without being there
}

// session runs the statements of the sheet by name.
type session struct {
	sheet sheet
	on    wire.Runner
}

func (s session) run(ctx context.Context, name string, take func(wire.Row) error, args ...wire.Arg) (int64, error) {
	return s.on.Run(ctx, s.sheet[name], take, args...)
}

// anew runs statements without preparing them, where no setting keeps plans on the indexes:
// what was planned while a table was small would otherwise be kept while it grows.
type anew struct{ on wire.Runner }

// Run runs a statement.
func (a anew) Run(ctx context.Context, s wire.Statement, take func(wire.Row) error, args ...wire.Arg) (int64, error) {
	return a.on.Run(ctx, dynamic(s.Text), take, args...)
}

// exec runs a statement whose rows nobody needs.
func (s session) exec(ctx context.Context, name string, args ...wire.Arg) error {
	_, err := s.on.Run(ctx, s.sheet[name], nil, args...)
	return err
}

// idList lists IDs for a statement.
func idList(ids []nexjob.ID) wire.Arg {
	list := wire.UUIDs(len(ids))
	for i := range ids {
		list.Bytes(ids[i][:])
	}
	return list.Arg()
}

// keyList lists keys for a statement.
func keyList(keys []string) wire.Arg {
	list := wire.Byteas(len(keys), 24)
	for _, key := range keys {
		list.Text(key)
	}
	return list.Arg()
}

// nameList lists names for a statement.
func nameList(names []string) wire.Arg {
	list := wire.Texts(len(names), 16)
	for _, name := range names {
		list.Text(name)
	}
	return list.Arg()
}

// micros is how a time is stored: NULL for none.
func micros(t time.Time) wire.Arg {
	if t.IsZero() {
		return wire.Null()
	}
	return wire.Int8(t.UnixMicro())
}

// Jobs locks jobs in order and returns those that are stored.
func (r *rows) Jobs(ctx context.Context, ids []nexjob.ID) ([]nexjob.Job, error) {
	if r.free {
		return r.jobs(ctx, "lock free jobs", idList(ids))
	}
	return r.jobs(ctx, "lock jobs", idList(ids))
}

// errElsewhere marks what a unit of this engine never asks for: a claim is a statement
// of its own.
var errElsewhere = errors.New("jobs are claimed by a statement of their own")

// Due is never asked for.
func (r *rows) Due(context.Context, time.Time, string, []string, int) ([]nexjob.Job, error) {
	return nil, errElsewhere
}

// Fences is never asked for.
func (r *rows) Fences(context.Context, int) (int64, error) { return 0, errElsewhere }

// Leased locks jobs whose lease has ended and whose rows nobody holds. That a lease was
// renewed a moment ago is only seen under the lock, for whoever renews holds the row.
func (r *rows) Leased(ctx context.Context, now time.Time, n int) ([]nexjob.Job, error) {
	found, err := r.jobs(ctx, "lock jobs leased", micros(now), wire.Int8(int64(n)))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	ids := make([]nexjob.ID, len(found))
	at := make(map[nexjob.ID]int, len(found))
	for i := range found {
		ids[i], at[found[i].ID] = found[i].ID, i
	}
	_, err = r.run(ctx, "leases", func(row wire.Row) error {
		c := column{row: row}
		j := &found[at[c.id()]]
		if c.int64() == j.Fence {
			j.LeaseUntil, j.LeaseFor = c.time(), c.duration()
		}
		return nil
	}, idList(ids))
	return found, err
}

// Select locks the oldest jobs that a query selects. They are chosen without a lock and
// looked at again under it.
func (r *rows) Select(ctx context.Context, now time.Time, q nexjob.Query, n int) ([]nexjob.Job, error) {
	ids, err := r.chosen(ctx, now, &q, n)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if err := r.lockForAct(ctx, now, ids, n); err != nil {
		return nil, err
	}
	found, err := r.Jobs(ctx, ids)
	kept := found[:0]
	for i := range found {
		if rules.Selects(&q, &found[i], now) {
			kept = append(kept, found[i])
		}
	}
	return kept, err
}

// lockForAct locks the keys that an act on jobs is about; with a purge also those whose
// own life is over, which it sweeps.
func (r *rows) lockForAct(ctx context.Context, now time.Time, ids []nexjob.ID, n int) error {
	keys, err := r.keysOf(ctx, ids, !onewriter.TakesKey(r.act))
	if err != nil {
		return err
	}
	if r.act == nexjob.ActPurge {
		over, err := r.KeysOver(ctx, now, n)
		if err != nil {
			return err
		}
		for i := range over {
			keys = append(keys, over[i].Key)
		}
	}
	return r.lockKeys(ctx, keys)
}

// keysOf reads the keys of jobs, or only of those whose keys have a life of their own.
func (r *rows) keysOf(ctx context.Context, ids []nexjob.ID, withLife bool) ([]string, error) {
	var keys []string
	_, err := r.run(ctx, "keys and lives", func(row wire.Row) error {
		if key := row.Text(1); key != "" && (!withLife || row.Int64(2) != 0) {
			keys = append(keys, key)
		}
		return nil
	}, idList(ids))
	return keys, err
}

// chosen names the oldest jobs that a query selects.
func (s session) chosen(ctx context.Context, now time.Time, q *nexjob.Query, n int) ([]nexjob.ID, error) {
	var ids []nexjob.ID
	text, args := searchJobs(s.sheet, q, now).ids(n)
	_, err := s.on.Run(ctx, text, func(row wire.Row) error {
		ids = append(ids, row.UUID(0))
		return nil
	}, args...)
	return ids, err
}

// AnyChild says that there may be some: whether a job has children, its own row tells.
func (r *rows) AnyChild(context.Context) (bool, error) { return true, nil }

// Children locks the jobs that wait for parents.
func (r *rows) Children(ctx context.Context, parents []nexjob.ID) ([]nexjob.Job, error) {
	var with []nexjob.ID
	for _, id := range parents {
		if r.seen[id]&flagFamily != 0 {
			with = append(with, id)
		}
	}
	if len(with) == 0 {
		return nil, nil
	}
	return r.jobs(ctx, "lock children", idList(with))
}

// Bodies has nothing to fill in: rows are whole.
func (r *rows) Bodies(context.Context, []*nexjob.Job) error { return nil }

// jobs reads whole records and remembers the flags of their rows.
func (r *rows) jobs(ctx context.Context, name string, args ...wire.Arg) ([]nexjob.Job, error) {
	c := collector{session: r.session, flags: r.note}
	if _, err := r.run(ctx, name, c.take, args...); err != nil {
		return nil, err
	}
	return c.found, c.complete(ctx)
}

// note remembers the flags of a job's row.
func (r *rows) note(id nexjob.ID, flags int64) {
	if r.seen == nil {
		r.seen = make(map[nexjob.ID]int64)
	}
	r.seen[id] = flags
}

// collector gathers jobs and notes which of them have rows in other tables.
type collector struct {
	session
	flags             func(id nexjob.ID, flags int64)
	found             []nexjob.Job
	attempts, parents []nexjob.ID
	told              []int // of found: the newest attempt is told by the row
}

func (c *collector) take(row wire.Row) error {
	_, err := c.takeJob(row)
	return err
}

// takeJob takes a row that begins with {job}, and returns the columns behind it.
func (c *collector) takeJob(row wire.Row) (column, error) {
	in := column{row: row}
	c.found = append(c.found, nexjob.Job{})
	has, err := in.job(&c.found[len(c.found)-1])
	if err == nil {
		c.has(has)
	}
	return in, err
}

// has notes what other tables hold of the job that was found last.
func (c *collector) has(s stored) {
	at := len(c.found) - 1
	id := c.found[at].ID
	if c.flags != nil {
		c.flags(id, s.flags)
	}
	if s.attempts > 0 {
		c.attempts = append(c.attempts, id)
	}
	if s.parents > 0 {
		c.parents = append(c.parents, id)
	}
	if s.flags&flagTold != 0 {
		c.told = append(c.told, at)
	}
}

// complete reads what other tables hold of the jobs.
func (c *collector) complete(ctx context.Context) error {
	// Told attempts are the newest, so they come after those that are read here.
	defer func() {
		for _, i := range c.told {
			c.found[i].Attempts = append(c.found[i].Attempts, told(&c.found[i]))
		}
	}()
	if len(c.attempts)+len(c.parents) == 0 {
		return nil
	}
	at := make(map[nexjob.ID]*nexjob.Job, len(c.found))
	for i := range c.found {
		at[c.found[i].ID] = &c.found[i]
	}
	if len(c.attempts) > 0 {
		_, err := c.run(ctx, "attempts", func(row wire.Row) error {
			in := column{row: row}
			if j := at[in.id()]; j != nil {
				j.Attempts = append(j.Attempts, nexjob.Attempt{
					Fence: in.int64(), Worker: in.text(), Started: in.time(), Ended: in.time(),
					Ending: nexjob.Ending(in.int64()), Error: in.text(), //nolint:gosec // written from an Ending
				})
			}
			return nil
		}, idList(c.attempts))
		if err != nil {
			return err
		}
	}
	if len(c.parents) == 0 {
		return nil
	}
	_, err := c.run(ctx, "parents", func(row wire.Row) error {
		in := column{row: row}
		if j := at[in.id()]; j != nil {
			j.Parents = append(j.Parents, nexjob.Parent{
				ID: in.id(), Rule: nexjob.Rule(in.int64()), Decided: in.bool(), //nolint:gosec // written from a Rule
			})
		}
		return nil
	}, idList(c.parents))
	return err
}

// Pulse locks and returns what is remembered of beats.
func (r *rows) Pulse(ctx context.Context) (rules.Pulse, error) {
	var p rules.Pulse
	name := "lock pulse"
	if r.free {
		name = "lock free pulse"
	}
	_, err := r.run(ctx, name, func(row wire.Row) error {
		c := column{row: row}
		number, text := c.int64(), c.text()
		if number == 0 {
			return nil
		}
		p.LastWrite = time.UnixMicro(number).UTC()
		if text == "" {
			return nil
		}
		return json.Unmarshal([]byte(text), &p.Gaps)
	})
	return p, err
}

// WritePulse remembers beats.
func (r *rows) WritePulse(ctx context.Context, p rules.Pulse) error {
	text := ""
	if len(p.Gaps) > 0 {
		encoded, err := json.Marshal(p.Gaps)
		if err != nil {
			return err
		}
		text = string(encoded)
	}
	return r.exec(ctx, "put pulse", wire.Int8(p.LastWrite.UnixMicro()), wire.Text(text))
}

// Rewind shortens leases after the clock went back.
func (r *rows) Rewind(ctx context.Context, now time.Time) error {
	if err := r.exec(ctx, "rewind leases", micros(now)); err != nil {
		return err
	}
	return r.exec(ctx, "rewind renewals", micros(now))
}
