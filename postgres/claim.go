package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// lateLimit bounds the jobs past their deadline that one claim ends before it answers with
// fewer jobs than asked for.
const lateLimit = 1000

// Claim recovers leases that ran out and leases due jobs; see nexjob.Queue. It waits for
// nobody's row.
func (s *Store) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("claim", err)
	}
	claimed, err := s.claim(ctx, now, ask)
	return claimed, wrap("claim", err)
}

func (s *Store) claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if err := onewriter.CheckClaim(&ask); err != nil {
		return nil, err
	}
	waited := s.wait()
	every := min(time.Second, ask.Lease/6)
	if s.clock != nil || ask.N == 0 {
		every = 0
	}
	if s.upkeep.due(now, every) {
		if err := s.recover(ctx, now, ask); err != nil && (ask.N == 0 || !passes(err)) {
			return nil, err
		}
	}
	if ask.N == 0 || len(ask.Queues) == 0 || len(ask.Kinds) == 0 {
		return nil, nil
	}
	var claimed []nexjob.Claimed
	late := 0
	for len(claimed) < ask.N && late < lateLimit {
		some, expired, err := s.claimDue(ctx, waited.Add(now), &ask, ask.N-len(claimed))
		if err != nil {
			s.upkeep.forget() // this may be another server by the next claim: fences are raised first
		}
		if err != nil && len(claimed) == 0 {
			return nil, err
		}
		if claimed == nil {
			claimed = some
		} else {
			claimed = append(claimed, some...)
		}
		late += len(expired)
		if err != nil || len(expired) == 0 {
			break
		}
		if err := s.expire(ctx, waited.Add(now), expired); err != nil {
			if len(claimed) == 0 {
				return nil, err
			}
			break // they stay due; what was claimed must not be lost
		}
	}
	if len(claimed) > 0 {
		s.beat(ctx, now)
	}
	return claimed, nil
}

// NextDue returns when the next job falls due; see nexjob.Forecaster.
func (s *Store) NextDue(ctx context.Context, now time.Time, queues, kinds []string) (time.Time, error) {
	var due time.Time
	err := s.check(ctx, now)
	if err == nil {
		err = s.hot(ctx, "next due", func(row wire.Row) error {
			c := column{row: row}
			due = c.time()
			return nil
		}, wire.Int8(now.UnixMicro()), nameList(queues), nameList(kinds))
	}
	return due, wrap("next due", err)
}

// recover takes jobs away from workers whose leases ran out.
func (s *Store) recover(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) error {
	ask.N = 0
	rings := false
	_, err := step(ctx, s, now, time.Second, func(ctx context.Context, _ *onewriter.Unit, r *rows) (struct{}, error) {
		u, err := onewriter.Begin(ctx, r, now) // it locks the pulse: one recovers at a time
		if err != nil {
			return struct{}{}, err
		}
		if _, err := r.run(ctx, "raise fences", nil, wire.Int8(max(now.UnixMicro(), 0))); err != nil {
			return struct{}{}, err
		}
		if _, err := u.Claim(ctx, ask); err != nil {
			return struct{}{}, err
		}
		if _, err = u.End(ctx); err != nil {
			return struct{}{}, err
		}
		rings = u.Rings()
		return struct{}{}, r.exec(ctx, "sweep leases", micros(now))
	})
	if err == nil && rings { // not before the commit: who looked then would see nothing
		s.rang()
	}
	return err
}

// expire ends jobs that were not started by their deadline.
func (s *Store) expire(ctx context.Context, now time.Time, late []nexjob.ID) error {
	_, err := s.amend(ctx, now, nexjob.Query{IDs: late}, nexjob.Action{Act: nexjob.ActExpire}, len(late), time.Second)
	return err
}

// claimDue leases due jobs by one statement and names those that are past their deadline.
// What belongs to the jobs is read on the same connection: with another one that did not
// come free, nobody would hear of the leases.
func (s *Store) claimDue(
	ctx context.Context, now time.Time, ask *nexjob.ClaimRequest, n int,
) (claimed []nexjob.Claimed, late []nexjob.ID, err error) {
	now = rules.Micro(now)
	lanes := lanesOf(ask)
	queues, priorities := wire.Texts(len(lanes), 16), wire.Smallints(len(lanes))
	for _, l := range lanes {
		queues.Text(l.queue)
		priorities.Int(int64(l.priority))
	}
	since := s.lookback.list(now, lanes, ask.Kinds)
	took := s.wait()
	until := rules.Micro(now.Add(ask.Lease))
	found := taken{ask: ask, now: now, until: until, claimed: ask.Buffer[len(ask.Buffer):]}
	ask.Buffer = nil // it serves once
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Release()
	err = s.hotOn(ctx, conn, "claim", func(row wire.Row) error {
		if row.Int64(1) != 0 {
			late = append(late, row.UUID(0))
			return nil
		}
		return found.take(row)
	}, wire.Int8(now.UnixMicro()), s.guarded(), queues.Arg(), priorities.Arg(), nameList(ask.Kinds), since.arg,
		wire.Int8(int64(n)), wire.Int8(until.UnixMicro()), wire.Int8(int64(ask.Lease)), wire.TextOrNull(ask.Worker))
	if err != nil {
		return nil, nil, err
	}
	found.order(lanes)
	full := len(found.claimed) == n
	s.lookback.learn(now, lanes, ask.Kinds, since.by, found.claimed, full, took.Add(now).Sub(now))
	in := session{sheet: s.sheet, on: anew{wire.NewConn(conn.Conn())}}
	if err := in.completeClaim(ctx, &found); err != nil {
		return nil, nil, err
	}
	if err := in.withReceipts(ctx, found.claimed); err != nil {
		return nil, nil, err
	}
	return found.claimed, late, nil
}

