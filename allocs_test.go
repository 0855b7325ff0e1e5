package nexjob_test

import (
	"context"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

// free is a storage that answers at no cost, so that the client's own shows.
type free struct {
	nexjob.Storage
	answers []nexjob.Answer
}

func (f free) Enqueue(context.Context, time.Time, []nexjob.NewJob) ([]nexjob.Answer, error) {
	return f.answers, nil
}

func freeClient() *nexjob.Client {
	storage := free{memory.New(memory.Options{}), []nexjob.Answer{{Outcome: nexjob.Created}}}
	return nexjob.NewClient(storage, nexjob.ClientOptions{})
}

// The hot path allocates the batch of one and the ID, and nothing for the
// rules it asks. Not parallel, as AllocsPerRun demands.
func TestAllocations(t *testing.T) {
	client := freeClient()
	ctx := t.Context()
	job := ChargeCard.New(Charge{OrderID: 42}, nexjob.Options{IdempotencyKey: "k"})
	job.ID = nexjob.NewID()
	if n := testing.AllocsPerRun(100, func() { _ = job.Validate() }); n > 0 {
		t.Errorf("Validate allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { nexjob.RejectAlways.Rule(nexjob.Failed) }); n > 0 {
		t.Errorf("looking up the policy allocates %v times", n)
	}
	fresh := job
	fresh.ID = nexjob.ID{}
	if n := testing.AllocsPerRun(100, func() { _, _ = client.Enqueue(ctx, fresh) }); n > 4 {
		t.Errorf("an enqueue allocates %v times", n)
	}
}

func BenchmarkEnqueue(b *testing.B) {
	client := freeClient()
	kind := ChargeCard
	b.ReportAllocs()
	for b.Loop() {
		job := kind.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{IdempotencyKey: "payment-42"})
		if _, err := client.Enqueue(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
}
