package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// Enqueue adds jobs; see nexjob.Queue. One job shares its transaction with those of other
// callers; several are one transaction.
func (s *Store) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("enqueue", err)
	}
	var answers []nexjob.Answer
	var err error
	switch {
	case len(jobs) == 0:
		return nil, nil
	case len(jobs) > 1:
		answers, err = s.enqueueMany(ctx, now, jobs)
	default:
		answers = make([]nexjob.Answer, 1)
		answers[0], err = s.enqueueOne(ctx, now, &jobs[0])
	}
	if err != nil {
		return nil, wrap("enqueue", err)
	}
	if slices.ContainsFunc(answers, madeWork) {
		s.beat(ctx, now)
		s.rang()
	}
	return answers, nil
}

// madeWork reports whether an answer may be news for workers.
func madeWork(a nexjob.Answer) bool {
	return a.Outcome == nexjob.Created || a.Outcome == nexjob.Replaced
}

// plain reports whether an item may be added by the hot statement: what it means does not
// depend on other jobs than its key's.
func plain(item *nexjob.NewJob) bool { return len(item.Parents) == 0 }

// enqueueOne adds one job. What the lane cannot decide, because a row must be locked for
// it or somebody holds the key, the caller does itself.
func (s *Store) enqueueOne(ctx context.Context, now time.Time, item *nexjob.NewJob) (nexjob.Answer, error) {
	if err := item.Validate(); err != nil {
		return nexjob.Answer{ID: item.ID, Err: err}, nil
	}
	waited := s.wait()
	if plain(item) {
		answer, left, err := s.enqueues.enqueue(ctx, now, item)
		if err != nil || !left {
			return answer, err
		}
	}
	others, release := s.enqueues.hold(item.IdempotencyKey)
	defer release()
	answers, err := s.enqueueAlone(ctx, waited.Add(now), []nexjob.NewJob{*item}, others)
	if err != nil {
		return nexjob.Answer{}, err
	}
	return answers[0], nil
}

// enqueueAlone adds jobs in a step of their own. It waits for keys that others hold.
func (s *Store) enqueueAlone(ctx context.Context, now time.Time, items []nexjob.NewJob, held bool) ([]nexjob.Answer, error) {
	return s.waits.until(ctx, now, held, func(now time.Time, wait time.Duration) ([]nexjob.Answer, error) {
		return step(ctx, s, now, wait, func(ctx context.Context, u *onewriter.Unit, _ *rows) ([]nexjob.Answer, error) {
			return u.Enqueue(ctx, items)
		})
	})
}

// enqueueMany adds the jobs of one caller in one transaction.
func (s *Store) enqueueMany(ctx context.Context, now time.Time, items []nexjob.NewJob) ([]nexjob.Answer, error) {
	p := planOf(items)
	if p.whole {
		return s.enqueueAlone(ctx, now, items, false)
	}
	return s.waits.until(ctx, now, false, func(now time.Time, wait time.Duration) ([]nexjob.Answer, error) {
		for n := 1; ; n++ {
			answers, err := s.tryMany(ctx, now, items, p, wait)
			if err == nil || n >= reruns || !again(err) || ctx.Err() != nil {
				return answers, err
			}
		}
	})
}

func (s *Store) tryMany(
	ctx context.Context, now time.Time, items []nexjob.NewJob, p plan, wait time.Duration,
) ([]nexjob.Answer, error) {
	waited := s.wait()
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	now = waited.Add(now)
	on := wire.NewConn(conn.Conn())
	if p.simple && !s.strict && !s.leaves.Load() {
		answers, done, err := s.tryAllOrNothing(ctx, conn, on, now, items, p, wait)
		if done || err != nil {
			return answers, err
		}
	}
	answers := slices.Clone(p.answers)
	var left []int
	hot := s.adding(now, items, p.first, wait, answers, &left, leaving)
	if err := on.RunAll(ctx, []wire.Call{{Statement: dynamic(begin)}, {Statement: s.sheet["plans"]}, hot}); err != nil {
		rollback(ctx, conn)
		return nil, refresh(ctx, conn, err)
	}
	left = append(left, p.later...)
	s.leaves.Store(len(left) > 0)
	if len(left) == 0 {
		return answers, commit(ctx, on)
	}
	slices.Sort(left)
	_, err = finish(ctx, s, conn, on, now, func(ctx context.Context, u *onewriter.Unit, _ *rows) (struct{}, error) {
		return struct{}{}, enqueueLeft(ctx, u, items, left, answers)
	})
	return answers, err
}

