package nexjob_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
)

// broken is a storage whose enqueues fail as told, before or after they happened.
type broken struct {
	nexjob.Storage
	n atomic.Int64
	// before and after answer the error of the nth call, from 1; nil: none.
	before, after func(n int64) error
}

func (b *broken) calls() int64 { return b.n.Load() }

func (b *broken) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	n := b.n.Add(1)
	if b.before != nil {
		if err := b.before(n); err != nil {
			return nil, err
		}
	}
	answers, err := b.Storage.Enqueue(ctx, now, jobs)
	if err == nil && b.after != nil {
		if lost := b.after(n); lost != nil {
			return nil, lost
		}
	}
	return answers, err
}

func busy() error { return &nexjob.TransientError{Err: errors.New("busy")} }

// firstCalls answers the error on the first n calls.
func firstCalls(n int64, err error) func(int64) error {
	return func(call int64) error {
		if call <= n {
			return err
		}
		return nil
	}
}

func TestLostAnswersAreRepeatedUnderTheSameIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &broken{Storage: s.store, after: firstCalls(3, nexjob.ErrOutcomeUnknown)}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{})
		answer, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{}))
		if err != nil || answer.Outcome != nexjob.Created {
			t.Errorf("answer %+v, %v", answer, err)
		}
		page, err := client.Find(t.Context(), nexjob.Query{})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != answer.ID {
			t.Errorf("stored %+v, %v", page.Jobs, err)
		}
		if n := client.Stats().Repeated; n != 3 {
			t.Errorf("Repeated counts %d", n)
		}

		storage.n.Store(0)
		answers, err := client.EnqueueMany(t.Context(), []nexjob.NewJob{
			ChargeCard.New(Charge{}, nexjob.Options{}), ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "k"}),
		})
		if err != nil || answers[0].Outcome != nexjob.Created || answers[1].Outcome != nexjob.Created {
			t.Errorf("answers %+v, %v", answers, err)
		}
		if page, err := client.Find(t.Context(), nexjob.Query{}); err != nil || len(page.Jobs) != 3 {
			t.Errorf("stored %d jobs, %v; want 3", len(page.Jobs), err)
		}
	})
}

func TestTransientTroubleIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &broken{Storage: s.store, before: func(int64) error { return busy() }}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{})
		start := time.Now()
		answer, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{}))
		if !nexjob.IsTransient(err) || errors.Is(err, nexjob.ErrOutcomeUnknown) || answer.ID.IsZero() {
			t.Errorf("answer %+v, %v", answer, err)
		}
		if took := time.Since(start); storage.calls() < 3 || took < 500*time.Millisecond || took > 5*time.Second {
			t.Errorf("%d tries in %v", storage.calls(), took)
		}
	})
}

// An earlier try may have committed: a later "busy" must not hide that.
func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]error{"transient": busy(), "for good": errors.New("disk full")} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t)
			client := nexjob.NewClient(&broken{
				Storage: s.store, after: firstCalls(1, nexjob.ErrOutcomeUnknown),
				before: func(n int64) error {
					if n > 1 {
						return later
					}
					return nil
				},
			}, nexjob.ClientOptions{})
			answer, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{}))
			if !errors.Is(err, nexjob.ErrOutcomeUnknown) || !errors.Is(err, later) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := s.client.Job(t.Context(), answer.ID); err != nil {
				t.Errorf("%s: the answer's ID does not name the job that was stored: %v", name, err)
			}
			answers, err := client.EnqueueMany(t.Context(), []nexjob.NewJob{
				ChargeCard.New(Charge{}, nexjob.Options{}), {Kind: "\n"},
			})
			if err == nil || answers[0].ID.IsZero() || !errors.Is(answers[0].Err, later) ||
				!errors.Is(answers[1].Err, nexjob.ErrInvalid) {
				t.Errorf("%s: answers %+v, %v", name, answers, err)
			}
		})
	}
}

func TestTroubleThatStaysIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	full := errors.New("disk full")
	storage := &broken{Storage: s.store, before: func(int64) error { return full }}
	client := nexjob.NewClient(storage, nexjob.ClientOptions{})
	_, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{}))
	if !errors.Is(err, full) || storage.calls() != 1 {
		t.Errorf("%d calls, %v", storage.calls(), err)
	}
}

func TestRepeatsEndWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &broken{Storage: s.store, before: func(int64) error { return busy() }}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := client.Enqueue(ctx, ChargeCard.New(Charge{}, nexjob.Options{}))
		if err == nil || time.Since(start) > 50*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// What was forgotten is answered by the calls, not by a panic.
