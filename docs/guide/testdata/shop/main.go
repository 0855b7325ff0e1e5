package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Charge struct {
	OrderID int64 `json:"order_id"`
	Cents   int64 `json:"cents"`
}

type Payment struct {
	ID string `json:"id"`
}

var ChargeCard = nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{})

type shop struct {
	db *sql.DB
}

func (s *shop) charge(ctx context.Context, run *worker.Run, c Charge) error {
	if paid, err := s.paid(ctx, c.OrderID); err != nil || paid {
		return err // a duplicate that comes after success is a new operation: look first
	}
	payment, err := worker.Effect[Payment]{
		Name:          "charge",
		RepeatableFor: 24 * time.Hour, // the provider knows a key for so long
		Send: func(ctx context.Context, key string) (Payment, error) {
			return pay(ctx, key, c.Cents)
		},
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return sqlite.InTx(ctx, s.db, func(tx *sql.Tx) error { // the invoice and the job's end, or neither
		if _, err := tx.ExecContext(ctx, `INSERT INTO invoices VALUES (?, ?)`, c.OrderID, payment.ID); err != nil {
			return err
		}
		return run.CompleteIn(ctx, sqlite.Tx(tx))
	})
}

// paid looks for the order's invoice.
func (s *shop) paid(ctx context.Context, order int64) (bool, error) {
	invoices := 0
	err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM invoices WHERE order_id = ?`, order).Scan(&invoices)
	return invoices > 0, err
}

// pay stands for the call of a payment provider, which keeps a file per key.
func pay(ctx context.Context, key string, cents int64) (Payment, error) {
	payment := Payment{ID: "payment of " + fmt.Sprint(cents)}
	file, err := os.OpenFile(filepath.Join("provider", key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		fmt.Println("provider: I know this key, here is the answer of then")
		return payment, nil
	}
	if err != nil {
		return Payment{}, worker.NotSent(err)
	}
	fmt.Println("provider: charged", cents, "cents; my answer takes five seconds")
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	return payment, errors.Join(ctx.Err(), file.Close())
}

func work(ctx context.Context) error {
	if err := os.MkdirAll("provider", 0o700); err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, "shop.db", sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	db := store.DB() // connections to the same file, for tables of your own
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS invoices (order_id INTEGER, payment TEXT)`); err != nil {
		return err
	}

	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	defer client.Close(ctx)
	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
		IdempotencyKey: "payment-42",
	}))
	if err != nil {
		return err
	}
	fmt.Println("order 42 enqueued:", answer.Outcome)

	s := &shop{db: db}
	w := worker.New(store, worker.Options{
		Lease:  6 * time.Second, // so that you need not wait the default 30 s after a kill
		Logger: slog.New(slog.DiscardHandler),
	})
	worker.Handle(w, ChargeCard, s.charge)
	running, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(running) }()

	job, err := client.Wait(ctx, answer.ID)
	if err != nil {
		return err
	}
	invoices := 0
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM invoices`).Scan(&invoices); err != nil {
		return err
	}
	charges, err := os.ReadDir("provider")
	if err != nil {
		return err
	}
	fmt.Printf("%s; crashes %d, charges %d, invoices %d\n", job.State, job.Crashes, len(charges), invoices)

	stop()
	return <-stopped
}

func main() {
	if err := work(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
