package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nexjob/nexjob"
)

const (
	clients      = 5 // of one history
	callsEach    = 9 // of one client
	keysOfOne    = 2 // of one history
	storesShared = 40
)

// Linearizable races clients over few keys: enqueues under every policy and
// setting, claims, settlements, requeues, deletes, purges, clearings and look-ups.
// For each history there must be one order of its calls, no call moved past the
// end of another, in which a sequential model gives the same answers. A history
// counts only if four clients took part and two calls of different clients on one
// key overlapped. With 0 histories their number comes from NEXJOB_HISTORIES, else 120.
func Linearizable(t *testing.T, h Harness, n int) {
	t.Helper()
	n = histories(t, n)
	seed := rand.Uint64()
	counted, calls := 0, 0
	var b *bench
	for i := 0; counted < n; i++ {
		if i > 20*n+100 {
			t.Fatalf("only %d of %d histories had overlapping calls: the storage under test serves one caller at a time",
				counted, i)
		}
		if i%storesShared == 0 {
			if b != nil {
				b.must(b.s.Close(), "Close")
				b.closed = true
			}
			b = open(t, h)
		}
		history := b.race(b.handles(), rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("h%d", i))
		if !overlaps(history) {
			continue
		}
		counted++
		calls += len(history)
		b.linear(history, seed, i)
	}
	b.oneActivePerKey()
	t.Logf("%d histories with overlapping calls, %d calls in all, are linearizable", counted, calls)
}

// linear looks for the one order that explains a history.
func (b *bench) linear(history []porcupine.Operation, seed uint64, number int) {
	b.t.Helper()
	for _, part := range byKey(history) {
		if b.h.PassesBy {
			passing(part)
		}
		switch porcupine.CheckOperationsTimeout(model(), part, 30*time.Second) {
		case porcupine.Ok:
		case porcupine.Unknown:
			b.t.Errorf("history %d of seed %d: no answer within 30 s", number, seed)
		case porcupine.Illegal:
			b.t.Errorf("history %d of seed %d: no order of these calls explains their answers (client, from, to in ns):\n%s",
				number, seed, show(part))
			b.t.FailNow()
		}
	}
}

// passing notes which claims may have passed a job by, because another call on the key was
// under way.
func passing(history []porcupine.Operation) {
	for i := range history {
		x := &history[i]
		for _, y := range history {
			if x.ClientId != y.ClientId && x.Call <= y.Return && y.Call <= x.Return {
				out := x.Output.(reply) //nolint:forcetypeassert,errcheck // the histories hold nothing else
				out.passes = true
				x.Output = out
			}
		}
	}
}

func show(history []porcupine.Operation) string {
	slices.SortFunc(history, func(x, y porcupine.Operation) int { return int(x.Call - y.Call) })
	var out strings.Builder
	for _, o := range history {
		fmt.Fprintf(&out, "  %d %9d %9d  %s\n", o.ClientId, o.Call, o.Return,
			describe(o.Input.(call), o.Output.(reply))) //nolint:forcetypeassert,errcheck // the histories hold nothing else
	}
	return out.String()
}

// overlaps reports whether at least four clients took part and two of them had
// calls on one key under way at one time.
func overlaps(history []porcupine.Operation) bool {
	took := make(map[int]bool)
	met := false
	for i, x := range history {
		took[x.ClientId] = true
		for _, y := range history[:i] {
			if x.ClientId != y.ClientId && x.Call <= y.Return && y.Call <= x.Return &&
				x.Input.(call).key == y.Input.(call).key { //nolint:forcetypeassert,errcheck // the histories hold nothing else
				met = true
			}
		}
	}
	delete(took, clients) // who looks at the end
	return met && len(took) >= 4
}

// pool is what the clients of one history know of each other: jobs and leases.
type pool struct {
	mu     sync.Mutex
	jobs   map[string][]nexjob.NewJob
	leases map[string][]nexjob.Lease
}

func (p *pool) addJob(key string, n nexjob.NewJob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs[key] = append(p.jobs[key], n)
}

func (p *pool) addLease(key string, l nexjob.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases[key] = append(p.leases[key], l)
}

// pick returns a known job and lease of the key, mostly a late one.
func (p *pool) pick(key string, random *rand.Rand) (n nexjob.NewJob, l nexjob.Lease, job, leased bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := func(length int) int { return max(random.IntN(length), random.IntN(length)) }
	if jobs := p.jobs[key]; len(jobs) > 0 {
		n, job = jobs[late(len(jobs))], true
	}
	if leases := p.leases[key]; len(leases) > 0 {
		l, leased = leases[late(len(leases))], true
	}
	return n, l, job, leased
}

// race runs one history and looks at every key in the end.
func (b *bench) race(handles []nexjob.Storage, random *rand.Rand, name string) []porcupine.Operation {
	b.t.Helper()
	keys := make([]string, keysOfOne)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s-%d", name, i)
	}
	shared := &pool{jobs: make(map[string][]nexjob.NewJob), leases: make(map[string][]nexjob.Lease)}
	base := time.Now() // the monotonic clock orders the calls of a history
	parts, own := make([][]porcupine.Operation, clients), make([]*rand.Rand, clients)
	for i := range own {
		own[i] = rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
	}
	b.togetherOn(handles, clients, func(i int, s nexjob.Storage) error {
		c := client{id: i, s: s, ctx: b.ctx, now: b.now(), base: base, pool: shared, random: own[i]}
		for range callsEach {
			if err := c.call(c.draw(keys[own[i].IntN(len(keys))])); err != nil {
				return err
			}
		}
		parts[i] = c.history
		return nil
	})
	last := client{id: clients, s: b.s, ctx: b.ctx, now: b.now(), base: base, pool: shared, random: random}
	for _, key := range keys {
		for _, v := range []verb{finds, looksUpKey, claims, finds} {
			b.must(last.call(call{key: key, verb: v}), "look at the end")
		}
	}
	return append(slices.Concat(parts...), last.history...)
}