// tryAllOrNothing adds a batch by the hot statement alone, which is one round trip: it stands or
// falls with that. Nothing of it is done where an item is left; the next batches are then
// begun as if that will be so again.
func (s *Store) tryAllOrNothing(
	ctx context.Context, conn *pgxpool.Conn, on wire.Conn, now time.Time, items []nexjob.NewJob, p plan, wait time.Duration,
) (answers []nexjob.Answer, done bool, err error) {
	answers = slices.Clone(p.answers)
	var left []int
	call := s.adding(now, items, p.first, wait, answers, &left, allOrNothing)
	if len(left) > 0 {
		return nil, false, nil
	}
	_, err = on.Run(ctx, call.Statement, call.Take, call.Args...)
	switch code := codeOf(err); {
	case err == nil && len(left) == 0:
		return answers, true, nil
	case err == nil:
		err = fmt.Errorf("%w: %d jobs were neither added nor answered", nexjob.ErrOutcomeUnknown, len(left))
	case code == codeLeft:
		s.leaves.Store(true)
		return nil, false, nil
	case unknown(err):
		err = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
	}
	return nil, false, refresh(ctx, conn, err)
}

// enqueueLeft adds what the hot statement has left, in a unit of the same transaction.
func enqueueLeft(ctx context.Context, u *onewriter.Unit, items []nexjob.NewJob, left []int, answers []nexjob.Answer) error {
	rest := make([]nexjob.NewJob, len(left))
	for i, at := range left {
		rest[i] = items[at]
	}
	done, err := u.Enqueue(ctx, rest)
	for i := range done {
		answers[left[i]] = done[i]
	}
	return err
}

// plan says how the items of a batch are added.
type plan struct {
	answers []nexjob.Answer // of invalid items
	first   []int           // by the hot statement: their keys and IDs differ
	later   []int           // after them: the key, or the ID, is that of an earlier one
	whole   bool            // all by one unit
	simple  bool            // all of it may be done by the hot statement
}

func planOf(items []nexjob.NewJob) plan {
	p := plan{answers: make([]nexjob.Answer, len(items)), first: make([]int, 0, len(items)), simple: true}
	keys := make(map[string]bool, len(items))
	ids := make(map[nexjob.ID]bool, len(items))
	for i := range items {
		item := &items[i]
		if err := item.Validate(); err != nil {
			p.answers[i] = nexjob.Answer{ID: item.ID, Err: err}
			continue
		}
		switch {
		case !plain(item), ids[item.ID]:
			p.whole = true
			return p
		case item.IdempotencyKey != "" && keys[item.IdempotencyKey]:
			p.later, p.simple = append(p.later, i), false
		default:
			p.first = append(p.first, i)
		}
		p.simple = p.simple && item.WhileActive != nexjob.Replace
		keys[item.IdempotencyKey], ids[item.ID] = true, true
	}
	return p
}

// shape is what jobs may share.
type shape struct {
	kind, queue      string
	priority         nexjob.Priority
	deadline         int64
	timeout, keep    time.Duration
	maxAttempts      int
	tags, meta, more string
}

// maxShapes is how many shapes one statement lists: PostgreSQL walks the list for each
// item. What has a further one is left.
const maxShapes = 1000

// Whether the hot statement leaves what it cannot do, or then does nothing at all.
const (
	leaving      = false
	allOrNothing = true
)

