package sqlite

import (
	"bytes"
	"context"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

var _ onewriter.Rows = (*rows)(nil)

// rows lends the tables to onewriter for one transaction.
type rows struct {
	*session
	pulses *pulseText
	floor  int64 // of fences
	keys   keyNotes
}

// Jobs returns stored jobs.
func (r *rows) Jobs(ctx context.Context, ids []nexjob.ID) ([]nexjob.Job, error) {
	c := collector{found: make([]nexjob.Job, 0, len(ids))}
	if err := r.each(ctx, "jobs by id", c.take, hexIDs(ids)); err != nil {
		return nil, err
	}
	return c.found, r.complete(ctx, &c)
}

// Due returns claimable jobs in order.
func (r *rows) Due(
	ctx context.Context, now time.Time, queue string, kinds []string, n int,
) ([]nexjob.Job, error) {
	served, err := names(kinds)
	if err != nil {
		return nil, err
	}
	var lanes []int64
	err = r.each(ctx, "lanes due", func(v values) error {
		lanes = append(lanes, v.int64(0))
		return nil
	}, served, queue, now.UnixMicro())
	if err != nil {
		return nil, err
	}
	var found []nexjob.Job
	for _, priority := range lanes {
		if len(found) >= n {
			break
		}
		lane, err := r.jobs(ctx, "jobs due", served, queue, priority, now.UnixMicro(), n-len(found))
		if err != nil {
			return nil, err
		}
		found = append(found, lane...)
	}
	return found, nil
}

// Leased returns jobs whose lease has ended.
func (r *rows) Leased(ctx context.Context, now time.Time, n int) ([]nexjob.Job, error) {
	return r.jobs(ctx, "jobs leased", now.UnixMicro(), n)
}

// Select returns the oldest jobs that a query selects.
func (r *rows) Select(ctx context.Context, now time.Time, q nexjob.Query, n int) ([]nexjob.Job, error) {
	return r.search(ctx, searchJobs(r.sheet, &q, now), n)
}

// Children returns the jobs that wait for parents.
func (r *rows) Children(ctx context.Context, parents []nexjob.ID) ([]nexjob.Job, error) {
	return r.jobs(ctx, "children", hexIDs(parents))
}

// jobs reads whole records but for their bodies.
func (s *session) jobs(ctx context.Context, name string, args ...any) ([]nexjob.Job, error) {
	var c collector
	if err := s.each(ctx, name, c.take, args...); err != nil {
		return nil, err
	}
	return c.found, s.complete(ctx, &c)
}

// search reads the jobs of a statement that was put together.
func (s *session) search(ctx context.Context, q *search, n int) ([]nexjob.Job, error) {
	var c collector
	text, args := q.page(n)
	if err := s.query(ctx, text, c.take, args...); err != nil {
		return nil, err
	}
	return c.found, s.complete(ctx, &c)
}

// collector gathers jobs and notes which of them have rows in other tables.
type collector struct {
	found                      []nexjob.Job
	attempts, parents, results []nexjob.ID
}

func (c *collector) take(v values) error {
	j, has, err := v.job()
	if err != nil {
		return err
	}
	if has.attempts > 0 {
		c.attempts = append(c.attempts, j.ID)
	}
	if has.parents > 0 {
		c.parents = append(c.parents, j.ID)
	}
	if has.results > 0 {
		c.results = append(c.results, j.ID)
	}
	c.found = append(c.found, j)
	return nil
}

// complete reads what other tables hold of the jobs.
func (s *session) complete(ctx context.Context, c *collector) error {
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

// Bodies fills in what an enqueue chose.
func (s *session) Bodies(ctx context.Context, jobs []*nexjob.Job) error {
	ids := make([]nexjob.ID, len(jobs))
	at := make(map[nexjob.ID]*nexjob.Job, len(jobs))
	for i, j := range jobs {
		ids[i], at[j.ID] = j.ID, j
	}
	return s.each(ctx, "bodies", func(v values) error {
		j := at[v.id(0)]
		j.Args, j.Tags, j.Meta = v.bytes(1), nil, nil
		if err := v.decode(2, &j.Tags); err != nil {
			return err
		}
		return v.decode(3, &j.Meta)
	}, hexIDs(ids))
}

// WriteJobs writes changed records: what frees a key before what takes it, so that
// no moment has two active jobs under one key.
func (r *rows) WriteJobs(ctx context.Context, writes []onewriter.JobWrite) error {
	changes := make([]change, 0, len(writes))
	for i := range writes {
		w := &writes[i]
		switch {
		case w.Gone:
			if err := r.dropJob(ctx, w.Was); err != nil {
				return err
			}
		case w.Was != nil:
			c := change{write: w}
			var err error
			if c.was, err = rowOf(w.Was); err != nil {
				return err
			}
			if c.is, err = rowOf(&w.Job); err != nil {
				return err
			}
			changes = append(changes, c)
		}
	}
	if err := r.changeJobs(ctx, changes); err != nil {
		return err
	}
	for i := range writes {
		if w := &writes[i]; w.Was == nil && !w.Gone {
			if err := r.addJob(ctx, &w.Job); err != nil {
				return err
			}
		}
	}
	return nil
}

// changeJobs writes jobs that are stored, those that ended first.
func (r *rows) changeJobs(ctx context.Context, changes []change) error {
	rest, err := r.writeBulk(ctx, changes)
	if err != nil {
		return err
	}
	for _, ended := range []bool{true, false} {
		for _, c := range rest {
			if c.write.Job.State.Terminal() != ended {
				continue
			}
			if err := r.changeJob(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *rows) addJob(ctx context.Context, j *nexjob.Job) error {
	r.keys.add(j)
	now, err := rowOf(j)
	if err != nil {
		return err
	}
	args, made := now.add()
	if _, err := r.exec(ctx, "add job", args...); err != nil {
		return err
	}
	body, err := bodyArgs(j)
	if err != nil {
		return err
	}
	if _, err := r.exec(ctx, "add body", body...); err != nil {
		return err
	}
	if name, args := now.update(made); name != "" {
		if _, err := r.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	return r.writeExtras(ctx, &nexjob.Job{}, j)
}

func (r *rows) changeJob(ctx context.Context, c *change) error {
	if name, args := c.is.update(c.was); name != "" {
		if _, err := r.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	if c.write.Body {
		body, err := bodyArgs(&c.write.Job)
		if err != nil {
			return err
		}
		if _, err := r.exec(ctx, "change body", append(body, c.is.id[:])...); err != nil {
			return err
		}
	}
	return r.writeExtras(ctx, c.write.Was, &c.write.Job)
}

// writeExtras writes what changed of a job in other tables: attempts are added at
// the end and cut at the beginning, parents are decided.
func (r *rows) writeExtras(ctx context.Context, was, is *nexjob.Job) error {
	last := int64(-1)
	if n := len(was.Attempts); n > 0 {
		last = was.Attempts[n-1].Fence
		if len(is.Attempts) > 0 && is.Attempts[0].Fence > was.Attempts[0].Fence {
			if _, err := r.exec(ctx, "drop old attempts", is.ID[:], is.Attempts[0].Fence); err != nil {
				return err
			}
		}
	}
	for i := range is.Attempts {
		a := &is.Attempts[i]
		if a.Fence <= last {
			continue
		}
		if _, err := r.exec(ctx, "add attempt", is.ID[:], a.Fence, a.Worker, micros(a.Started), micros(a.Ended),
			int64(a.Ending), a.Error); err != nil {
			return err
		}
	}
	for i, p := range is.Parents {
		if i >= len(was.Parents) {
			if _, err := r.exec(ctx, "add parent", is.ID[:], i, p.ID[:], int64(p.Rule), flag(p.Decided)); err != nil {
				return err
			}
		} else if p.Decided != was.Parents[i].Decided {
			if _, err := r.exec(ctx, "decide parent", flag(p.Decided), is.ID[:], i); err != nil {
				return err
			}
		}
	}
	if bytes.Equal(was.Result, is.Result) {
		return nil
	}
	var err error
	if len(is.Result) == 0 {
		_, err = r.exec(ctx, "drop result", is.ID[:])
	} else {
		_, err = r.exec(ctx, "put result", is.ID[:], is.Result)
	}
	return err
}

func (r *rows) dropJob(ctx context.Context, was *nexjob.Job) error {
	drops := []struct {
		name string
		is   bool
	}{
		{"drop body", true},
		{"drop attempts", len(was.Attempts) > 0},
		{"drop parents", len(was.Parents) > 0},
		{"drop result", len(was.Result) > 0},
		{"drop job", true},
	}
	for _, d := range drops {
		if !d.is {
			continue
		}
		if _, err := r.exec(ctx, d.name, was.ID[:]); err != nil {
			return err
		}
	}
	return nil
}
