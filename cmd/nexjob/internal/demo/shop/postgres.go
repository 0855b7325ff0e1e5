package shop

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// OnPostgres keeps the books in the database of a store, where the search path of its
// connections begins.
func OnPostgres(store *postgres.Store) Books { return serverBooks{store, store.Pool()} }

type serverBooks struct {
	store *postgres.Store
	pool  *pgxpool.Pool
}

// InTx runs beside those of all other workers: none waits for another, except for a row.
func (b serverBooks) InTx(ctx context.Context, f func(tx Tx) error) error {
	return b.store.InTx(ctx, func(tx pgx.Tx) error { return f(serverTx{tx}) })
}

type serverTx struct{ tx pgx.Tx }

// Exec runs a statement.
func (t serverTx) Exec(ctx context.Context, query string, args ...any) error {
	_, err := t.tx.Exec(ctx, query, args...)
	return err
}

// Jobs is the transaction for nexjob's steps.
func (t serverTx) Jobs() nexjob.Tx { return postgres.Tx(t.tx) }

// Query reads rows.
func (b serverBooks) Query(ctx context.Context, scan func(row Row) error, query string, args ...any) error {
	rows, err := b.pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Numbering never uses a number twice; one of a transaction that was rolled back is left out.
func (serverBooks) Numbering() string { return "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY" }

// InOrder reports that a number may be drawn by one transaction and another commit first.
func (serverBooks) InOrder() bool { return false }

// Check compares every index of the schema with its table, where the server has the
// extension amcheck and the user may use it. Elsewhere it finds nothing.
func (b serverBooks) Check(ctx context.Context) (damage string, err error) {
	var there bool
	err = b.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'amcheck')`).Scan(&there)
	if err != nil || !there {
		return "", err
	}
	_, err = b.pool.Exec(ctx, `SELECT bt_index_check(index => c.oid, heapallindexed => true)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = current_schema()::regnamespace`)
	if err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", err
}
