package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// Bodies fills in the bodies that are too large for their jobs' rows; others came with
// them.
func (s *session) Bodies(ctx context.Context, jobs []*nexjob.Job) error {
	var ids []nexjob.ID
	at := make(map[nexjob.ID]*nexjob.Job)
	for _, j := range jobs {
		if s.places[j.ID].apart {
			ids = append(ids, j.ID)
			at[j.ID] = j
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return s.each(ctx, "bodies", func(v values) error {
		j := at[v.id(0)]
		j.Args, j.Tags, j.Meta = v.bytes(1), nil, nil
		return v.tagsAndMeta(2, j)
	}, hexIDs(ids))
}

// WriteJobs writes changed records: what frees a key before what takes it, so that
// no moment has two active jobs under one key.
func (r *rows) WriteJobs(ctx context.Context, writes []onewriter.JobWrite) error {
	r.added = span{}
	adds := 0
	for i := range writes {
		if writes[i].Was == nil {
			adds++
		}
	}
	added := make([]*nexjob.Job, 0, adds)
	var together joint
	for i := range writes {
		w := &writes[i]
		switch {
		case w.Gone:
			if err := r.dropJob(ctx, w.Was); err != nil {
				return err
			}
		case w.Was != nil:
			c, err := r.change(ctx, w)
			if err != nil {
				return err
			}
			together.add(&c)
		default:
			added = append(added, w.Job)
		}
	}
	if err := r.changeJobs(ctx, &together); err != nil {
		return err
	}
	if len(added) > 0 {
		if err := r.addJobs(ctx, added); err != nil {
			return err
		}
	}
	r.remember(writes)
	return nil
}

// change prepares the write of a job that is stored.
func (r *rows) change(ctx context.Context, w *onewriter.JobWrite) (c change, err error) {
	at, err := r.placeOf(ctx, w.Job.ID)
	if err != nil {
		return change{}, err
	}
	c = change{write: w, seq: at.seq}
	if c.was, err = rowOf(w.Was, at.apart); err != nil {
		return change{}, err
	}
	if w.Body {
		if c.body, at.apart, err = bodyOf(w.Job); err != nil {
			return change{}, err
		}
		r.stands(w.Job.ID, at)
	}
	c.is, err = rowOf(w.Job, at.apart)
	return c, err
}

// placeOf returns where a stored job stands. One that this unit added is asked for, since
// few of them are written again and none is noted.
func (r *rows) placeOf(ctx context.Context, id nexjob.ID) (place, error) {
	if at, ok := r.places[id]; ok {
		return at, nil
	}
	return r.findPlace(ctx, id)
}

// findPlace asks the file where a job stands. Apart from placeOf, whose usual way else
// would put the ID on the heap.
func (r *rows) findPlace(ctx context.Context, id nexjob.ID) (place, error) {
	at := place{seq: -1}
	err := r.each(ctx, "place", func(v values) error {
		at = place{seq: v.int64(0), apart: v.int64(1)&flagApart != 0}
		return nil
	}, id[:])
	if err == nil && at.seq < 0 {
		err = fmt.Errorf("job %s is not stored", id)
	}
	return at, err
}

// changeJobs writes jobs that are stored: those that go together, then the others, those
// that ended first.
func (r *rows) changeJobs(ctx context.Context, together *joint) error {
	if err := r.writeJoint(ctx, together); err != nil {
		return err
	}
	for _, ended := range []bool{true, false} {
		for _, c := range together.rest {
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

// group is new jobs of one shape.
type group struct {
	shape shape
	jobs  []fresh
	args  []any // of their own
}

// fresh is a new job, and whether it has more than "add job" writes.
type fresh struct {
	job         *nexjob.Job
	apart, rest bool
}

// addJobs writes new jobs, those of one shape together.
func (r *rows) addJobs(ctx context.Context, added []*nexjob.Job) error {
	var groups []*group
	at := make(map[shape]*group)
	apart := make(map[nexjob.ID]body)
	r.keys.expect(len(added))
	for i, j := range added {
		if j.Key != "" { // it is about to name the job
			r.keys.name(j.Key, j.ID)
			r.added.keyed++
		}
		b, large, err := bodyOf(j)
		if err != nil {
			return err
		}
		is, err := rowOf(j, large)
		if err != nil {
			return err
		}
		if large {
			apart[j.ID], b = b, body{}
		}
		g := groupOf(&groups, at, is.shape(&b))
		if i == 0 { // most often all are alike
			g.jobs, g.args = make([]fresh, 0, len(added)), make([]any, 0, addJob.own()*len(added))
		}
		rest := is != is.made() || len(j.Attempts) > 0 || len(j.Parents) > 0 || len(j.Result) > 0
		g.jobs = append(g.jobs, fresh{job: j, apart: large, rest: rest})
		g.args = appendOwn(g.args, j, b.args)
	}
	seq, err := r.above(ctx)
	if err != nil {
		return err
	}
	r.added.first = seq
	for _, g := range groups {
		if err := r.addGroup(ctx, g, seq, apart); err != nil {
			return err
		}
		seq += int64(len(g.jobs))
	}
	r.seq, r.added.last = seq-1, seq-1
	return nil
}

// groupOf finds or makes the group of a shape. The newest is looked at first, for hashing
// a shape costs more than comparing it.
func groupOf(groups *[]*group, at map[shape]*group, s shape) *group {
	if n := len(*groups); n > 0 && (*groups)[n-1].shape == s {
		return (*groups)[n-1]
	}
	if g, ok := at[s]; ok {
		return g
	}
	g := &group{shape: s}
	at[s] = g
	*groups = append(*groups, g)
	return g
}

// addGroup writes new jobs of one shape, from a place on.
func (r *rows) addGroup(ctx context.Context, g *group, seq int64, apart map[nexjob.ID]body) error {
	if err := r.insert(ctx, addJob, func(done int) []any { return g.shape.args(seq + int64(done)) }, g.args); err != nil {
		return err
	}
	for _, f := range g.jobs {
		if f.apart {
			b := apart[f.job.ID]
			if _, err := r.exec(ctx, "put body", append([]any{seq}, b.columns()...)...); err != nil {
				return err
			}
		}
		if f.rest {
			if err := r.addRest(ctx, f, seq); err != nil {
				return err
			}
		}
		seq++
	}
	return nil
}

// addRest writes of a new job what "add job" does not.
func (r *rows) addRest(ctx context.Context, f fresh, seq int64) error {
	is, err := rowOf(f.job, f.apart)
	if err != nil {
		return err
	}
	if name, args := is.update(is.made(), seq); name != "" {
		if _, err := r.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	return r.writeExtras(ctx, &nexjob.Job{}, f.job)
}

// insert adds rows, as many of them at a time as there is a statement for. common
// returns the values that they have in common, after some are done.
func (r *rows) insert(ctx context.Context, a adding, common func(done int) []any, own []any) error {
	done := 0
	var args []any
	for _, n := range rowsAtOnce() {
		for len(own) >= n*a.own() {
			args = args[:0]
			if common != nil {
				args = append(args, common(done)...)
			}
			args = append(args, own[:n*a.own()]...)
			if _, err := r.exec(ctx, a.rows(n), args...); err != nil {
				return err
			}
			own, done = own[n*a.own():], done+n
		}
	}
	return nil
}

func (r *rows) changeJob(ctx context.Context, c *change) error {
	if name, args := c.is.update(c.was, c.seq); name != "" {
		if _, err := r.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	if c.write.Body {
		if err := r.changeBody(ctx, c); err != nil {
			return err
		}
	}
	return r.writeExtras(ctx, c.write.Was, c.write.Job)
}

// changeBody writes a body that was chosen anew, in the row or beside it.
func (r *rows) changeBody(ctx context.Context, c *change) error {
	inRow := c.body
	if apart := c.is.flags&flagApart != 0; apart {
		inRow = body{}
		if _, err := r.exec(ctx, "put body", append([]any{c.seq}, c.body.columns()...)...); err != nil {
			return err
		}
	} else if c.was.flags&flagApart != 0 {
		if _, err := r.exec(ctx, "drop body", c.seq); err != nil {
			return err
		}
	}
	_, err := r.exec(ctx, "change body", append(inRow.columns(), c.seq)...)
	return err
}

// writeExtras writes what changed of a job in other tables: attempts, parents that are
// decided, and the result.
func (r *rows) writeExtras(ctx context.Context, was, is *nexjob.Job) error {
	if err := r.writeAttempts(ctx, was, is); err != nil {
		return err
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

// writeAttempts adds attempts at the end and cuts them at the beginning. One that the
// job's row tells of has no row of its own until another follows it.
func (r *rows) writeAttempts(ctx context.Context, was, is *nexjob.Job) error {
	had, has := was.Attempts, is.Attempts
	wasTold, isTold := toldByRow(was), toldByRow(is)
	if wasTold {
		had = had[:len(had)-1]
	}
	if isTold {
		has = has[:len(has)-1]
	}
	if isTold && !wasTold && newest(had) == is.Fence { // a verdict let it stand
		if _, err := r.exec(ctx, "drop attempt", is.ID[:], is.Fence); err != nil {
			return err
		}
		had = had[:len(had)-1]
	}
	if len(had) > 0 && len(has) > 0 && has[0].Fence > had[0].Fence {
		if _, err := r.exec(ctx, "drop old attempts", is.ID[:], has[0].Fence); err != nil {
			return err
		}
	}
	for last := newest(had); len(has) > 0; has = has[1:] {
		a := &has[0]
		if a.Fence <= last {
			continue
		}
		if _, err := r.exec(ctx, "add attempt", is.ID[:], a.Fence, a.Worker, micros(a.Started), micros(a.Ended),
			int64(a.Ending), a.Error); err != nil {
			return err
		}
	}
	return nil
}

// newest is the fence of the newest attempt, -1 when there is none.
func newest(attempts []nexjob.Attempt) int64 {
	if len(attempts) == 0 {
		return -1
	}
	return attempts[len(attempts)-1].Fence
}

func (r *rows) dropJob(ctx context.Context, was *nexjob.Job) error {
	at, err := r.placeOf(ctx, was.ID)
	if err != nil {
		return err
	}
	delete(r.places, was.ID)
	drops := []struct {
		name string
		is   bool
		of   any
	}{
		{"drop body", at.apart, at.seq},
		{"drop attempts", len(was.Attempts) > 0, was.ID[:]},
		{"drop parents", len(was.Parents) > 0, was.ID[:]},
		{"drop result", len(was.Result) > 0, was.ID[:]},
		{"drop job", true, at.seq},
	}
	for _, d := range drops {
		if !d.is {
			continue
		}
		if _, err := r.exec(ctx, d.name, d.of); err != nil {
			return err
		}
	}
	return nil
}
