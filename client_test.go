package nexjob_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

func TestEnqueueAnswersWithTheHolder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first := s.enqueue("payment-42", nexjob.Options{})
	second := s.enqueue("payment-42", nexjob.Options{})
	if first.Outcome != nexjob.Created || second.Outcome != nexjob.Existing || second.ID != first.ID {
		t.Errorf("answers %+v and %+v", first, second)
	}
	job, err := s.client.Job(t.Context(), first.ID)
	if err != nil || string(job.Args) != `{"order_id":42,"cents":0}` || job.MaxAttempts != 8 {
		t.Errorf("stored %+v, %v", job, err)
	}
}

func TestEnqueueAnswersTheItemsError(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	first := s.enqueue("k", nexjob.Options{})
	s.work(nexjob.EndFailed, "card declined")

	_, err := s.client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42}, nexjob.Options{
		IdempotencyKey: "k", DuplicatePolicy: nexjob.RejectIfFailed,
	}))
	var duplicate *nexjob.DuplicateJobError
	if !errors.As(err, &duplicate) || !errors.Is(err, nexjob.ErrDuplicateJob) || duplicate.ExistingJobID != first.ID ||
		duplicate.ExistingState != nexjob.Failed || duplicate.Policy != nexjob.RejectIfFailed {
		t.Errorf("want a rejection by %s, got %v", first.ID, err)
	}

	_, err = s.client.Enqueue(ctx, nexjob.RawJob("other", nil, nexjob.Options{IdempotencyKey: "k"}))
	var mismatch *nexjob.KeyMismatchError
	if !errors.As(err, &mismatch) || mismatch.ExistingKind != "charge-card" {
		t.Errorf("want a mismatch of kinds, got %v", err)
	}

	_, err = s.client.Enqueue(ctx, ChargeCard.New(Charge{}, nexjob.Options{
		Parents: []nexjob.Parent{{ID: nexjob.NewID()}},
	}))
	if !errors.Is(err, nexjob.ErrUnknownParent) {
		t.Errorf("want ErrUnknownParent, got %v", err)
	}
	want := nexjob.ClientStats{Created: 1, Rejected: 1, Mismatched: 1, Failed: 1}
	if got := s.client.Stats(); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
}

func TestInvalidItemsReachNoStorage(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	broken := &broken{Storage: s.store}
	client := nexjob.NewClient(broken, nexjob.ClientOptions{})
	for name, job := range map[string]nexjob.NewJob{
		"key of nexjob's own":     ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "\x00schedule"}),
		"key with NUL":            ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "a\x00b"}),
		"key is not UTF-8":        ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "\xff"}),
		"key is too long":         ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: strings.Repeat("k", 513)}),
		"queue with a line break": ChargeCard.New(Charge{}, nexjob.Options{Queue: "a\nb"}),
		"no kind":                 nexjob.RawJob("", nil, nexjob.Options{}),
		"args are no JSON":        nexjob.RawJob("raw", []byte("{"), nexjob.Options{}),
		"args name a member twice": nexjob.RawJob("raw", []byte(`{"a":1,"a":2}`),
			nexjob.Options{}),
		"args are too large":     nexjob.RawJob("raw", []byte(`"`+strings.Repeat("x", nexjob.MaxArgs)+`"`), nexjob.Options{}),
		"built by hand, no args": {Kind: "raw"},
	} {
		_, err := client.Enqueue(t.Context(), job)
		var invalid *nexjob.InvalidError
		if !errors.As(err, &invalid) || invalid.Remedy == "" {
			t.Errorf("%s: want *InvalidError with a remedy, got %v", name, err)
		}
		if answers, err := client.EnqueueMany(t.Context(), []nexjob.NewJob{job}); err != nil || answers[0].Err == nil {
			t.Errorf("%s in a batch: %v, %v", name, answers, err)
		}
	}
	if broken.calls() != 0 {
		t.Errorf("the storage was called %d times", broken.calls())
	}
}

func TestEnqueueManyAnswersEachInOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one := func(key string) nexjob.NewJob {
		return ChargeCard.New(Charge{OrderID: 1}, nexjob.Options{IdempotencyKey: key})
	}
	jobs := []nexjob.NewJob{
		one("K"), one("X"), one("\xff"), one("K"), nexjob.RawJob("other", nil, nexjob.Options{IdempotencyKey: "X"}),
		one(""), one("Y"),
	}
	answers, err := s.client.EnqueueMany(t.Context(), jobs)
	s.check(err)
	var outcomes []string
	for _, a := range answers {
		if a.Err != nil {
			outcomes = append(outcomes, "error")
			continue
		}
		outcomes = append(outcomes, a.Outcome.String())
	}
	want := []string{"created", "created", "error", "existing", "error", "created", "created"}
	if !slices.Equal(outcomes, want) {
		t.Errorf("outcomes %q, want %q", outcomes, want)
	}
	if !errors.Is(answers[2].Err, nexjob.ErrInvalid) || !errors.Is(answers[4].Err, nexjob.ErrKeyMismatch) {
		t.Errorf("errors %v and %v", answers[2].Err, answers[4].Err)
	}
	if answers[3].ID != answers[0].ID {
		t.Errorf("the second K is answered with %s, not %s", answers[3].ID, answers[0].ID)
	}
	for i := range jobs {
		if !jobs[i].ID.IsZero() {
			t.Errorf("item %d of the caller's was changed", i)
		}
	}
	if answers, err := s.client.EnqueueMany(t.Context(), nil); err != nil || len(answers) != 0 {
		t.Errorf("no jobs: %v, %v", answers, err)
	}
}

func TestEqualKeysAtOnceMakeOneJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	answers := make([]nexjob.Answer, 100)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() { answers[i] = s.enqueue("k", nexjob.Options{}) })
	}
	group.Wait()
	created := 0
	for _, a := range answers {
		if a.Outcome == nexjob.Created {
			created++
		}
		if a.ID != answers[0].ID {
			t.Errorf("two jobs: %s and %s", a.ID, answers[0].ID)
		}
	}
	if created != 1 {
		t.Errorf("%d answers say created", created)
	}
}

func TestArgsThatDifferWarnWithoutTheArgs(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.enqueue("k", nexjob.Options{})
	job := ChargeCard.New(Charge{OrderID: 4711}, nexjob.Options{IdempotencyKey: "k"})
	answer, err := s.client.Enqueue(t.Context(), job)
	if err != nil || !answer.ArgsDiffer {
		t.Errorf("answer %+v, %v", answer, err)
	}
	log := s.logged.String()
	if !strings.Contains(log, "level=WARN") || !strings.Contains(log, "key=k") || strings.Contains(log, "4711") {
		t.Errorf("logged %q", log)
	}
	if n := s.client.Stats().ArgsDiffer; n != 1 {
		t.Errorf("ArgsDiffer counts %d", n)
	}

	strict := nexjob.NewClient(s.store, nexjob.ClientOptions{
		StrictArgs: true, Logger: slog.New(slog.DiscardHandler),
	})
	defer func() { s.check(strict.Close(t.Context())) }()
	if _, err := strict.Enqueue(t.Context(), job); !errors.Is(err, nexjob.ErrKeyMismatch) {
		t.Errorf("a strict client answers %v", err)
	}
}

// Equal args from Go, and as HTTP or the command line would write them, are equal.
func TestRawJobIsTheSameJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.enqueue("k", nexjob.Options{})
	raw := nexjob.RawJob("charge-card", []byte(" {\"cents\" : 0,\n\"order\\u005fid\":42} "),
		nexjob.Options{IdempotencyKey: "k", StrictArgs: true})
	if answer, err := s.client.Enqueue(t.Context(), raw); err != nil || answer.ArgsDiffer {
		t.Errorf("answer %+v, %v", answer, err)
	}
	none := nexjob.RawJob("none", nil, nexjob.Options{})
	typed := nexjob.KindOf[struct{}]("none", nexjob.Defaults{}).New(struct{}{}, nexjob.Options{})
	if none.Fingerprint != typed.Fingerprint || string(none.Args) != "{}" {
		t.Errorf("no args: %s and %s", none.Args, typed.Args)
	}
	byHand := nexjob.NewJob{Kind: "charge-card", Args: []byte(`{"cents":0,"order_id":42}`), Options: raw.Options}
	if answer, err := s.client.Enqueue(t.Context(), byHand); err != nil || answer.ArgsDiffer {
		t.Errorf("built by hand: %+v, %v", answer, err)
	}
}

func TestRepeatedIDIsTheSameJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	job := ChargeCard.New(Charge{OrderID: 1}, nexjob.Options{})
	job.ID = nexjob.NewID()
	for range 2 {
		answer, err := s.client.Enqueue(t.Context(), job)
		if err != nil || answer.ID != job.ID || answer.Outcome != nexjob.Created {
			t.Errorf("answer %+v, %v", answer, err)
		}
	}
	other := ChargeCard.New(Charge{OrderID: 2}, nexjob.Options{})
	other.ID = job.ID
	if _, err := s.client.Enqueue(t.Context(), other); !errors.Is(err, nexjob.ErrIDReused) {
		t.Errorf("other args under one ID: %v", err)
	}
	tallies, err := s.client.Count(t.Context(), nexjob.Query{})
	if err != nil || len(tallies) != 1 || tallies[0].Jobs != 1 {
		t.Errorf("stored %+v, %v", tallies, err)
	}
}

