package worker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

type args struct {
	N int `json:"n"`
}

var kindA = nexjob.KindOf[args]("a", nexjob.Defaults{})

// bench is a memory store inside a bubble of faked time, with a wrapper through
// which a test makes the storage misbehave.
type bench struct {
	*testing.T
	store *storage
	began time.Time
}

// bubble runs a test in faked time.
func bubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&bench{T: t, store: &storage{Store: memory.New(memory.Options{})}, began: time.Now()})
	})
}

// at returns the time since the bench began.
func (b *bench) at() time.Duration { return time.Since(b.began) }

// sleep lets time go by, and waits until everybody has done what was due.
func (b *bench) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (b *bench) worker(o worker.Options) *worker.Worker {
	if o.Logger == nil {
		o.Logger = quiet()
	}
	return worker.New(b.store, o)
}

// start runs a worker until the returned function is called, which answers what Run
// returned. The test's end stops it too.
func (b *bench) start(w *worker.Worker) (stop func() error) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	b.Cleanup(func() { _ = stop() })
	return stop
}

// run starts a worker that serves kind a with a handler.
func (b *bench) run(o worker.Options, h func(context.Context, *worker.Run, args) error) (
	w *worker.Worker, stop func() error,
) {
	w = b.worker(o)
	worker.Handle(w, kindA, h)
	return w, b.start(w)
}

func (b *bench) enqueue(o nexjob.Options) nexjob.ID { return b.add(kindA.New(args{}, o)) }

func (b *bench) add(job nexjob.NewJob) nexjob.ID {
	b.Helper()
	answer := b.answer(job)
	if answer.Err != nil || answer.Outcome != nexjob.Created {
		b.Fatalf("enqueue answered %v, %v", answer.Outcome, answer.Err)
	}
	return answer.ID
}

func (b *bench) answer(job nexjob.NewJob) nexjob.Answer {
	b.Helper()
	job.ID = nexjob.NewID()
	answers, err := b.store.Store.Enqueue(context.Background(), time.Now(), []nexjob.NewJob{job})
	if err != nil {
		b.Fatal(err)
	}
	return answers[0]
}

func (b *bench) find(q nexjob.Query) nexjob.Page {
	b.Helper()
	page, err := b.store.Store.Find(context.Background(), time.Now(), q)
	if err != nil {
		b.Fatal(err)
	}
	return page
}

func (b *bench) job(id nexjob.ID) nexjob.Job {
	b.Helper()
	page := b.find(nexjob.Query{IDs: []nexjob.ID{id}})
	if len(page.Jobs) != 1 {
		b.Fatalf("%d jobs with the ID %s", len(page.Jobs), id)
	}
	return page.Jobs[0]
}

func (b *bench) receipts(id nexjob.ID) []nexjob.Receipt {
	b.Helper()
	return b.find(nexjob.Query{Of: nexjob.Effects, Operations: []nexjob.ID{b.job(id).Operation}}).Effects
}

// want checks a job's state and its three counters: tries, crashes, interruptions.
func (b *bench) want(id nexjob.ID, state nexjob.State, tries, crashes, interruptions int) nexjob.Job {
	b.Helper()
	j := b.job(id)
	if j.State != state || j.Tries != tries || j.Crashes != crashes || j.Interruptions != interruptions {
		b.Errorf("job is %v after %d tries, %d crashes, %d interruptions (%s); want %v, %d, %d, %d",
			j.State, j.Tries, j.Crashes, j.Interruptions, j.Reason, state, tries, crashes, interruptions)
	}
	return j
}

func (b *bench) amend(do nexjob.Action, q nexjob.Query) nexjob.Amended {
	b.Helper()
	done, err := b.store.Store.Amend(context.Background(), time.Now(), q, do, 100)
	if err != nil {
		b.Fatal(err)
	}
	return done
}

// deadClaim claims as a worker that dies at once.
func (b *bench) deadClaim(lease time.Duration, crashLimit int) []nexjob.Claimed {
	b.Helper()
	claimed, err := b.store.Store.Claim(context.Background(), time.Now(), nexjob.ClaimRequest{
		Worker: "dead", N: 10, Lease: lease, Queues: []string{"default"}, Kinds: []string{"a"}, CrashLimit: crashLimit,
	})
	if err != nil {
		b.Fatal(err)
	}
	return claimed
}

// storage is a memory store that misbehaves as its fields say.
type storage struct {
	*memory.Store

	mu      sync.Mutex
	before  func(method string) error // an error: the call does not reach the store
	after   func(method string) error // an error: the call's answer is lost
	renewal func([]nexjob.Renewal)    // changes the answers of Renew
	calls   map[string]int
}

func (s *storage) set(change func(s *storage)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *storage) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

func pass[T any](s *storage, method string, call func() (T, error)) (T, error) {
	var none T
	s.mu.Lock()
	if s.calls == nil {
		s.calls = make(map[string]int)
	}
	s.calls[method]++
	before, after := s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(method); err != nil {
			return none, err
		}
	}
	answer, err := call()
	if err == nil && after != nil {
		if err := after(method); err != nil {
			return none, err
		}
	}
	return answer, err
}

func (s *storage) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	method := "claim"
	if ask.N == 0 {
		method = "recover"
	}
	return pass(s, method, func() ([]nexjob.Claimed, error) { return s.Store.Claim(ctx, now, ask) })
}

func (s *storage) Renew(
	ctx context.Context, now, until time.Time, leases []nexjob.Lease,
) ([]nexjob.Renewal, error) {
	return pass(s, "renew", func() ([]nexjob.Renewal, error) {
		answers, err := s.Store.Renew(ctx, now, until, leases)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.renewal != nil {
			s.renewal(answers)
		}
		return answers, err
	})
}

func (s *storage) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return pass(s, "settle", func() ([]nexjob.Settled, error) { return s.Store.Settle(ctx, now, ends) })
}

func (s *storage) Record(
	ctx context.Context, now time.Time, receipts []nexjob.Receipt,
) ([]nexjob.Recorded, error) {
	return pass(s, "record "+receipts[0].State.String(), func() ([]nexjob.Recorded, error) {
		return s.Store.Record(ctx, now, receipts)
	})
}

func (s *storage) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	return pass(s, "find", func() (nexjob.Page, error) { return s.Store.Find(ctx, now, q) })
}

func (s *storage) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	return pass(s, "put", func() ([]nexjob.PutAnswer, error) { return s.Store.Put(ctx, now, puts) })
}

// down is the trouble of a storage that cannot be reached.
func down() error { return &nexjob.TransientError{Err: errUnreachable} }

type testError string

func (e testError) Error() string { return string(e) }

const errUnreachable = testError("storage unreachable")

// newStoreAhead returns a store whose clock is ahead of the host's.
func newStoreAhead(d time.Duration) *memory.Store {
	return memory.New(memory.Options{Clock: func() time.Time { return time.Now().Add(d) }})
}
