package nexjob_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

// shop is a client on a fresh memory store, with what a test needs of a worker.
type shop struct {
	t      *testing.T
	store  *memory.Store
	client *nexjob.Client
	logged *bytes.Buffer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, store: memory.New(memory.Options{}), logged: new(bytes.Buffer)}
	s.client = nexjob.NewClient(s.store, nexjob.ClientOptions{
		Logger: slog.New(slog.NewTextHandler(s.logged, nil)),
	})
	t.Cleanup(func() { s.check(s.client.Close(context.Background())) })
	return s
}

func (s *shop) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// enqueue adds a job that must be accepted.
func (s *shop) enqueue(key string, options nexjob.Options) nexjob.Answer {
	s.t.Helper()
	options.IdempotencyKey = key
	answer, err := s.client.Enqueue(s.t.Context(), ChargeCard.New(Charge{OrderID: 42}, options))
	s.check(err)
	return answer
}

// claim takes the next due job.
func (s *shop) claim() nexjob.Claimed {
	s.t.Helper()
	claimed, err := s.store.Claim(s.t.Context(), time.Now(), nexjob.ClaimRequest{
		Worker: "till-1", N: 1, Lease: time.Minute,
		Queues: []string{nexjob.DefaultQueue}, Kinds: []string{ChargeCard.Name()},
	})
	s.check(err)
	if len(claimed) != 1 {
		s.t.Fatalf("claimed %d jobs, want 1", len(claimed))
	}
	return claimed[0]
}

// settle ends an attempt.
func (s *shop) settle(c nexjob.Claimed, end nexjob.Settlement) {
	s.t.Helper()
	end.Lease = c.Job.Lease()
	settled, err := s.store.Settle(s.t.Context(), time.Now(), []nexjob.Settlement{end})
	s.check(err)
	s.check(settled[0].Err)
}

// work claims the next due job and ends it.
func (s *shop) work(as nexjob.Ending, text string) {
	s.t.Helper()
	s.settle(s.claim(), nexjob.Settlement{As: as, Error: text})
}

// record writes the state of an effect of a claimed job.
func (s *shop) record(c nexjob.Claimed, state nexjob.EffectState) {
	s.t.Helper()
	recorded, err := s.store.Record(s.t.Context(), time.Now(), []nexjob.Receipt{{
		Operation: c.Job.Operation, Sort: nexjob.EffectReceipt, Name: "charge", State: state,
		Fingerprint: c.Job.Fingerprint, Writer: c.Job.Lease(),
		OutsideKey: nexjob.OutsideKey(c.Job.Operation, "charge", "", 0),
		SendBefore: time.Now().Add(10 * time.Second), AtMostOnce: true,
	}})
	s.check(err)
	s.check(recorded[0].Err)
}

// quiet is a log that nobody reads.
func (s *shop) quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
