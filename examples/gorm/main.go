// A business row and a job in one transaction of gorm, with and without PrepareStmt.
package main

import (
	"context"
	"fmt"

	driver "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func main() { shop.Main(open(false), open(true)) }

// Order is a row of the table orders.
type Order struct {
	ID   int64
	Paid bool
}

type library struct{ db *gorm.DB }

func open(prepare bool) shop.Open {
	return func(_ context.Context, url string) (shop.Library, error) {
		db, err := gorm.Open(driver.Open(url), &gorm.Config{
			PrepareStmt: prepare, Logger: logger.Default.LogMode(logger.Silent),
		})
		return library{db}, err
	}
}

// joined is gorm's transaction as nexjob takes it. With PrepareStmt it is no *sql.Tx.
func joined(tx *gorm.DB) (nexjob.Tx, error) {
	pool, ok := tx.Statement.ConnPool.(postgres.SQLTransaction)
	if !ok {
		return nil, fmt.Errorf("%T is no transaction", tx.Statement.ConnPool)
	}
	return postgres.SQLTx(pool), nil
}

func (l library) Place(ctx context.Context, client *nexjob.Client, order int64) error {
	var answer nexjob.Answer
	err := l.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		in, err := joined(tx)
		if err != nil {
			return err
		}
		if answer, err = client.In(in).Enqueue(ctx, shop.ChargeFor(order)); err != nil {
			return err
		}
		return tx.Create(&Order{ID: order}).Error
	})
	if err == nil {
		answer.Wake() // of workers in this process; others find the job at their next poll
	}
	return err
}

func (l library) Pay(ctx context.Context, run *worker.Run, order int64) error {
	return l.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		in, err := joined(tx)
		if err != nil {
			return err
		}
		if err := tx.Model(&Order{ID: order}).Update("paid", true).Error; err != nil {
			return err
		}
		return run.CompleteIn(ctx, in)
	})
}

func (l library) Close() error {
	db, err := l.db.DB()
	if err != nil {
		return err
	}
	return db.Close()
}
