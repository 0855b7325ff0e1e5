package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// chaos draws what goes wrong from a seed, until calm.
type chaos struct {
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
}

// happens answers true once in n, while there is chaos.
func (c *chaos) happens(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.calm && c.random.IntN(n) == 0
}

func (c *chaos) upTo(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.random.Int64N(int64(d)))
}

// flaky is a storage as one worker sees it: calls fail before they are made, lose
// their answers, or take long; dead, none reaches the store any more.
type flaky struct {
	*memory.Store
	chaos *chaos
	dead  chan struct{}
}

func flake[T any](
	ctx context.Context, f *flaky, now time.Time, call func(ctx context.Context, now time.Time) (T, error),
) (T, error) {
	var none T
	select {
	case <-f.dead:
		return none, down()
	default:
	}
	if f.chaos.happens(20) {
		select {
		case <-time.After(f.chaos.upTo(4 * time.Second)):
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
	if f.chaos.happens(12) {
		return none, down()
	}
	if f.chaos.happens(40) { // it arrives when nobody waits for it any more
		time.Sleep(f.chaos.upTo(12 * time.Second))
		_, _ = call(context.WithoutCancel(ctx), time.Now())
		return none, nexjob.ErrOutcomeUnknown
	}
	answer, err := call(ctx, now)
	switch {
	case err != nil:
		return none, err
	case f.chaos.happens(12):
		return none, nexjob.ErrOutcomeUnknown
	case f.chaos.happens(40):
		return none, errors.New("an answer that nobody understands")
	}
	return answer, nil
}

func (f *flaky) Clock(ctx context.Context) (time.Time, error) {
	return flake(ctx, f, time.Time{}, func(ctx context.Context, _ time.Time) (time.Time, error) {
		return f.Store.Clock(ctx)
	})
}

func (f *flaky) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.Claimed, error) {
		return f.Store.Claim(ctx, now, ask)
	})
}

func (f *flaky) Renew(ctx context.Context, now, until time.Time, l []nexjob.Lease) ([]nexjob.Renewal, error) {
	length := until.Sub(now)
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.Renewal, error) {
		return f.Store.Renew(ctx, now, now.Add(length), l)
	})
}

func (f *flaky) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.Settled, error) {
		return f.Store.Settle(ctx, now, ends)
	})
}

func (f *flaky) Record(ctx context.Context, now time.Time, r []nexjob.Receipt) ([]nexjob.Recorded, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.Recorded, error) {
		return f.Store.Record(ctx, now, r)
	})
}

func (f *flaky) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) (nexjob.Page, error) {
		return f.Store.Find(ctx, now, q)
	})
}

func (f *flaky) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.Tally, error) {
		return f.Store.Count(ctx, now, q)
	})
}

func (f *flaky) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, n int,
) (nexjob.Amended, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) (nexjob.Amended, error) {
		return f.Store.Amend(ctx, now, q, do, n)
	})
}

func (f *flaky) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	return flake(ctx, f, now, func(ctx context.Context, now time.Time) ([]nexjob.PutAnswer, error) {
		return f.Store.Put(ctx, now, puts)
	})
}

// bank is an outside service that applies a key once, and loses requests, answers
// and patience.
type bank struct {
	chaos *chaos

	mu      sync.Mutex
	refused map[string]bool
	applied map[string]time.Time
	sent    map[string]int
	perOp   map[nexjob.ID]int // applied effects of an operation
}

var errNobodyKnows = errors.New("connection reset")

