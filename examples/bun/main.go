// A business row and a job in one transaction of bun.
package main

import (
	"context"
	"database/sql"

	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open) }

// Order is a row of the table orders.
type Order struct {
	ID   int64 `bun:",pk"`
	Paid bool
}

type library struct{ db *bun.DB }

func open(_ context.Context, url string) (shop.Library, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return library{bun.NewDB(db, pgdialect.New())}, nil
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	var answer nexjob.Answer
	err := l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		// tx.Tx, for bun's own methods rewrite statements.
		if answer, err = client.In(postgres.SQLTx(tx.Tx)).Enqueue(ctx, shop.ChargeFor(order)); err != nil {
			return err
		}
		_, err = tx.NewInsert().Model(&Order{ID: order}).Exec(ctx)
		return err
	})
	if err == nil {
		answer.Wake() // of workers in this process; others find the job at their next poll
	}
	return err
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	return l.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewUpdate().Model(&Order{ID: order, Paid: true}).WherePK().Exec(ctx); err != nil {
			return err
		}
		return run.CompleteIn(ctx, postgres.SQLTx(tx.Tx))
	})
}

func (l library) Close() error { return l.db.Close() }
