// A business row and a job in one transaction of database/sql, on two drivers.
package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	_ "github.com/lib/pq"              // driver postgres

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open("pgx"), open("postgres")) }

type library struct{ db *sql.DB }

func open(driver string) shop.Open {
	return func(_ context.Context, url string) (shop.Library, error) {
		db, err := sql.Open(driver, url)
		return library{db}, err
	}
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	return postgres.InSQLTx(ctx, l.db, func(tx *sql.Tx) error {
		if _, err := client.In(postgres.SQLTx(tx)).Enqueue(ctx, shop.ChargeFor(order)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES ($1)`, order)
		return err
	})
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	return postgres.InSQLTx(ctx, l.db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
			return err
		}
		return run.CompleteIn(ctx, postgres.SQLTx(tx))
	})
}

func (l library) Close() error { return l.db.Close() }
