package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// The two changes that most jobs go through, being leased and ending well, are
// written for many jobs at once. Each is recognised by what changed: a job that
// differs in anything else is written by itself.

// change is the write of a job that is stored, with its rows.
type change struct {
	write   *onewriter.JobWrite
	seq     int64
	was, is row
	body    body // chosen anew, if write says so
}

// leaseAs is what jobs leased by one statement share.
type leaseAs struct {
	worker           string
	startedAt, until stamp
	leaseNs          int64
}

// leased reports whether a job was leased and nothing else.
func (c *change) leased() (leaseAs, bool) {
	next := c.was
	next.state, next.fence, next.worker = int64(nexjob.Processing), c.is.fence, c.is.worker
	next.startedAt, next.leaseUntil, next.leaseFor = c.is.startedAt, c.is.leaseUntil, c.is.leaseFor
	next.flags |= flagStarted
	return leaseAs{c.is.worker, c.is.startedAt, c.is.leaseUntil, int64(c.is.leaseFor)},
		next == c.is && !c.write.Body
}

// endedWell reports whether an attempt succeeded, at a time, and nothing else. The row
// says whether there is a result, but not which.
func (c *change) endedWell() (stamp, bool) {
	next := c.was
	next.state, next.dueAt, next.endedAt = int64(nexjob.Succeeded), none, c.is.endedAt
	next.leaseUntil, next.leaseFor, next.reason = none, 0, ""
	next.flags = next.flags&^flagStop | flagTold
	next.settledFence, next.settledAs = c.was.fence, int64(nexjob.EndSucceeded)
	same := next == c.is && !c.write.Body && bytes.Equal(c.write.Was.Result, c.write.Job.Result)
	return c.is.endedAt, same && c.was.state == int64(nexjob.Processing)
}

// joint holds changes of stored jobs, those that go together apart from the rest.
type joint struct {
	leases map[leaseAs][]placed
	ends   map[stamp][]placed
	rest   []*change
}

// placed is a job in the list of a statement, which knows it by its place alone. A change
// adds its fence, and the write that it comes from.
type placed struct {
	seq, fence int64
	write      *onewriter.JobWrite
}

// add takes a change in.
func (j *joint) add(c *change) {
	p := placed{seq: c.seq, fence: c.is.fence, write: c.write}
	if as, ok := c.leased(); ok {
		if j.leases == nil {
			j.leases = make(map[leaseAs][]placed)
		}
		j.leases[as] = append(j.leases[as], p)
	} else if at, ok := c.endedWell(); ok {
		if j.ends == nil {
			j.ends = make(map[stamp][]placed)
		}
		j.ends[at] = append(j.ends[at], p)
	} else {
		alone := *c
		j.rest = append(j.rest, &alone)
	}
}

// writeJoint writes the changes that go together. Leases whose fences do not follow one
// another join the rest.
func (r *rows) writeJoint(ctx context.Context, j *joint) error {
	for as, group := range j.leases {
		slices.SortFunc(group, func(a, b placed) int { return cmp.Compare(a.fence, b.fence) })
		first, last := group[0].fence, group[len(group)-1].fence
		if last-first != int64(len(group))-1 || len(group) == 1 {
			for _, p := range group {
				c, err := r.change(ctx, p.write)
				if err != nil {
					return err
				}
				j.rest = append(j.rest, &c)
			}
			continue
		}
		if _, err := r.exec(ctx, "lease jobs", first, as.worker, as.startedAt.arg(), as.until.arg(), as.leaseNs,
			places(group)); err != nil {
			return err
		}
	}
	for at, group := range j.ends {
		if _, err := r.exec(ctx, "end jobs well", at.arg(), places(group)); err != nil {
			return err
		}
	}
	return nil
}

// places lists places for a statement.
func places(at []placed) string {
	text := make([]byte, 0, 12*len(at))
	text = append(text, '[')
	for i := range at {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, at[i].seq, 10)
	}
	return string(append(text, ']'))
}
