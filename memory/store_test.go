package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

func job(key string, policy nexjob.DuplicatePolicy) nexjob.NewJob {
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: "charge", Args: []byte(`{}`), Fingerprint: nexjob.FingerprintOf([]byte(`{}`)),
		Options: nexjob.Options{IdempotencyKey: key, DuplicatePolicy: policy},
	}
}

func claim(t *testing.T, s *memory.Store) nexjob.Claimed {
	t.Helper()
	claimed, err := s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
		Worker: "w", N: 1, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
	})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claim: %v, %d jobs, want 1", err, len(claimed))
	}
	return claimed[0]
}

func TestAKeyHasOneActiveJob(t *testing.T) {
	s := memory.New(memory.Options{})
	first, second := job("k", nexjob.RejectAlways), job("k", nexjob.RejectAlways)
	answers, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{first, second})
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Outcome != nexjob.Created || answers[1].Outcome != nexjob.Existing || answers[1].ID != first.ID {
		t.Fatalf("answers: %+v", answers)
	}
	c := claim(t, s)
	settled, err := s.Settle(t.Context(), time.Now(), []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}})
	if err != nil || settled[0].Err != nil || settled[0].State != nexjob.Succeeded {
		t.Fatalf("settle: %v %+v", err, settled)
	}
	answers, err = s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{second})
	var duplicate *nexjob.DuplicateJobError
	if err != nil || !errors.As(answers[0].Err, &duplicate) || duplicate.ExistingJobID != first.ID {
		t.Fatalf("want a rejection that names %s, got %v, %+v", first.ID, err, answers)
	}
}

func TestARolledBackTransactionLeavesNothing(t *testing.T) {
	s := memory.New(memory.Options{})
	ctx := context.Background()
	tx, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.Join(tx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Enqueue(ctx, time.Now(), []nexjob.NewJob{job("k", 0)}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	page, err := s.Find(ctx, time.Now(), nexjob.Query{})
	if err != nil || len(page.Jobs) != 0 {
		t.Fatalf("after rollback: %v, %+v", err, page.Jobs)
	}
}

// TestACallerThatWaitedInVainHearsForWhat: the end of its context, and what was in the way.
func TestACallerThatWaitedInVainHearsForWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Enqueue(ctx, time.Now(), []nexjob.NewJob{job("k", nexjob.AllowAfterFailed)})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "which a transaction holds") {
			t.Errorf("answered %v", err)
		}
	})
}
