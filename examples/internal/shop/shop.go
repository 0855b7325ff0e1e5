// Package shop is what the examples share: orders, and a job that charges for each. An
// example brings the two transactions of the shop, by the library that it shows.
//
// It stands on nexjob, its worker and its engine for PostgreSQL, and must not know which
// library it serves. Start reading at Library, then in any of the folders beside.
package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// Order is the argument of the job that charges for one.
type Order struct {
	ID int64 `json:"id"`
}

// Charge is the job.
var Charge = nexjob.KindOf[Order]("charge", nexjob.Defaults{})

// ChargeFor is the job of an order.
func ChargeFor(order int64) nexjob.NewJob {
	return Charge.New(Order{ID: order}, nexjob.Options{IdempotencyKey: fmt.Sprint("charge-", order)})
}

// Table is where the shop keeps its orders.
const Table = `CREATE TABLE IF NOT EXISTS orders (id bigint PRIMARY KEY, paid boolean NOT NULL DEFAULT false)`

// Library is the shop by one library.
type Library interface {
	// Place stores an order and enqueues its job, in one transaction.
	Place(ctx context.Context, client *nexjob.Client, order int64) error
	// Pay marks an order as paid and ends the job that runs, in one transaction.
	Pay(ctx context.Context, run *worker.Run, order int64) error
	Close() error
}

// Open opens a library on a database.
type Open func(ctx context.Context, url string) (Library, error)

// Main is the program of an example: it shows each library on the database that DATABASE_URL
// names, and leaves its tables there.
func Main(libraries ...Open) {
	for n, open := range libraries {
		if err := Show(context.Background(), os.Getenv("DATABASE_URL"), open, int64(n)+1, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// Show places an order that its table refuses, so that nothing of the transaction happens,
// then one that it takes, and works its job.
func Show(ctx context.Context, url string, open Open, order int64, out io.Writer) (err error) {
	store, err := postgres.Open(ctx, url, postgres.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, err := store.Pool().Exec(ctx, Table); err != nil {
		return err
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	defer func() { err = errors.Join(err, client.Close(ctx)) }()
	library, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, library.Close()) }()

	if _, err := store.Pool().Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, order); err != nil {
		return err
	}
	if err := library.Place(ctx, client, order); err == nil {
		return errors.New("an order was placed that is there already")
	}
	jobs, err := jobsOf(ctx, client, order)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "order %d is refused: %d jobs\n", order, len(jobs))

	if _, err := store.Pool().Exec(ctx, `DELETE FROM orders WHERE id = $1`, order); err != nil {
		return err
	}
	if err := library.Place(ctx, client, order); err != nil {
		return err
	}
	if jobs, err = jobsOf(ctx, client, order); err != nil || len(jobs) == 0 {
		return errors.Join(errors.New("the order's job is not there"), err)
	}
	fmt.Fprintf(out, "order %d is placed: its job is %s\n", order, jobs[0].State)

	job, err := work(ctx, store, client, library, jobs[0].ID)
	if err != nil {
		return err
	}
	var paid bool
	if err := store.Pool().QueryRow(ctx, `SELECT paid FROM orders WHERE id = $1`, order).Scan(&paid); err != nil {
		return err
	}
	fmt.Fprintf(out, "its job is %s, and it is paid: %v\n", job.State, paid)
	return nil
}

func jobsOf(ctx context.Context, client *nexjob.Client, order int64) ([]nexjob.Job, error) {
	page, err := client.Find(ctx, nexjob.Query{Key: ChargeFor(order).IdempotencyKey})
	return page.Jobs, err
}

// work runs a worker until a job has ended.
func work(ctx context.Context, store nexjob.Storage, client *nexjob.Client, library Library, id nexjob.ID) (nexjob.Job, error) {
	w := worker.New(store, worker.Options{Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(w, Charge, func(ctx context.Context, run *worker.Run, order Order) error {
		return library.Pay(ctx, run, order.ID)
	})
	working, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(working) }()
	job, err := client.Wait(ctx, id)
	stop()
	return job, errors.Join(err, <-stopped)
}
