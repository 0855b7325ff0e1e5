// A business row and a job in one transaction of ent's driver, which stands below the
// client that ent generates. A generated client is not shown: with the feature
// sql/execquery its *ent.Tx has the methods that postgres.SQLTx wants.
package main

import (
	"context"
	"errors"
	"fmt"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open) }

type library struct {
	driver *entsql.Driver
	pool   *pgxpool.Pool
}

func open(ctx context.Context, url string) (shop.Library, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	return library{entsql.OpenDB(dialect.Postgres, stdlib.OpenDBFromPool(pool)), pool}, nil
}

// within commits what f does with ent's transaction and the same one as nexjob takes it.
func (l library) within(ctx context.Context, f func(tx dialect.Tx, in nexjob.Tx) error) error {
	tx, err := l.driver.Tx(ctx)
	if err != nil {
		return err
	}
	methods, ok := tx.(postgres.SQLTransaction)
	if !ok {
		return errors.Join(fmt.Errorf("%T lacks methods of a transaction", tx), tx.Rollback())
	}
	if err := f(tx, postgres.SQLTx(methods)); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// exec runs a statement that ent's builder has made.
func exec(ctx context.Context, tx dialect.Tx, statement entsql.Querier) error {
	query, args := statement.Query()
	return tx.Exec(ctx, query, args, nil)
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	var answer nexjob.Answer
	err := l.within(ctx, func(tx dialect.Tx, in nexjob.Tx) (err error) {
		if answer, err = client.In(in).Enqueue(ctx, shop.ChargeFor(order)); err != nil {
			return err
		}
		return exec(ctx, tx, entsql.Dialect(dialect.Postgres).Insert("orders").Columns("id").Values(order))
	})
	if err == nil {
		answer.Wake() // of workers in this process; others find the job at their next poll
	}
	return err
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	return l.within(ctx, func(tx dialect.Tx, in nexjob.Tx) error {
		paid := entsql.Dialect(dialect.Postgres).Update("orders").Set("paid", true).Where(entsql.EQ("id", order))
		if err := exec(ctx, tx, paid); err != nil {
			return err
		}
		return run.CompleteIn(ctx, in)
	})
}

func (l library) Close() error {
	err := l.driver.Close()
	l.pool.Close()
	return err
}
