package nexjob_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Payment struct {
	ID string `json:"id"`
}

// till is the shop of the README, whose code is this file's.
type till struct {
	db  *sql.DB
	pay func(ctx context.Context, key string, cents int64) (Payment, error)
}

// paid looks for the order's invoice.
func (t *till) paid(ctx context.Context, order int64) (bool, error) {
	invoices := 0
	err := t.db.QueryRowContext(ctx, `SELECT count(*) FROM invoices WHERE order_id = ?`, order).Scan(&invoices)
	return invoices > 0, err
}

func (t *till) charge(ctx context.Context, run *worker.Run, c Charge) error {
	if paid, err := t.paid(ctx, c.OrderID); err != nil || paid {
		return err // a duplicate that comes after success is a new operation: look first
	}
	payment, err := worker.Effect[Payment]{
		Name:          "charge",
		RepeatableFor: 24 * time.Hour, // the provider knows a key for so long
		Send:          func(ctx context.Context, key string) (Payment, error) { return t.pay(ctx, key, c.Cents) },
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return sqlite.InTx(ctx, t.db, func(tx *sql.Tx) error { // the invoice and the job's end, or neither
		if _, err := tx.ExecContext(ctx, `INSERT INTO invoices VALUES (?, ?)`, c.OrderID, payment.ID); err != nil {
			return err
		}
		return run.CompleteIn(ctx, sqlite.Tx(tx))
	})
}

// TestReadme runs the README's code; internal/houserules holds that it is this code.
func TestReadme(test *testing.T) {
	ctx, stop := context.WithCancel(test.Context())
	defer stop()
	store, err := sqlite.Open(ctx, filepath.Join(test.TempDir(), "shop.db"), sqlite.Options{})
	if err != nil {
		test.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			test.Error(err)
		}
	}()
	if _, err := store.DB().ExecContext(ctx, `CREATE TABLE invoices (order_id INTEGER, payment TEXT)`); err != nil {
		test.Fatal(err)
	}
	t := &till{db: store.DB(), pay: func(_ context.Context, key string, cents int64) (Payment, error) {
		return Payment{ID: fmt.Sprintf("%d cents under a key of %d characters", cents, len(key))}, nil
	}}
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	w := worker.New(store, worker.Options{})

	worker.Handle(w, ChargeCard, t.charge) // w := worker.New(store, worker.Options{})
	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
		IdempotencyKey: "payment-42",
	}))
	if err != nil {
		test.Fatal(err)
	}

	ran := make(chan error)
	go func() { ran <- w.Run(ctx) }()
	for range 2 { // the second job comes after the success of the first
		job, err := client.Wait(ctx, answer.ID)
		if err != nil || job.State != nexjob.Succeeded {
			test.Errorf("the job is %s (%s), %v", job.State, job.Reason, err)
		}
		if answer, err = client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
			IdempotencyKey: "payment-42",
		})); err != nil || answer.Outcome != nexjob.Created {
			test.Errorf("after a success the answer is %s, %v", answer.Outcome, err)
		}
	}
	var payment string
	var invoices int
	if err := store.DB().QueryRowContext(ctx,
		`SELECT max(payment), count(*) FROM invoices WHERE order_id = 42`).Scan(&payment, &invoices); err != nil {
		test.Error(err)
	}
	if want := "1999 cents under a key of 43 characters"; payment != want || invoices != 1 {
		test.Errorf("%d invoices, the last for %q, want one for %q", invoices, payment, want)
	}
	stop()
	if err := <-ran; err != nil {
		test.Error(err)
	}
}
