// A business row and a job in one transaction of sqlx.
package main

import (
	"context"

	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	"github.com/jmoiron/sqlx"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open) }

type library struct{ db *sqlx.DB }

func open(ctx context.Context, url string) (shop.Library, error) {
	db, err := sqlx.ConnectContext(ctx, "pgx", url)
	return library{db}, err
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	tx, err := l.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	answer, err := client.In(postgres.SQLTx(tx)).Enqueue(ctx, shop.ChargeFor(order))
	if err != nil {
		return err
	}
	row := map[string]any{"id": order}
	if _, err := tx.NamedExecContext(ctx, `INSERT INTO orders (id) VALUES (:id)`, row); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	answer.Wake() // of workers in this process; others find the job at their next poll
	return nil
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	tx, err := l.db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE orders SET paid = true WHERE id = $1`, order); err != nil {
		return err
	}
	if err := run.CompleteIn(ctx, postgres.SQLTx(tx)); err != nil {
		return err
	}
	return tx.Commit()
}

func (l library) Close() error { return l.db.Close() }
