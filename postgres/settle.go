package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// Settle ends attempts; see nexjob.Queue. Those from whose end nothing else follows are
// one statement; the others are a step, and where somebody holds one of their rows, each
// is a step of its own.
func (s *Store) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("settle", err)
	}
	answers := make([]nexjob.Settled, len(ends))
	left, err := s.settlePlain(ctx, now, ends, answers)
	if err == nil && len(left) > 0 {
		err = s.settleLeft(ctx, now, ends, left, answers)
		if err != nil && len(left) < len(ends) && !errors.Is(err, nexjob.ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err) // some of them stand
		}
	}
	if err != nil {
		return nil, wrap("settle", err)
	}
	return answers, nil
}

// plainEnd reports whether an ending may be all that a settlement writes.
func plainEnd(s *nexjob.Settlement) bool {
	return s.As == nexjob.EndSucceeded && s.Error == "" && s.Delay == 0 && len(s.Followers) == 0 && len(s.Result) <= nexjob.MaxResult
}

// settlePlain ends attempts by the hot statement and lists those that are left.
func (s *Store) settlePlain(
	ctx context.Context, now time.Time, ends []nexjob.Settlement, answers []nexjob.Settled,
) (left []int, err error) {
	which := ordered(ends)
	if len(which.order) > 0 {
		if err := s.hot(ctx, "settle", which.take(answers), s.settling(now, which)...); err != nil && codeOf(err) != codeLocked && !again(err) {
			if unknown(err) {
				err = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
			}
			return nil, err
		}
	}
	for i := range answers {
		if answers[i].State == 0 {
			left = append(left, i)
		}
	}
	if len(left) < len(ends) {
		s.beat(ctx, now)
		s.rang()
	}
	return left, nil
}

// byJob is places of settlements in order of their jobs, each job once.
type byJob struct {
	ends  []nexjob.Settlement
	order []int
}

func ordered(ends []nexjob.Settlement) byJob {
	b := byJob{ends, make([]int, 0, len(ends))}
	for i := range ends {
		if plainEnd(&ends[i]) {
			b.order = append(b.order, i)
		}
	}
	slices.SortStableFunc(b.order, func(x, y int) int { return ends[x].Lease.Job.Compare(ends[y].Lease.Job) })
	b.order = slices.CompactFunc(b.order, func(x, y int) bool { return ends[x].Lease.Job == ends[y].Lease.Job })
	return b
}

// take answers the settlements that rows name; most often they come in order.
func (b byJob) take(answers []nexjob.Settled) func(wire.Row) error {
	next := 0
	return func(row wire.Row) error {
		id := nexjob.ID(row.UUID(0))
		if next == len(b.order) || b.ends[b.order[next]].Lease.Job != id {
			next, _ = slices.BinarySearchFunc(b.order, id, func(at int, id nexjob.ID) int { return b.ends[at].Lease.Job.Compare(id) })
		}
		answers[b.order[next]].State = nexjob.Succeeded
		next++
		return nil
	}
}

// settling is the hot statement's arguments.
func (s *Store) settling(now time.Time, which byJob) []wire.Arg {
	n := len(which.order)
	ids, fences, results := wire.UUIDs(n), wire.Bigints(n), wire.Byteas(n, 0)
	for _, i := range which.order {
		e := &which.ends[i]
		ids.Bytes(e.Lease.Job[:])
		fences.Int(e.Lease.Fence)
		results.BytesOrNull(e.Result)
	}
	return []wire.Arg{
		wire.Int8(rules.Micro(now).UnixMicro()), s.guarded(), ids.Arg(), fences.Arg(), results.Arg(), patienceArg(patience),
	}
}

// settleLeft ends the other attempts: together, or, where somebody holds a row of one of
// them, one by one. One whose row stays held is answered with trouble that may pass: its
// neighbours' answers do not wait for a stranger's transaction.
func (s *Store) settleLeft(
	ctx context.Context, now time.Time, ends []nexjob.Settlement, left []int, answers []nexjob.Settled,
) error {
	if len(left) > 1 {
		if err := s.settleStep(ctx, now, ends, left, patience, answers); codeOf(err) != codeLocked {
			return err
		}
	}
	for i, at := range left {
		err := s.settleStep(ctx, now, ends, left[i:i+1], alonePatience, answers)
		switch {
		case codeOf(err) == codeLocked:
			answers[at] = nexjob.Settled{Err: wrap("settle", fmt.Errorf("an open transaction holds the job or a follower's key: %w", err))}
		case err != nil:
			return err
		}
	}
	return nil
}

// alonePatience is how long one settlement waits for what somebody holds.
const alonePatience = 500 * time.Millisecond

