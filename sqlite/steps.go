package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
)

// write hands a call to the lane and waits for it. Inside a transaction that the
// caller holds open it would wait for itself, so it is refused at once.
func (s *Store) write(ctx context.Context, verb string, now time.Time, c *call) error {
	err := s.check(ctx, now)
	if err == nil && nexjob.InTx(ctx) {
		err = nexjob.ErrInTransaction
	}
	if err == nil {
		c.now, c.wait = now, onewriter.StartWait(s.clock)
		c.done, c.gone = make(chan struct{}), func() bool { return ctx.Err() != nil }
		if err = s.lane.do(ctx, c); outOfTime(err) {
			err = s.lane.holder.late(c.wait.Add(now).Sub(now), err)
		}
	}
	if _, panicked := errors.AsType[*panicError](err); panicked {
		panic(err) // in the goroutine of the caller whose step it was
	}
	return wrap(verb, err)
}

// Enqueue adds jobs; see nexjob.Queue. What the caller handed in is copied: a caller
// that stops waiting may change it while the lane is still at work.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	w := &items[nexjob.NewJob, nexjob.Answer]{step: (*onewriter.Unit).Enqueue, list: ownJobs(jobs)}
	err := s.write(ctx, "enqueue", now, &call{sort: enqueueing, size: len(jobs), work: w})
	if err != nil {
		return nil, err
	}
	return w.answers, nil
}

// ownJobs copies jobs with all that a caller could change.
func ownJobs(jobs []nexjob.NewJob) []nexjob.NewJob {
	own := slices.Clone(jobs)
	size := 0
	for i := range own {
		size += len(own[i].Args)
	}
	all := make([]byte, 0, size) // of all args, so that there is one to make
	for i := range own {
		n := &own[i]
		begin := len(all)
		all = append(all, n.Args...)
		n.Args, n.Meta = all[begin:len(all):len(all)], maps.Clone(n.Meta)
		n.Tags, n.Parents, n.Aliases = slices.Clone(n.Tags), slices.Clone(n.Parents), slices.Clone(n.Aliases)
	}
	return own
}

// ownQuery copies a query with all that a caller could change.
func ownQuery(q nexjob.Query) nexjob.Query {
	q.IDs, q.Operations = slices.Clone(q.IDs), slices.Clone(q.Operations)
	q.Kinds, q.Queues, q.Tags = slices.Clone(q.Kinds), slices.Clone(q.Queues), slices.Clone(q.Tags)
	q.States, q.EffectStates = slices.Clone(q.States), slices.Clone(q.EffectStates)
	return q
}

// Settle ends attempts; see nexjob.Queue.
func (s *Store) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	size := len(ends)
	ends = slices.Clone(ends)
	for i := range ends {
		size += len(ends[i].Followers)
		ends[i].Result = bytes.Clone(ends[i].Result)
		ends[i].Followers = ownJobs(ends[i].Followers)
	}
	w := &items[nexjob.Settlement, nexjob.Settled]{step: (*onewriter.Unit).Settle, list: ends}
	err := s.write(ctx, "settle", now, &call{sort: settling, size: size, work: w})
	if err != nil {
		return nil, err
	}
	return w.answers, nil
}

// Renew extends leases; see nexjob.Queue. The wait for the writer is added to until,
// as it is to now. While somebody holds the file for longer than the caller can wait,
// current leases are busy.
func (s *Store) Renew(
	ctx context.Context, now, until time.Time, leases []nexjob.Lease,
) ([]nexjob.Renewal, error) {
	length := until.Sub(now)
	w := &items[nexjob.Lease, nexjob.Renewal]{list: slices.Clone(leases)}
	w.step = func(u *onewriter.Unit, ctx context.Context, all []nexjob.Lease) ([]nexjob.Renewal, error) {
		return u.Renew(ctx, length, all)
	}
	wait := onewriter.StartWait(s.clock)
	patient, cancel := onewriter.Patience(ctx, length)
	defer cancel()
	err := s.write(patient, "renew", now, &call{sort: renewing, size: len(leases), length: length, work: w})
	switch {
	case err == nil:
		return w.answers, nil
	case onewriter.Impatient(ctx, patient, err):
		return s.unrenewed(ctx, wait.Add(now), leases)
	}
	return nil, err
}

