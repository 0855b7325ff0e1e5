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

// writeBulk writes the changes that go together and returns the others.
func (r *rows) writeBulk(ctx context.Context, changes []change) (rest []*change, err error) {
	leases, ends := make(map[leaseAs][]*change), make(map[stamp][]*change)
	for i := range changes {
		c := &changes[i]
		if as, ok := c.leased(); ok {
			leases[as] = append(leases[as], c)
		} else if at, ok := c.endedWell(); ok {
			ends[at] = append(ends[at], c)
		} else {
			rest = append(rest, c)
		}
	}
	for as, group := range leases {
		slices.SortFunc(group, func(a, b *change) int { return cmp.Compare(a.is.fence, b.is.fence) })
		first, last := group[0].is.fence, group[len(group)-1].is.fence
		if last-first != int64(len(group))-1 || len(group) == 1 {
			rest = append(rest, group...)
			continue
		}
		if _, err := r.exec(ctx, "lease jobs", first, as.worker, as.startedAt.arg(), as.until.arg(), as.leaseNs,
			places(seqs(group))); err != nil {
			return nil, err
		}
	}
	for at, group := range ends {
		if _, err := r.exec(ctx, "end jobs well", at.arg(), places(seqs(group))); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// seqs are the places of jobs.
func seqs(changes []*change) []int64 {
	at := make([]int64, len(changes))
	for i, c := range changes {
		at[i] = c.seq
	}
	return at
}

// places lists places for a statement.
func places(at []int64) string {
	text := make([]byte, 0, 12*len(at))
	text = append(text, '[')
	for i, seq := range at {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, seq, 10)
	}
	return string(append(text, ']'))
}