// client is one caller of a history.
type client struct {
	id      int
	s       nexjob.Storage
	ctx     context.Context //nolint:containedctx // lives as long as its history
	now     time.Time
	base    time.Time
	pool    *pool
	random  *rand.Rand
	history []porcupine.Operation
}

// draw chooses a call.
func (c *client) draw(key string) call {
	n, l, job, leased := c.pool.pick(key, c.random)
	switch d := c.random.IntN(20); {
	case d < 7 || !job:
		return call{key: key, verb: enqueues, job: c.drawJob(key, n, job)}
	case d < 10:
		return call{key: key, verb: claims}
	case d < 14 && leased:
		endings := []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndFailed, nexjob.EndRetry, nexjob.EndCancelled}
		return call{key: key, verb: settles, id: l.Job, fence: l.Fence, as: endings[c.random.IntN(len(endings))]}
	case d < 18:
		acts := []nexjob.Act{
			nexjob.ActRequeue, nexjob.ActRequeue, nexjob.ActDelete, nexjob.ActPurge, nexjob.ActClearKey, nexjob.ActCancel,
		}
		return call{key: key, verb: amends, id: n.ID, act: acts[c.random.IntN(len(acts))]}
	case d < 19:
		return call{key: key, verb: finds}
	default:
		return call{key: key, verb: looksUpKey}
	}
}

// drawJob makes a new job for the key, or now and then repeats a former one.
func (c *client) drawJob(key string, former nexjob.NewJob, known bool) nexjob.NewJob {
	if known && c.random.IntN(6) == 0 {
		return former
	}
	n := jobWith(key, []string{argsOne, argsTwo}[c.random.IntN(2)])
	n.Queue, n.MaxAttempts = key, 1000
	n.DuplicatePolicy = nexjob.Policies()[c.random.IntN(3)]
	n.WhileActive = []nexjob.WhileActive{
		nexjob.ReturnExisting, nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace,
	}[c.random.IntN(4)]
	n.NewOperation = c.random.IntN(6) == 0
	if c.random.IntN(2) == 0 {
		n.KeepKeyFor = time.Hour
	}
	return n
}

// call makes a call and notes it. A call that the storage refused as busy did not
// happen and is made again.
func (c *client) call(in call) error {
	from := time.Since(c.base)
	if runtime.GOMAXPROCS(0) == 1 {
		runtime.Gosched() // on one processor calls would else never overlap
	}
	out, err := persist(c.ctx, func() (reply, error) { return c.do(in) })
	to := time.Since(c.base)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(in, reply{}), err)
	}
	if in.verb == enqueues && out.answer.Outcome == nexjob.Created {
		c.pool.addJob(in.key, in.job)
	}
	if in.verb == claims && !out.id.IsZero() {
		c.pool.addLease(in.key, nexjob.Lease{Job: out.id, Fence: out.fence})
	}
	c.history = append(c.history, porcupine.Operation{
		ClientId: c.id, Input: in, Call: from.Nanoseconds(), Output: out, Return: to.Nanoseconds(),
	})
	return nil
}

// only returns the one answer of a batch of one.
func only[T any](answers []T, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(answers) != 1:
		return none, fmt.Errorf("storagetest: a batch of one has %d answers", len(answers))
	}
	return answers[0], nil
}

func (c *client) do(in call) (reply, error) {
	switch in.verb {
	case enqueues:
		got, err := only(c.s.Enqueue(c.ctx, c.now, []nexjob.NewJob{in.job}))
		return reply{answer: got}, err
	case claims:
		ask := claimAsk(1)
		ask.Queues = []string{in.key}
		got, err := c.s.Claim(c.ctx, c.now, ask)
		if err != nil || len(got) == 0 {
			return reply{}, err
		}
		return reply{id: got[0].Job.ID, fence: got[0].Job.Fence}, nil
	case settles:
		got, err := only(c.s.Settle(c.ctx, c.now, []nexjob.Settlement{
			{Lease: nexjob.Lease{Job: in.id, Fence: in.fence}, As: in.as},
		}))
		if errors.Is(got.Err, nexjob.ErrLeaseLost) {
			return reply{lost: true}, err
		}
		return reply{state: got.State}, errors.Join(err, got.Err)
	case amends:
		got, err := c.s.Amend(c.ctx, c.now, nexjob.Query{IDs: []nexjob.ID{in.id}},
			nexjob.Action{Act: in.act, By: someone, Reason: "race"}, 1)
		if err != nil || len(got.Changes) == 0 {
			return reply{}, err
		}
		return reply{found: true, done: got.Changes[0].Done, state: got.Changes[0].State}, nil
	case finds:
		page, err := c.s.Find(c.ctx, c.now, nexjob.Query{Key: in.key, Limit: nexjob.MaxPage})
		out := reply{}
		for _, j := range page.Jobs {
			out.jobs = append(out.jobs, seen{j.ID, j.State})
		}
		return out, err
	case looksUpKey:
		page, err := c.s.Find(c.ctx, c.now, nexjob.Query{Of: nexjob.Keys, Key: in.key})
		if err != nil || len(page.Keys) == 0 {
			return reply{}, err
		}
		row := page.Keys[0]
		if !row.Until.IsZero() {
			row.Until = someTime()
		}
		return reply{row: row}, nil
	}
	return reply{}, nil
}

// someTime stands for every time that the model does not reckon.
func someTime() time.Time { return time.Unix(0, 0) }