// unrenewed answers a renewal while somebody holds the file: what is committed tells
// which leases are current. Nobody can take one away before the file is free.
func (s *Store) unrenewed(ctx context.Context, now time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	return read(ctx, s, "renew", now, func(in *session) ([]nexjob.Renewal, error) {
		ids := make([]nexjob.ID, len(leases))
		for i := range leases {
			ids[i] = leases[i].Job
		}
		jobs, err := (&rows{session: in}).Jobs(ctx, ids)
		if err != nil {
			return nil, err
		}
		return onewriter.Unrenewed(jobs, leases), nil
	})
}

// Record writes receipts; see nexjob.Ledger.
func (s *Store) Record(
	ctx context.Context, now time.Time, receipts []nexjob.Receipt,
) ([]nexjob.Recorded, error) {
	receipts = slices.Clone(receipts)
	for i := range receipts {
		receipts[i].Value = bytes.Clone(receipts[i].Value)
	}
	w := &items[nexjob.Receipt, nexjob.Recorded]{step: (*onewriter.Unit).Record, list: receipts}
	err := s.write(ctx, "record", now, &call{sort: recording, size: len(receipts), work: w})
	if err != nil {
		return nil, err
	}
	return w.answers, nil
}

// Put compares and swaps entries; see nexjob.Registry.
func (s *Store) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	puts = slices.Clone(puts)
	for i := range puts {
		puts[i].Entry.Value = bytes.Clone(puts[i].Entry.Value)
	}
	w := &items[nexjob.Put, nexjob.PutAnswer]{step: (*onewriter.Unit).Put, list: puts}
	err := s.write(ctx, "put", now, &call{sort: putting, size: len(puts), work: w})
	if err != nil {
		return nil, err
	}
	return w.answers, nil
}

// Amend applies an action to jobs; see nexjob.Archive.
func (s *Store) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if err := onewriter.CheckAction(q, &do, limit); err != nil {
		return nexjob.Amended{}, wrap("amend", err)
	}
	q = ownQuery(q)
	if do.FollowUp != nil {
		do.FollowUp = &ownJobs([]nexjob.NewJob{*do.FollowUp})[0]
	}
	do.Value = bytes.Clone(do.Value)
	w := &single[nexjob.Amended]{
		step: func(u *onewriter.Unit, ctx context.Context) (nexjob.Amended, error) {
			return u.Amend(ctx, q, do, limit)
		},
	}
	err := s.write(ctx, "amend", now, &call{sort: amending, size: limit, work: w})
	if err != nil {
		return nexjob.Amended{}, err
	}
	return w.answer, nil
}

// Claim leases due jobs; see nexjob.Queue. An idle claim looks on a reader's
// connection and goes no further, so that polls take no lock and flush no disk.
func (s *Store) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if err := onewriter.CheckClaim(&ask); err != nil {
		return nil, wrap("claim", err)
	}
	ask.Kinds, ask.Queues = slices.Clone(ask.Kinds), slices.Clone(ask.Queues)
	if !s.busy.Load() {
		idle, err := s.idle(ctx, now, &ask)
		if err != nil || idle {
			return nil, wrap("claim", err)
		}
	}
	w := &single[[]nexjob.Claimed]{
		step: func(u *onewriter.Unit, ctx context.Context) ([]nexjob.Claimed, error) { return u.Claim(ctx, ask) },
	}
	if err := s.write(ctx, "claim", now, &call{sort: claiming, size: ask.N, work: w}); err != nil {
		return nil, err
	}
	s.busy.Store(ask.N > 0 && len(w.answer) == ask.N)
	return w.answer, nil
}

// idle reports that a claim would neither find nor change anything: no job is due,
// no lease has ended, and the last write is not so old that one is due.
func (s *Store) idle(ctx context.Context, now time.Time, ask *nexjob.ClaimRequest) (bool, error) {
	if err := s.check(ctx, now); err != nil {
		return false, err
	}
	if nexjob.InTx(ctx) {
		return false, nexjob.ErrInTransaction
	}
	queues := ask.Queues
	if ask.N == 0 {
		queues = nil
	}
	rows, err := s.look.QueryContext(ctx, now.UnixMicro(), jsonNames(queues), jsonNames(ask.Kinds))
	if err != nil {
		return false, fmt.Errorf("look: %w", s.orClosed(err))
	}
	idle := false
	err = eachRow(rows, func(v values) error {
		last := rules.Pulse{LastWrite: v.time(2)}
		wentBack := now.Before(last.LastWrite.Add(-time.Second))
		idle = !v.bool(0) && !v.bool(1) && !wentBack && !last.Quiet(now, ask.Lease)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look: %w", s.orClosed(err))
	}
	return idle, nil
}
