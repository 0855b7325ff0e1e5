package nexjob_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

type Charge struct {
	OrderID int64 `json:"order_id"`
	Cents   int64 `json:"cents"`
}

var ChargeCard = nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{MaxAttempts: 8})

// A request that comes twice makes one job: while it is active, its idempotency key
// answers with it.
func ExampleClient_Enqueue() {
	ctx := context.Background()
	store := memory.New(memory.Options{}) // or sqlite.Open, where jobs outlive the process
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	job := ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{IdempotencyKey: "payment-42"})
	first, err := client.Enqueue(ctx, job)
	if err != nil {
		fmt.Println(err)
	}
	second, err := client.Enqueue(ctx, job)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(first.Outcome)
	fmt.Println(second.Outcome, second.ID == first.ID)
	// Output:
	// created
	// existing true
}

// After its job has failed, RejectIfFailed keeps the key until a person has looked.
func ExampleDuplicateJobError() {
	ctx := context.Background()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	job := ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
		IdempotencyKey:  "payment-42",
		DuplicatePolicy: nexjob.RejectIfFailed,
	})
	first, err := client.Enqueue(ctx, job)
	if err != nil {
		fmt.Println(err)
	}
	failNext(ctx, store, "card declined")

	_, err = client.Enqueue(ctx, job)
	if duplicate, ok := errors.AsType[*nexjob.DuplicateJobError](err); ok {
		fmt.Println(duplicate.IdempotencyKey, duplicate.ExistingState, duplicate.ExistingJobID == first.ID)
	}
	// Output:
	// payment-42 Failed true
}

// Each item of a batch has its own answer, in order; a bad one leaves its neighbours
// alone.
func ExampleClient_EnqueueMany() {
	ctx := context.Background()
	client := nexjob.NewClient(memory.New(memory.Options{}), nexjob.ClientOptions{})

	keyed := func(key string, order int64) nexjob.NewJob {
		return ChargeCard.New(Charge{OrderID: order}, nexjob.Options{IdempotencyKey: key})
	}
	answers, err := client.EnqueueMany(ctx, []nexjob.NewJob{
		keyed("payment-1", 1), keyed("payment-2", 2), keyed("payment-1", 1), keyed("not\x00a key", 3),
	})
	if err != nil {
		fmt.Println(err) // of the whole step: no job was added
	}
	for _, answer := range answers {
		if answer.Err != nil {
			fmt.Println(answer.Err)
			continue
		}
		fmt.Println(answer.Outcome)
	}
	// Output:
	// created
	// created
	// existing
	// nexjob: invalid idempotency key: it contains NUL; leave it out or encode it
}

// "Why was order 42 not charged?" is one call.
func ExampleClient_Explain() {
	ctx := context.Background()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	_, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42}, nexjob.Options{IdempotencyKey: "payment-42"}))
	if err != nil {
		fmt.Println(err)
	}
	failNext(ctx, store, "card declined")

	explanation, err := client.Explain(ctx, "payment-42")
	if err != nil {
		fmt.Println(err)
	}
	job := explanation.Jobs[0]
	fmt.Printf("%s after %d try: %s\n", job.State, job.Tries, job.Reason)
	for _, next := range explanation.Next {
		fmt.Printf("%s: %s, continues the operation: %t\n", next.Policy, next.Ruling, next.Continues)
	}
	// Output:
	// Failed after 1 try: card declined
	// AllowAfterFailed: create, continues the operation: true
	// RejectIfFailed: reject, continues the operation: false
	// RejectAlways: reject, continues the operation: false
}

// failNext does what a worker does with a job whose handler fails for good.
func failNext(ctx context.Context, store nexjob.Storage, why string) {
	claimed, err := store.Claim(ctx, time.Now(), nexjob.ClaimRequest{
		Worker: "example", N: 1, Lease: time.Minute,
		Queues: []string{nexjob.DefaultQueue}, Kinds: []string{ChargeCard.Name()},
	})
	if err != nil || len(claimed) != 1 {
		fmt.Println(len(claimed), err)
		return
	}
	_, err = store.Settle(ctx, time.Now(), []nexjob.Settlement{
		{Lease: claimed[0].Job.Lease(), As: nexjob.EndFailed, Error: why},
	})
	if err != nil {
		fmt.Println(err)
	}
}
