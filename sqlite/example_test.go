package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Greeting struct {
	Name string `json:"name"`
}

var Greet = nexjob.KindOf[Greeting]("greet", nexjob.Defaults{})

// A whole program: it opens a file, works the jobs in it, enqueues one, waits for its
// result, and stops. A real one has its context from signal.NotifyContext, runs for as
// long as the process does, and often enqueues in another process than it works.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	folder, err := os.MkdirTemp("", "nexjob-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "shop.db"), sqlite.Options{}) // makes what is missing
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	w := worker.New(store, worker.Options{Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(w, Greet, func(_ context.Context, run *worker.Run, g Greeting) error {
		return run.SetResult("hello " + g.Name)
	})
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }() // without it nothing is worked, and Wait waits

	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	answer, err := client.Enqueue(ctx, Greet.New(Greeting{Name: "Ann"}, nexjob.Options{IdempotencyKey: "greet-ann"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := client.Wait(ctx, answer.ID)
	fmt.Println(answer.Outcome, job.State, string(job.Result), err)

	// Handlers that still run are waited for, up to Options.ShutdownTimeout.
	stop()
	fmt.Println(<-stopped, client.Close(context.Background()))
	// Output:
	// created Succeeded "hello Ann" <nil>
	// <nil> <nil>
}

type Shipment struct {
	Order int64 `json:"order"`
}

var Ship = nexjob.KindOf[Shipment]("ship", nexjob.Defaults{MaxAttempts: 3})

// The order's row and its job are committed together: no order without its job, and no
// job for an order that was rolled back.
func ExampleInTx() {
	store, client, done := exampleStore(`CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
	defer done()
	place := func(order int64, fail error) error {
		// Under WithOpenTx a Client.Enqueue by mistake is refused at once.
		ctx, _ := nexjob.WithOpenTx(context.Background())
		var answer nexjob.Answer
		err := sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, order); err != nil {
				return err
			}
			var err error
			answer, err = client.In(sqlite.Tx(tx)).Enqueue(ctx, Ship.New(Shipment{Order: order}, nexjob.Options{
				IdempotencyKey: fmt.Sprint("ship-", order),
			}))
			return errors.Join(err, fail)
		})
		if err == nil {
			answer.Wake() // an idle worker of this process looks at once
		}
		return err
	}
	fmt.Println(place(1, nil))
	fmt.Println(place(2, errors.New("the customer has left")))

	page, err := client.Find(context.Background(), nexjob.Query{})
	fmt.Println(len(page.Jobs), "job:", page.Jobs[0].Key, err)
	// Output:
	// <nil>
	// the customer has left
	// 1 job: ship-1 <nil>
}

// The shipment's row and the job's success are committed together: a worker that dies
// at any moment leaves both or neither, so the row is never written twice.
func ExampleTx_completeIn() {
	store, client, done := exampleStore(`CREATE TABLE shipments (order_id INTEGER, fence INTEGER)`)
	defer done()
	ctx := context.Background()

	stop := exampleWork(store, func(w *worker.Worker) {
		worker.Handle(w, Ship, func(ctx context.Context, run *worker.Run, s Shipment) error {
			return sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `INSERT INTO shipments VALUES (?, ?)`, s.Order, run.Fence())
				if err != nil {
					return err
				}
				return run.CompleteIn(ctx, sqlite.Tx(tx)) // the last word in it
			})
		})
	})
	answer, err := client.Enqueue(ctx, Ship.New(Shipment{Order: 7}, nexjob.Options{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := client.Wait(ctx, answer.ID)
	stop()
	rows := 0
	scan := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM shipments WHERE order_id = 7`).Scan(&rows)
	fmt.Println(job.State, err, rows, scan)
	// Output: Succeeded <nil> 1 <nil>
}

// A job whose tries are used up is a dead letter: it stays, Failed, with its reason,
// until a person requeues it or its retention ends.
func ExampleOpen_deadLetters() {
	store, client, done := exampleStore("")
	defer done()
	ctx := context.Background()

	var open atomic.Bool // the warehouse, once somebody has looked
	stop := exampleWork(store, func(w *worker.Worker) {
		worker.Handle(w, Ship, func(_ context.Context, _ *worker.Run, _ Shipment) error {
			if !open.Load() {
				return worker.Permanent(errors.New("the warehouse is closed"))
			}
			return nil
		})
	})
	answer, err := client.Enqueue(ctx, Ship.New(Shipment{Order: 7}, nexjob.Options{IdempotencyKey: "ship-7"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err = client.Wait(ctx, answer.ID); err != nil {
		fmt.Println(err)
	}
	dead, err := client.Find(ctx, nexjob.Query{States: []nexjob.State{nexjob.Failed}, NewestFirst: true})
	if err != nil {
		fmt.Println(err)
	}
	for _, job := range dead.Jobs {
		fmt.Println(job.Key, job.State, job.Reason)
	}

	open.Store(true)
	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{Act: nexjob.ActRequeue, By: "ann", Reason: "it is open again"})
	if err != nil {
		fmt.Println(err)
	}
	job, err := client.Wait(ctx, answer.ID)
	stop()
	fmt.Println(job.Key, job.State, err)
	// Output:
	// ship-7 Failed the warehouse is closed
	// ship-7 Succeeded <nil>
}

// exampleStore opens a new file with a table of the user's own.
func exampleStore(table string) (store *sqlite.Store, client *nexjob.Client, done func()) {
	folder, err := os.MkdirTemp("", "nexjob-")
	if err != nil {
		panic(err)
	}
	if store, err = sqlite.Open(context.Background(), filepath.Join(folder, "shop.db"), sqlite.Options{}); err != nil {
		panic(err)
	}
	if _, err := store.DB().ExecContext(context.Background(), table); err != nil {
		panic(err)
	}
	return store, nexjob.NewClient(store, nexjob.ClientOptions{}), func() {
		_ = store.Close()
		_ = os.RemoveAll(folder)
	}
}

// exampleWork runs a worker until the answered function is called.
func exampleWork(store nexjob.Storage, handle func(w *worker.Worker)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w := worker.New(store, worker.Options{ShutdownTimeout: 5 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	handle(w)
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(ctx) }()
	return func() {
		cancel()
		if err := <-stopped; err != nil {
			fmt.Println(err)
		}
	}
}