// adding is the hot statement for some of the items. It fills in the answers of those that
// it adds and of those that create nothing, and lists those that are left.
func (s *Store) adding(
	now time.Time, items []nexjob.NewJob, which []int, wait time.Duration, answers []nexjob.Answer, left *[]int, atomic bool,
) wire.Call {
	n := len(which)
	ids, keys, prints, args := wire.UUIDs(n), wire.Byteas(n, 24), wire.Byteas(n, 32), wire.Byteas(n, 64)
	dues, shapes := wire.Bigints(n), wire.Smallints(n)
	table := newShapes()
	added := make([]int, 0, n)
	for _, at := range which {
		item := &items[at]
		j := rules.NewRecord(item, item.ID, now)
		shape := table.add(&j)
		if shape > maxShapes {
			*left = append(*left, at)
			continue
		}
		added = append(added, at)
		ids.Bytes(item.ID[:])
		keys.TextOrNull(item.IdempotencyKey)
		prints.Bytes(item.Fingerprint[:])
		args.BytesOrNull(item.Args)
		dues.IntOrNull(stamp(j.DueAt))
		shapes.Int(shape)
		answers[at] = nexjob.Answer{ID: item.ID, Outcome: nexjob.Created, State: j.ReportedState(now), Operation: item.ID}
	}
	list := []wire.Arg{
		wire.Int8(rules.Micro(now).UnixMicro()), s.guarded(), ids.Arg(), keys.Arg(), prints.Arg(), args.Arg(), dues.Arg(), shapes.Arg(),
	}
	list = append(append(list, table.args()...), patienceArg(wait), wire.Bool(atomic))
	return wire.Call{Statement: s.sheet["enqueue"], Args: list, Take: func(row wire.Row) error {
		at := added[row.Int64(0)-1]
		judged := judge(row, &items[at], now)
		if judged.Fresh || judged.Answer.Outcome == nexjob.Replaced {
			*left = append(*left, at)
			return nil
		}
		answers[at] = judged.Answer
		return nil
	}}
}

// addingOne is the hot statement for one item.
func (s *Store) addingOne(now time.Time, item *nexjob.NewJob, wait time.Duration, answer *nexjob.Answer, left *bool) wire.Call {
	j := rules.NewRecord(item, item.ID, now)
	is := shapeOf(&j)
	*answer = nexjob.Answer{ID: item.ID, Outcome: nexjob.Created, State: j.ReportedState(now), Operation: item.ID}
	return wire.Call{Statement: s.sheet["add"], Args: []wire.Arg{
		wire.Int8(rules.Micro(now).UnixMicro()), s.guarded(), wire.UUID(item.ID), wire.BytesOrNull([]byte(item.IdempotencyKey)),
		wire.Bytes(item.Fingerprint[:]), wire.BytesOrNull(item.Args), micros(j.DueAt), wire.Text(is.kind), wire.Text(is.queue),
		wire.Int2(int16(is.priority)), wire.Int8OrNull(is.deadline), wire.Int8OrNull(int64(is.timeout)),
		wire.Int8(int64(is.maxAttempts)), wire.Int8OrNull(int64(is.keep)), wire.TextOrNull(is.tags), wire.TextOrNull(is.meta),
		wire.TextOrNull(is.more), patienceArg(wait),
	}, Take: func(row wire.Row) error {
		judged := judge(row, item, now)
		if *left = judged.Fresh || judged.Answer.Outcome == nexjob.Replaced; !*left {
			*answer = judged.Answer
		}
		return nil
	}}
}

// patienceArg is how long a hot statement waits for a key, NULL for ever.
func patienceArg(wait time.Duration) wire.Arg {
	if wait == forever {
		return wire.Null()
	}
	return wire.Text(strconv.FormatInt(wait.Milliseconds(), 10) + "ms")
}