// send treats a key as banks do: a stored answer is replayed, a new request is applied
// unless it is refused or lost. What its context has ended does not reach it.
func (b *bank) send(ctx context.Context, operation nexjob.ID, key string) (paid, error) {
	if b.chaos.happens(4) {
		select {
		case <-time.After(b.chaos.upTo(8 * time.Second)):
		case <-ctx.Done():
			return paid{}, ctx.Err()
		}
	}
	if ctx.Err() != nil {
		return paid{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent[key]++
	_, done := b.applied[key]
	switch {
	case b.chaos.happens(6):
		return paid{}, errNobodyKnows // lost on the way there
	case b.chaos.happens(10):
		return paid{}, worker.NotSent(errNobodyKnows)
	case b.chaos.happens(10): // held up on the way there
		late := b.chaos.upTo(5 * time.Second)
		time.AfterFunc(late, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			if !b.refused[key] {
				b.apply(operation, key)
			}
		})
		return paid{}, errNobodyKnows
	case !done && (b.refused[key] || b.chaos.happens(10)):
		b.refused[key] = true
		return paid{}, worker.Refused(errors.New("card declined"))
	}
	b.apply(operation, key)
	if b.chaos.happens(6) {
		return paid{}, errNobodyKnows // lost on the way back
	}
	if b.chaos.happens(20) {
		panic("after the charge")
	}
	return paid{key}, nil
}

// remembers is for how long the bank knows a key; a repeat is a second charge then.
const remembers = 40 * time.Second

func (b *bank) apply(operation nexjob.ID, key string) {
	if at, done := b.applied[key]; done && time.Since(at) < remembers {
		return
	}
	b.applied[key] = time.Now()
	b.perOp[operation]++
}

func (b *bank) lookup(_ context.Context, key string) (paid, nexjob.Verdict, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, done := b.applied[key]
	switch {
	case b.chaos.happens(6):
		return paid{}, nexjob.StillUnknown, errNobodyKnows
	case done && time.Since(at) > 5*time.Second: // it shows late
		return paid{key}, nexjob.Applied, nil
	}
	return paid{}, nexjob.NotApplied, nil
}

// Whatever the storage, the outside service, the handlers and the workers do: no
// effect is applied twice in an operation, no job succeeds whose effect did not
// happen, none is lost, and every Run returns.
func TestChaos(t *testing.T) {
	seeds, first := 8, rand.Uint64()
	if text := os.Getenv("NEXJOB_CHAOS_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds, first = 1, seed
	}
	for i := range uint64(seeds) {
		t.Run(fmt.Sprint(first+i), func(t *testing.T) { bubble(t, func(b *bench) { runChaos(b, first+i) }) })
	}
}

const chaosJobs = 60

func runChaos(b *bench, seed uint64) {
	c := &chaos{random: rand.New(rand.NewPCG(seed, 1))}
	bank := &bank{
		chaos: c, refused: make(map[string]bool), applied: make(map[string]time.Time),
		sent: make(map[string]int), perOp: make(map[nexjob.ID]int),
	}
	kind := nexjob.KindOf[args]("a", nexjob.Defaults{
		MaxAttempts: 8, Retry: nexjob.Retry{Initial: time.Second, Max: 20 * time.Second},
	})
	rows := make(map[nexjob.ID]int) // business rows, by job: in a transaction there is one writer
	handler := func(store *memory.Store) func(ctx context.Context, run *worker.Run, a args) error {
		return func(ctx context.Context, run *worker.Run, a args) error {
			e := worker.Effect[paid]{
				Name: "pay", LookupAfter: 10 * time.Second,
				Send: func(ctx context.Context, key string) (paid, error) { return bank.send(ctx, run.Operation(), key) },
			}
			switch a.N % 4 {
			case 0:
				e.RepeatableFor = 25 * time.Second
			case 1:
				e.AtMostOnce = true
			case 2:
				e.Lookup = bank.lookup
			case 3:
				e.Lookup, e.RepeatableFor = bank.lookup, 30*time.Second
			}
			if _, err := e.Do(ctx, run); err != nil {
				return err
			}
			switch {
			case c.happens(8):
				return errNobodyKnows
			case c.happens(20):
				panic("in the handler")
			case c.happens(10):
				time.Sleep(c.upTo(20 * time.Second)) // ignores its context
			}
			if a.N%3 != 0 {
				return nil
			}
			return memory.InTx(ctx, store, func(tx *memory.Tx) error {
				if c.happens(8) {
					time.Sleep(c.upTo(10 * time.Second))
				}
				if err := run.CompleteIn(ctx, tx); err != nil {
					return err
				}
				if c.happens(5) {
					return errNobodyKnows // rolls back
				}
				rows[run.JobID()]++
				return nil
			})
		}
	}
	type crew struct {
		w     *worker.Worker
		store *flaky
		stop  func()
		done  chan error
	}
	begin := func() *crew {
		k := &crew{store: &flaky{Store: b.store.Store, chaos: c, dead: make(chan struct{})}, done: make(chan error, 1)}
		k.w = worker.New(k.store, worker.Options{
			Slots: 5, Lease: 5 * time.Second, Poll: 3 * time.Second, Timeout: 15 * time.Second, Grace: time.Second, CrashLimit: 50,
			ShutdownTimeout: time.Second + c.upTo(10*time.Second), Logger: quiet(),
			LookupBackoff: nexjob.Retry{Initial: 10 * time.Second, Max: time.Minute},
		})
		worker.Handle(k.w, kind, handler(b.store.Store))
		ctx, cancel := context.WithCancel(context.Background())
		k.stop = cancel
		go func() { k.done <- k.w.Run(ctx) }()
		return k
	}
	ids := make([]nexjob.ID, chaosJobs)
	for i := range ids {
		ids[i] = b.add(kind.New(args{i}, nexjob.Options{Delay: c.upTo(30 * time.Second)}))
	}
	crews := []*crew{begin(), begin(), begin()}
	gone := make([]*crew, 0, 40)
	for range 20 { // a worker stops or dies, and another starts; a job is cancelled
		b.sleep(c.upTo(10 * time.Second))
		i := int(c.upTo(time.Duration(len(crews))))
		if c.happens(2) {
			close(crews[i].store.dead)
		}
		crews[i].stop()
		gone, crews[i] = append(gone, crews[i]), begin()
		if c.happens(3) {
			b.amend(nexjob.Action{Act: nexjob.ActCancel},
				nexjob.Query{IDs: []nexjob.ID{ids[c.upTo(chaosJobs)]}})
		}
	}
	c.mu.Lock()
	c.calm = true
	c.mu.Unlock()
	b.sleep(25 * time.Minute) // the longest back-off is ten of them
	for _, k := range append(gone, crews...) {
		k.stop()
	}
	b.sleep(15 * time.Second)
	for _, k := range append(gone, crews...) {
		select {
		case err := <-k.done:
			if left := (*worker.StopError)(nil); err != nil && !errors.As(err, &left) {
				b.Errorf("Run returned %v", err)
			}
		default:
			b.Error("Run does not return")
		}
		if h := k.w.Health(); h.Busy != 0 || h.Running || h.Stopping {
			b.Errorf("health after the stop: %+v", h)
		}
	}
	for i, id := range ids {
		j := b.job(id)
		applied := bank.perOp[j.Operation]
		happened := false
		for _, r := range b.receipts(id) {
			happened = happened || r.State == nexjob.Confirmed
			if n := bank.sent[r.OutsideKey]; r.AtMostOnce && n > 1 {
				b.Errorf("job %d was sent %d times under %s, at most once was promised", i, n, r.OutsideKey)
			}
		}
		switch n := rows[id]; {
		case applied > 1:
			b.Errorf("job %d: applied %d times: %+v", i, applied, b.receipts(id))
		case !j.State.Terminal() && j.State != nexjob.Uncertain:
			b.Errorf("job %d is %v: %s", i, j.State, j.Reason)
		case j.State == nexjob.Succeeded && applied != 1:
			b.Errorf("job %d succeeded, and its effect was applied %d times", i, applied)
		case j.State.Terminal() && happened != (applied == 1):
			b.Errorf("job %d is %v: its effect was applied %d times, and is confirmed: %v", i, j.State, applied, happened)
		case i%3 == 0 && (j.State == nexjob.Succeeded) != (n == 1), n > 1:
			b.Errorf("job %d is %v, and has %d rows", i, j.State, n)
		}
	}
}