func TestInATransaction(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	rings, stop := s.store.Bell().Listen()
	defer stop()

	tx, err := s.store.Begin(ctx)
	s.check(err)
	in := s.client.In(tx)
	answer, err := in.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 1}, nexjob.Options{IdempotencyKey: "k"}))
	s.check(err)
	answers, err := in.EnqueueMany(ctx, []nexjob.NewJob{
		ChargeCard.New(Charge{OrderID: 1}, nexjob.Options{IdempotencyKey: "k"}),
		ChargeCard.New(Charge{OrderID: 2}, nexjob.Options{IdempotencyKey: "\x00"}),
	})
	s.check(err)
	if answers[0].ID != answer.ID || !errors.Is(answers[1].Err, nexjob.ErrInvalid) {
		t.Errorf("answers %+v", answers)
	}
	if page, err := in.Find(ctx, nexjob.Query{Key: "k"}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("inside: %+v, %v", page, err)
	}
	s.check(tx.Rollback())
	if _, err := s.client.Job(ctx, answer.ID); !errors.Is(err, nexjob.ErrNotFound) {
		t.Errorf("after the rollback: %v", err)
	}

	select {
	case <-rings:
		t.Error("the bell rang though nothing was committed")
	default:
	}
	answer.Wake()
	select {
	case <-rings:
	default:
		t.Error("Wake does not ring the bell")
	}
	nexjob.Answer{}.Wake() // harmless where there is no bell
}

func TestATransactionOfAnotherStorageIsRefusedByEachCall(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	tx, err := memory.New(memory.Options{}).Begin(ctx)
	s.check(err)
	in := s.client.In(tx)
	_, one := in.Enqueue(ctx, ChargeCard.New(Charge{}, nexjob.Options{}))
	_, many := in.EnqueueMany(ctx, nil)
	_, find := in.Find(ctx, nexjob.Query{})
	for _, err := range []error{one, many, find} {
		if !errors.Is(err, nexjob.ErrUnsupported) {
			t.Errorf("want ErrUnsupported, got %v", err)
		}
	}
}

func TestWritesUnderAnOpenTransactionAreRefused(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx, leave := nexjob.EnterTx(t.Context())
	job := ChargeCard.New(Charge{}, nexjob.Options{})
	_, one := s.client.Enqueue(ctx, job)
	_, many := s.client.EnqueueMany(ctx, []nexjob.NewJob{job})
	_, amend := s.client.Amend(ctx, nexjob.Query{}, nexjob.Action{Act: nexjob.ActCancel}, 1)
	for _, err := range []error{one, many, amend} {
		if !errors.Is(err, nexjob.ErrInTransaction) {
			t.Errorf("want ErrInTransaction, got %v", err)
		}
	}
	leave()
	if _, err := s.client.Enqueue(ctx, job); err != nil {
		t.Errorf("after the transaction: %v", err)
	}
}

func TestAClosedClientWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	tx, err := s.store.Begin(ctx)
	s.check(err)
	in := s.client.In(tx)
	s.check(tx.Rollback())
	s.check(s.client.Close(ctx))
	s.check(s.client.Close(ctx))
	job := ChargeCard.New(Charge{}, nexjob.Options{})
	_, one := s.client.Enqueue(ctx, job)
	_, inside := in.Enqueue(ctx, job)
	_, amend := s.client.AmendJob(ctx, nexjob.NewID(), nexjob.Action{Act: nexjob.ActCancel})
	for _, err := range []error{one, inside, amend} {
		if !errors.Is(err, nexjob.ErrClosed) {
			t.Errorf("want ErrClosed, got %v", err)
		}
	}
	if _, err := s.client.Find(ctx, nexjob.Query{}); err != nil {
		t.Errorf("a closed client still reads: %v", err)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		ctx := t.Context()
		id := s.enqueue("k", nexjob.Options{}).ID
		go func() {
			time.Sleep(3 * time.Hour)
			s.settle(s.claim(), nexjob.Settlement{As: nexjob.EndSucceeded, Result: []byte(`"paid"`)})
		}()
		start := time.Now()
		job, err := s.client.Wait(ctx, id)
		if err != nil || job.State != nexjob.Succeeded || string(job.Result) != `"paid"` {
			t.Errorf("job %+v, %v", job, err)
		}
		if late := time.Since(start) - 3*time.Hour; late > 10*time.Millisecond {
			t.Errorf("the end was seen %v late, though the bell rang", late)
		}
		if _, err := s.client.Wait(ctx, nexjob.NewID()); !errors.Is(err, nexjob.ErrNotFound) {
			t.Errorf("a job that nobody knows: %v", err)
		}
	})
}

// Without a bell, as with a job that another process works, a poll sees the end.
func TestWaitPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		client := nexjob.NewClient(struct{ nexjob.Storage }{s.store}, nexjob.ClientOptions{})
		id := s.enqueue("", nexjob.Options{}).ID
		go func() {
			time.Sleep(time.Minute)
			s.record(s.claim(), nexjob.Intended)
			job, err := s.client.Job(context.Background(), id)
			s.check(err)
			s.settle(nexjob.Claimed{Job: job}, nexjob.Settlement{As: nexjob.EndUncertain})
		}()
		start := time.Now()
		job, err := client.Wait(t.Context(), id)
		if err != nil || job.State != nexjob.Uncertain {
			t.Errorf("job %+v, %v", job, err)
		}
		if late := time.Since(start) - time.Minute; late > time.Second {
			t.Errorf("the end was seen %v late", late)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		id := s.enqueue("", nexjob.Options{}).ID
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		job, err := s.client.Wait(ctx, id)
		if !errors.Is(err, context.DeadlineExceeded) || job.ID != id || job.State != nexjob.Enqueued {
			t.Errorf("job %+v, %v", job, err)
		}
	})
}