func (s *Store) settleStep(
	ctx context.Context, now time.Time, ends []nexjob.Settlement, which []int, wait time.Duration, answers []nexjob.Settled,
) error {
	some := make([]nexjob.Settlement, len(which))
	for i, at := range which {
		some[i] = ends[at]
	}
	done, err := step(ctx, s, now, wait, func(ctx context.Context, u *onewriter.Unit, r *rows) ([]nexjob.Settled, error) {
		return settleIn(ctx, u, r, some)
	})
	for i := range done {
		answers[which[i]] = done[i]
	}
	return err
}

// settleIn ends attempts in a unit. The keys of followers, and those whose life begins
// with the end, are locked before the jobs.
func settleIn(ctx context.Context, u *onewriter.Unit, r *rows, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	ids := make([]nexjob.ID, len(ends))
	var keys []string
	for i := range ends {
		ids[i] = ends[i].Lease.Job
		for f := range ends[i].Followers {
			if key := ends[i].Followers[f].IdempotencyKey; key != "" && nexjob.ValidateKey(key) == nil {
				keys = append(keys, key)
			}
		}
	}
	living, err := r.keysOf(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	if err := r.lockKeys(ctx, append(keys, living...)); err != nil {
		return nil, err
	}
	return u.Settle(ctx, ends)
}

// Renew extends leases; see nexjob.Queue. It waits for nobody: a row that somebody holds
// is busy.
func (s *Store) Renew(ctx context.Context, now, until time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("renew", err)
	}
	answers, err := s.renew(ctx, now, until.Sub(now), leases)
	return answers, wrap("renew", err)
}

// manyLeases is how many leases one statement renews: no renewal holds many rows for long.
const manyLeases = 500

func (s *Store) renew(ctx context.Context, now time.Time, length time.Duration, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	length = min(length, nexjob.MaxDuration)
	waited := s.wait()
	answers := make([]nexjob.Renewal, len(leases))
	for from := 0; from < len(leases); from += manyLeases {
		some := leases[from:min(from+manyLeases, len(leases))]
		if err := s.renewSome(ctx, waited.Add(now), length, some, answers[from:]); err != nil {
			return nil, err
		}
	}
	s.beatOfRenewal(ctx, now, length)
	if slices.ContainsFunc(answers, func(a nexjob.Renewal) bool { return a.Status == 0 }) {
		return answers, s.unrenewed(ctx, leases, answers)
	}
	return answers, nil
}

func (s *Store) renewSome(
	ctx context.Context, now time.Time, length time.Duration, leases []nexjob.Lease, answers []nexjob.Renewal,
) error {
	ids, fences := wire.UUIDs(len(leases)), wire.Bigints(len(leases))
	at := make(map[nexjob.ID][]int, len(leases))
	for i, l := range leases {
		if len(at[l.Job]) == 0 || !slices.ContainsFunc(at[l.Job], func(o int) bool { return leases[o] == l }) {
			ids.Bytes(l.Job[:])
			fences.Int(l.Fence)
		}
		at[l.Job] = append(at[l.Job], i)
	}
	now = rules.Micro(now)
	return s.hot(ctx, "renew", func(row wire.Row) error {
		c := column{row: row}
		id, until, flags, fence := c.id(), c.time(), c.int64(), c.int64()
		for _, i := range at[id] {
			if leases[i].Fence == fence {
				answers[i] = nexjob.Renewal{Status: nexjob.Renewed, Until: until, Stop: flags&flagStop != 0}
			}
		}
		return nil
	}, wire.Int8(now.UnixMicro()), s.guarded(), ids.Arg(), fences.Arg(), wire.Int8(rules.Micro(now.Add(length)).UnixMicro()),
		wire.Int8(int64(length)))
}

// unrenewed answers leases whose rows could not be locked by what is committed.
func (s *Store) unrenewed(ctx context.Context, leases []nexjob.Lease, answers []nexjob.Renewal) error {
	var ids []nexjob.ID
	for i := range answers {
		if answers[i].Status == 0 {
			answers[i].Status = nexjob.Lost
			ids = append(ids, leases[i].Job)
		}
	}
	return s.hot(ctx, "standing", func(row wire.Row) error {
		c := column{row: row}
		id, fence, state, flags := c.id(), c.int64(), c.state(), c.int64()
		for i, l := range leases {
			if l.Job == id && l.Fence == fence && state == nexjob.Processing && answers[i].Status == nexjob.Lost {
				answers[i] = nexjob.Renewal{Status: nexjob.Busy, Stop: flags&flagStop != 0}
			}
		}
		return nil
	}, idList(ids))
}
