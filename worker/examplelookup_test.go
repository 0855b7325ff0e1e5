package worker_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// The connection breaks while a card is charged, and the service cannot say yet what
// became of it. The job is Uncertain: nothing is sent again. It is looked up again by
// itself; here a person is quicker, finds the payment, and says so.
func ExampleEffect_lookup() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	w := worker.New(store, worker.Options{Logger: quiet()})
	worker.Handle(w, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
		receipt, err := worker.Effect[Receipt]{
			Name: "charge",
			Send: func(context.Context, string) (Receipt, error) {
				fmt.Println("sent")
				return Receipt{}, errors.New("connection reset") // applied or not: nobody knows
			},
			Lookup: func(context.Context, string) (Receipt, nexjob.Verdict, error) {
				return Receipt{}, nexjob.StillUnknown, nil // or Applied with the receipt, or NotApplied
			},
		}.Do(ctx, run)
		if err != nil {
			return err // also when it is unknown; the worker tells that apart by itself
		}
		return run.SetResult(receipt)
	})
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := client.Wait(ctx, answer.ID)
	fmt.Println(job.State, job.OpenEffects, err)

	// Value is the JSON of a Receipt, with which Do then answers.
	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{
		Act: nexjob.ActResolve, Verdict: nexjob.Applied, Value: []byte(`{"number":"R-17"}`),
		By: "ann", Reason: "it is on the account",
	})
	if err != nil {
		fmt.Println(err)
	}
	job, err = client.Wait(ctx, answer.ID)
	fmt.Println(job.State, string(job.Result), err)

	stop()
	if err := <-stopped; err != nil {
		fmt.Println(err)
	}
	// Output:
	// sent
	// Uncertain 1 <nil>
	// Succeeded {"number":"R-17"} <nil>
}

// A card that is declined for good: nothing was charged, and no try can mend it.
func ExamplePermanent() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	w := worker.New(store, worker.Options{Logger: quiet()})
	worker.Handle(w, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
		_, err := worker.Effect[Receipt]{
			Name:       "charge",
			AtMostOnce: true,
			Send: func(context.Context, string) (Receipt, error) {
				// A plain Refused would be tried again, under the next key.
				return Receipt{}, worker.Permanent(worker.Refused(errors.New("the card is stolen")))
			},
		}.Do(ctx, run)
		return err
	})
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()

	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42}, nexjob.Options{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := client.Wait(ctx, answer.ID)
	fmt.Printf("%s after try %d of %d: %s, %v\n", job.State, job.Tries, job.MaxAttempts, job.Reason, err)

	stop()
	if err := <-stopped; err != nil {
		fmt.Println(err)
	}
	// Output: Failed after try 1 of 8: worker: effect "charge": the card is stolen, <nil>
}
