package sqlite

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
)

// known is what the lane remembers of the file from one transaction to the next, so
// that it need not read what it has written itself. It is true only while nobody else
// has written, which SQLite tells under the write lock (PRAGMA data_version); then it
// is forgotten.
type known struct {
	keeps   bool // the rows are the lane's; others remember nothing
	version int64

	bounded bool
	seq     int64     // no row stands above it
	newest  nexjob.ID // no ID is above it

	beaten bool
	pulse  rules.Pulse

	leased map[nexjob.ID]nexjob.Job // Processing, as they were written

	looked bool
	family bool // a job may have parents
}

// manyKnown bounds what is remembered of single jobs.
const manyKnown = 20_000

// refresh forgets what may not be true any more. It is the first call of a
// transaction that holds the write lock.
func (r *rows) refresh(ctx context.Context) error {
	version := int64(0)
	err := r.each(ctx, "version", func(v values) error {
		version = v.int64(0)
		return nil
	})
	if err != nil || version != r.version || len(r.places) > manyKnown {
		r.forget()
	}
	r.version = version
	return err
}

// forget forgets everything.
func (r *rows) forget() {
	r.known = known{keeps: r.keeps}
	r.places = nil
}

// recall returns the jobs that are remembered, and those of which nothing is known.
func (r *rows) recall(ctx context.Context, ids []nexjob.ID) (found []nexjob.Job, unknown []nexjob.ID, err error) {
	if !r.keeps {
		return nil, ids, nil
	}
	if err := r.bound(ctx); err != nil {
		return nil, nil, err
	}
	if len(r.leased) > 0 {
		found = make([]nexjob.Job, 0, min(len(ids), len(r.leased)))
	}
	for _, id := range ids {
		if j, ok := r.leased[id]; ok {
			found = append(found, j)
		} else if id.Compare(r.newest) <= 0 {
			unknown = append(unknown, id)
		}
	}
	return found, unknown, nil
}

// bound finds the bounds of what is stored.
func (r *rows) bound(ctx context.Context) error {
	if r.bounded {
		return nil
	}
	err := r.each(ctx, "newest", func(v values) error {
		r.seq, r.newest = v.int64(0), v.id(1)
		return nil
	})
	r.bounded = err == nil
	return err
}

// above returns the first place that is free for new jobs.
func (r *rows) above(ctx context.Context) (int64, error) {
	if !r.keeps { // its transaction may have gone back over what it added
		r.bounded = false
	}
	err := r.bound(ctx)
	return r.seq + 1, err
}

// AnyChild reports whether a job may have parents.
func (r *rows) AnyChild(ctx context.Context) (bool, error) {
	if r.looked && r.keeps {
		return r.family, nil
	}
	err := r.each(ctx, "first child", func(v values) error {
		r.family = v[0] != nil
		return nil
	})
	r.looked = err == nil
	return r.family, err
}

// remember takes note of what was written.
func (r *rows) remember(writes []onewriter.JobWrite) {
	if !r.keeps {
		return
	}
	if r.leased == nil {
		r.leased = make(map[nexjob.ID]nexjob.Job)
	}
	for i := range writes {
		j := writes[i].Job
		switch {
		case writes[i].Gone:
			delete(r.leased, j.ID)
			continue
		case writes[i].Was == nil:
			if j.ID.Compare(r.newest) > 0 {
				r.newest = j.ID
			}
		}
		r.family = r.family || len(j.Parents) > 0
		if j.State == nexjob.Processing {
			r.leased[j.ID] = ownJob(*j)
		} else {
			delete(r.leased, j.ID)
		}
	}
}

// ownJob copies a job with all that the caller of a claim could change in its answer.
func ownJob(j nexjob.Job) nexjob.Job {
	j.Args, j.Result = bytes.Clone(j.Args), bytes.Clone(j.Result)
	j.Tags, j.Meta = slices.Clone(j.Tags), maps.Clone(j.Meta)
	j.Attempts, j.Parents, j.Followers = slices.Clone(j.Attempts), slices.Clone(j.Parents), slices.Clone(j.Followers)
	return j
}
