package shop

import (
	"context"

	"github.com/nexjob/nexjob"
)

// Books is the database that holds the shop's tables beside the jobs. The shop's SQL is
// the same on every engine; SQLite and PostgreSQL differ in what stands behind Books.
type Books interface {
	// InTx runs f in a transaction that commits when f returns nil.
	InTx(ctx context.Context, f func(tx Tx) error) error
	// Query reads rows outside of transactions and has each scanned.
	Query(ctx context.Context, scan func(row Row) error, query string, args ...any) error
	// Numbering is the type of a column that numbers its rows.
	Numbering() string
	// InOrder reports whether rows appear in the order of their numbers, as where one
	// transaction writes at a time.
	InOrder() bool
	// Check looks whether the database is sound, and says what is not.
	Check(ctx context.Context) (damage string, err error)
}

// Tx is an open transaction of the books.
type Tx interface {
	Exec(ctx context.Context, query string, args ...any) error
	// Jobs is the transaction for nexjob's steps in it: Client.In and Run.CompleteIn.
	Jobs() nexjob.Tx
}

// Row is one row of an answer.
type Row interface {
	Scan(into ...any) error
}
