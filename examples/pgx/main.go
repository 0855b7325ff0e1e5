// A business row and a job in one transaction of pgx.
package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open) }

type library struct{ pool *pgxpool.Pool }

func open(ctx context.Context, url string) (shop.Library, error) {
	pool, err := pgxpool.New(ctx, url)
	return library{pool}, err
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	return postgres.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		if _, err := client.In(postgres.Tx(tx)).Enqueue(ctx, shop.ChargeFor(order)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, order)
		return err
	})
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	return postgres.InTx(ctx, l.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
			return err
		}
		return run.CompleteIn(ctx, postgres.Tx(tx))
	})
}

func (l library) Close() error {
	l.pool.Close()
	return nil
}