// taken gathers what a claim has leased.
type taken struct {
	ask         *nexjob.ClaimRequest
	now, until  time.Time
	claimed     []nexjob.Claimed
	more        []nexjob.ID // that have rows in other tables
	kind, queue string      // of the row before: most often the next one has the same
}

// take takes a row of claim_1.
func (t *taken) take(row wire.Row) error {
	in := column{row: row, at: 2}
	t.claimed = append(t.claimed, nexjob.Claimed{})
	c := &t.claimed[len(t.claimed)-1]
	j := &c.Job
	*j = nexjob.Job{
		ID: row.UUID(0), State: nexjob.Processing, Worker: t.ask.Worker, StartedAt: t.now, LeaseUntil: t.until,
		LeaseFor: t.ask.Lease, Fence: in.int64(), EnqueuedAt: in.time(), DueAt: in.time(), Deadline: in.time(),
		Timeout: in.duration(), KeepKeyFor: in.duration(), Operation: in.id(), SettledFence: in.int64(), MaxAttempts: in.int(),
	}
	s := stored{flags: in.int64()}
	j.Tries, j.Crashes = in.int(), in.int()
	s.attempts = in.int()
	j.OpenEffects, j.ReceiptCount, j.ReceiptBytes = in.int(), in.int(), in.int()
	j.Priority = nexjob.Priority(in.int64()) //nolint:gosec // written from a Priority
	j.SettledAs = nexjob.Ending(in.int64())  //nolint:gosec // written from an Ending
	j.Wished = in.state()
	t.kind, t.queue = in.same(t.kind), in.same(t.queue)
	j.Kind, j.Queue = t.kind, t.queue
	j.Key, j.Fingerprint, j.Reason = in.text(), in.fingerprint(), in.text()
	err := in.more(j, &s)
	j.Args, j.Result = in.bytes(), in.bytes()
	if err == nil {
		err = in.tagsAndMeta(j)
	}
	byFlags(j, s.flags)
	c.Lookup = s.flags&flagLookup != 0
	if s.attempts > 0 || s.parents > 0 {
		t.more = append(t.more, j.ID)
	}
	return err
}

// order puts what was leased in the order in which it was asked for.
func (t *taken) order(lanes []claimLane) {
	type position struct {
		place, at int
		due       int64
	}
	order := make([]position, len(t.claimed))
	for i := range t.claimed {
		j := &t.claimed[i].Job
		order[i] = position{at: i, due: j.DueAt.UnixMicro(), place: slices.Index(lanes, claimLane{j.Queue, j.Priority})}
	}
	byPlace := func(a, b position) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.due, b.due),
			t.claimed[a.at].Job.ID.Compare(t.claimed[b.at].Job.ID))
	}
	if slices.IsSortedFunc(order, byPlace) {
		return
	}
	slices.SortFunc(order, byPlace)
	// Each record moves once, for they are large.
	for i := range order {
		if order[i].at < 0 || order[i].at == i {
			continue
		}
		first := t.claimed[i]
		for at := i; ; {
			from := order[at].at
			order[at].at = -1
			if from == i {
				t.claimed[at] = first
				break
			}
			t.claimed[at] = t.claimed[from]
			at = from
		}
	}
}

// completeClaim reads what other tables hold of leased jobs.
func (s session) completeClaim(ctx context.Context, t *taken) error {
	if len(t.more) == 0 {
		return nil
	}
	c := collector{session: s}
	if _, err := c.run(ctx, "jobs by id", c.take, idList(t.more)); err != nil {
		return err
	}
	if err := c.complete(ctx); err != nil {
		return err
	}
	whole := make(map[nexjob.ID]*nexjob.Job, len(c.found))
	for i := range c.found {
		whole[c.found[i].ID] = &c.found[i]
	}
	for i := range t.claimed {
		if j := whole[t.claimed[i].Job.ID]; j != nil {
			t.claimed[i].Job.Attempts, t.claimed[i].Job.Parents = j.Attempts, j.Parents
		}
	}
	return nil
}

// withReceipts reads the receipts of claimed jobs.
func (s session) withReceipts(ctx context.Context, claimed []nexjob.Claimed) error {
	var operations []nexjob.ID
	for i := range claimed {
		if claimed[i].Job.ReceiptCount > 0 {
			operations = append(operations, claimed[i].Job.Operation)
		}
	}
	if len(operations) == 0 {
		return nil
	}
	found, err := s.receipts(ctx, operations)
	of := make(map[nexjob.ID][]nexjob.Receipt)
	for _, r := range found {
		of[r.Operation] = append(of[r.Operation], r)
	}
	for i := range claimed {
		claimed[i].Receipts = slices.Clone(of[claimed[i].Job.Operation])
	}
	return err
}

// claimLane is one range of what is due.
type claimLane struct {
	queue    string
	priority nexjob.Priority
}

// lanesOf lists the ranges that a claim visits, in order.
func lanesOf(ask *nexjob.ClaimRequest) []claimLane {
	var lanes []claimLane
	for _, queue := range ask.Queues {
		for _, priority := range nexjob.Priorities() {
			lanes = append(lanes, claimLane{queue, priority})
		}
	}
	return lanes
}
