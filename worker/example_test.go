package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

type Charge struct {
	OrderID int64 `json:"order_id"`
	Cents   int64 `json:"cents"`
}

type Receipt struct {
	Number string `json:"number"`
}

var ChargeCard = nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{MaxAttempts: 8})

// A handler charges a card through a service that treats a repeat under the same
// key as the same request for a day.
func ExampleEffect() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	w := worker.New(store, worker.Options{Logger: quiet()})
	worker.Handle(w, ChargeCard, func(ctx context.Context, run *worker.Run, c Charge) error {
		defer stop() // the example ends with its only job
		receipt, err := worker.Effect[Receipt]{
			Name:          "charge",
			RepeatableFor: 24 * time.Hour,
			Send: func(_ context.Context, key string) (Receipt, error) {
				return Receipt{Number: "R-1"}, nil // the payment service's call, under the key
			},
		}.Do(ctx, run)
		if err != nil {
			return err
		}
		return run.SetResult(receipt)
	})
	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
		IdempotencyKey: "payment-42",
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := w.Run(ctx); err != nil {
		fmt.Println(err)
	}
	page, err := store.Find(context.Background(), time.Now(), nexjob.Query{IDs: []nexjob.ID{answer.ID}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(page.Jobs[0].State, string(page.Jobs[0].Result))
	// Output: Succeeded {"number":"R-1"}
}