// judge applies the key rule to an item of which look_1 has read what is stored.
func judge(row wire.Row, item *nexjob.NewJob, now time.Time) rules.Judgment {
	c := column{row: row, at: 1}
	var seen rules.Standing
	same := nexjob.Job{
		ID: c.id(), Kind: c.text(), Key: c.text(), Fingerprint: c.fingerprint(), Operation: c.id(), State: c.state(), DueAt: c.time(),
	}
	byFlags(&same, c.int64())
	if !same.ID.IsZero() {
		seen.Same = &same
	}
	key := nexjob.KeyRow{
		Key: item.IdempotencyKey, Job: c.id(), Kind: c.text(), Fingerprint: c.fingerprint(), Operation: c.id(),
		Ended: c.state(), Until: c.time(), Cleared: c.bool(),
	}
	if !key.Job.IsZero() {
		seen.Key = &key
	}
	holder := nexjob.Job{ID: c.id(), State: c.state(), DueAt: c.time(), Key: item.IdempotencyKey}
	byFlags(&holder, c.int64())
	if !holder.ID.IsZero() {
		seen.Holder = &holder
	}
	return rules.Judge(item, seen, now)
}

func shapeOf(j *nexjob.Job) shape {
	s := shape{
		kind: j.Kind, queue: j.Queue, priority: j.Priority, deadline: stamp(j.Deadline), timeout: j.Timeout,
		keep: j.KeepKeyFor, maxAttempts: j.MaxAttempts,
	}
	// These encode: strings always do.
	if len(j.Tags) > 0 {
		text, _ := json.Marshal(j.Tags)
		s.tags = string(text)
	}
	if len(j.Meta) > 0 {
		text, _ := json.Marshal(j.Meta)
		s.meta = string(text)
	}
	s.more, _ = restOf(j)
	return s
}

// shapesOf lists what jobs share, each shape once.
type shapesOf struct {
	at                                   map[shape]int64
	last                                 shape
	lastAt                               int64
	kinds, queues, tags, metas, mores    *wire.List
	priorities                           *wire.List
	deadlines, timeouts, attempts, keeps *wire.List
}

func newShapes() *shapesOf {
	return &shapesOf{
		at: make(map[shape]int64), kinds: wire.Texts(1, 16), queues: wire.Texts(1, 16), tags: wire.Texts(1, 16),
		metas: wire.Texts(1, 16), mores: wire.Texts(1, 16), priorities: wire.Smallints(1), deadlines: wire.Bigints(1),
		timeouts: wire.Bigints(1), attempts: wire.Bigints(1), keeps: wire.Bigints(1),
	}
}

// add returns the number of a job's shape, from 1; above maxShapes, it is not listed.
func (t *shapesOf) add(j *nexjob.Job) int64 {
	s := shapeOf(j)
	if t.lastAt > 0 && s == t.last {
		return t.lastAt
	}
	n, known := t.at[s]
	if !known {
		if n = int64(len(t.at)) + 1; n > maxShapes {
			return n
		}
		t.at[s] = n
		t.kinds.Text(s.kind)
		t.queues.Text(s.queue)
		t.priorities.Int(int64(s.priority))
		t.deadlines.IntOrNull(s.deadline)
		t.timeouts.IntOrNull(int64(s.timeout))
		t.attempts.Int(int64(s.maxAttempts))
		t.keeps.IntOrNull(int64(s.keep))
		t.tags.TextOrNull(s.tags)
		t.metas.TextOrNull(s.meta)
		t.mores.TextOrNull(s.more)
	}
	t.last, t.lastAt = s, n
	return n
}

func (t *shapesOf) args() []wire.Arg {
	return []wire.Arg{
		t.kinds.Arg(), t.queues.Arg(), t.priorities.Arg(), t.deadlines.Arg(), t.timeouts.Arg(), t.attempts.Arg(),
		t.keeps.Arg(), t.tags.Arg(), t.metas.Arg(), t.mores.Arg(),
	}
}
