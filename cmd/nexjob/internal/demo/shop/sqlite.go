package shop

import (
	"context"
	"database/sql"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// OnSQLite keeps the books in the file of a store.
func OnSQLite(store *sqlite.Store) Books { return liteBooks{store} }

type liteBooks struct{ store *sqlite.Store }

// InTx takes turns with the store's own steps.
func (b liteBooks) InTx(ctx context.Context, f func(tx Tx) error) error {
	return b.store.InTx(ctx, func(tx *sql.Tx) error { return f(liteTx{tx}) })
}

type liteTx struct{ tx *sql.Tx }

// Exec runs a statement.
func (t liteTx) Exec(ctx context.Context, query string, args ...any) error {
	_, err := t.tx.ExecContext(ctx, query, args...)
	return err
}

// Jobs is the transaction for nexjob's steps.
func (t liteTx) Jobs() nexjob.Tx { return sqlite.Tx(t.tx) }

// Query reads rows.
func (b liteBooks) Query(ctx context.Context, scan func(row Row) error, query string, args ...any) error {
	rows, err := b.store.DB().QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err is what counts
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Numbering never uses a number twice.
func (liteBooks) Numbering() string { return "INTEGER PRIMARY KEY AUTOINCREMENT" }

// InOrder reports that it has one writer.
func (liteBooks) InOrder() bool { return true }

// Check reads the whole file.
func (b liteBooks) Check(ctx context.Context) (damage string, err error) {
	err = b.store.DB().QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&damage)
	if damage == "ok" {
		damage = ""
	}
	return damage, err
}
