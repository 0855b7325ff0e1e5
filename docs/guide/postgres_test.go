package guide_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

type order struct {
	OrderID int64 `json:"order_id"`
}

// finish is the transaction of the page.
func finish(ctx context.Context, store *postgres.Store, run *worker.Run, c order, payment Payment) error {
	return store.InTx(ctx, func(tx pgx.Tx) error { // the invoice and the job's end, or neither
		if _, err := tx.Exec(ctx, `INSERT INTO invoices VALUES ($1, $2)`, c.OrderID, payment.ID); err != nil {
			return err
		}
		return run.CompleteIn(ctx, postgres.Tx(tx))
	})
}

// TestFirstJobOnPostgres: the code of the page ends a job with its invoice.
func TestFirstJobOnPostgres(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	store, err := postgres.Open(ctx, server.URL(""), postgres.Options{Schema: "jobs", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Pool().Exec(ctx, `CREATE TABLE invoices (order_id bigint, payment text)`); err != nil {
		t.Fatal(err)
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	kind := nexjob.KindOf[order]("charge-on-postgres", nexjob.Defaults{})
	defer serve(store, kind, func(ctx context.Context, run *worker.Run, c order) error {
		return finish(ctx, store, run, c, Payment{ID: "ch_1"})
	})()
	answer, err := client.Enqueue(ctx, kind.New(order{OrderID: 42}, nexjob.Options{IdempotencyKey: "payment-42"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := end(client, answer.ID); !strings.HasPrefix(got, "Succeeded") {
		t.Errorf("the job ended: %s", got)
	}
	invoices := 0
	if err := store.Pool().QueryRow(ctx, `SELECT count(*) FROM invoices`).Scan(&invoices); err != nil || invoices != 1 {
		t.Errorf("%d invoices, %v", invoices, err)
	}
}