func TestAClientWithoutAStorageOrATransaction(t *testing.T) {
	t.Parallel()
	ctx, job := t.Context(), ChargeCard.New(Charge{}, nexjob.Options{})
	none := nexjob.NewClient(nil, nexjob.ClientOptions{})
	s := newShop(t)
	for name, call := range map[string]func() error{
		"enqueue":        func() error { _, err := none.Enqueue(ctx, job); return err },
		"find":           func() error { _, err := none.Find(ctx, nexjob.Query{}); return err },
		"clear key":      func() error { return none.ClearKey(ctx, "a", "", "") },
		"wait":           func() error { _, err := none.Wait(ctx, nexjob.NewID()); return err },
		"in":             func() error { _, err := none.In(anyTx{}).Enqueue(ctx, job); return err },
		"no transaction": func() error { _, err := s.client.In(nil).Enqueue(ctx, job); return err },
	} {
		want := "given no storage"
		if name == "no transaction" {
			want = "wrap an open one"
		}
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := none.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// An error names the thing once and says what helps.
func TestWhatErrorsSay(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), newShop(t)
	job := ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "payment-42"})
	answer, err := s.client.Enqueue(ctx, job)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	_, waited := s.client.Wait(short, answer.ID)
	_, rejected := s.client.Enqueue(ctx, ChargeCard.New(Charge{}, nexjob.Options{
		IdempotencyKey: "payment-42", WhileActive: nexjob.Reject,
	}))
	_, differs := s.client.Enqueue(ctx, ChargeCard.New(Charge{Cents: 1}, nexjob.Options{
		IdempotencyKey: "payment-42", StrictArgs: true,
	}))
	_, empty := s.client.Enqueue(ctx, nexjob.NewJob{})
	_, raw := s.client.Enqueue(ctx, nexjob.RawJob("charge-card", []byte("{no"), nexjob.Options{}))
	for _, tt := range []struct {
		err  error
		want string
	}{
		{s.client.ClearKey(ctx, "payment-41", "ann", "seen"), `nexjob: clear key "payment-41": nexjob: not found`},
		{waited, "last seen Enqueued: context deadline exceeded"},
		{rejected, "(Enqueued); wait for that job, or cancel it"},
		{differs, "use another key for other work"},
		{empty, "nexjob: invalid job: it has no kind; build it with Kind.New or RawJob"},
		{raw, "nexjob: invalid args: as JSON: invalid character"},
		{
			&nexjob.StillUnknownError{Name: "card", Why: "it may still arrive", Until: time.Unix(0, 0)},
			`effect "card" is still unknown, at least until 1970-01-01T00:00:00Z: it may still arrive`,
		},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%v, want %q", tt.err, tt.want)
		}
	}
}

type anyTx struct{}

func (anyTx) Engine() string { return "any" }

// Inside a transaction a failed statement may have broken it: the caller begins anew.
func TestNothingIsRepeatedInsideATransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	joined := &brokenTx{Storage: s.store}
	client := nexjob.NewClient(joined, nexjob.ClientOptions{})
	_, err := client.In(anyTx{}).Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{}))
	if !nexjob.IsTransient(err) || joined.calls != 1 {
		t.Errorf("%d calls, %v", joined.calls, err)
	}
}

// brokenTx is a storage whose transactions fail each enqueue.
type brokenTx struct {
	nexjob.Storage
	calls int
}

func (b *brokenTx) Join(nexjob.Tx) (nexjob.Joined, error) { return joinedTx{tx: b}, nil }

type joinedTx struct {
	nexjob.Joined // nil: nothing else is called
	tx            *brokenTx
}

func (j joinedTx) Enqueue(context.Context, time.Time, []nexjob.NewJob) ([]nexjob.Answer, error) {
	j.tx.calls++
	return nil, busy()
}

// A host whose clock jumps reads the storage's clock again and goes on.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	storage := &broken{Storage: s.store, before: firstCalls(1, nexjob.ErrClock)}
	client := nexjob.NewClient(storage, nexjob.ClientOptions{})
	if _, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{})); err != nil {
		t.Error(err)
	}
	if n := client.Stats().Repeated; n != 0 {
		t.Errorf("Repeated counts %d: reading the clock again is no repeat", n)
	}
}

func TestAStorageThatForgetsAnswersIsAnError(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	client := nexjob.NewClient(forgetful{s.store}, nexjob.ClientOptions{})
	if _, err := client.Enqueue(t.Context(), ChargeCard.New(Charge{}, nexjob.Options{})); err == nil {
		t.Error("no error")
	}
}

type forgetful struct{ nexjob.Storage }

func (forgetful) Enqueue(context.Context, time.Time, []nexjob.NewJob) ([]nexjob.Answer, error) {
	return nil, nil
}
