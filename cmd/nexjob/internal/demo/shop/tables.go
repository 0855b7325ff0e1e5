package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// tables are the shop's own, beside those of the jobs.
//
// invoices and deliveries have no unique constraint, on purpose: it would turn a row
// that was written twice into an error that looks like care, and the audit counts rows.
const tables = `
CREATE TABLE orders (
	id       INTEGER PRIMARY KEY,
	customer TEXT    NOT NULL,
	cents    INTEGER NOT NULL,
	currency TEXT    NOT NULL,
	paid_by  TEXT              -- the provider's ID of the charge
);
CREATE TABLE invoices (
	number   INTEGER PRIMARY KEY AUTOINCREMENT,
	order_id INTEGER NOT NULL,
	cents    INTEGER NOT NULL,
	charge   TEXT    NOT NULL,
	job      TEXT    NOT NULL,
	fence    INTEGER NOT NULL  -- of the attempt that wrote it
);
CREATE INDEX invoices_job ON invoices (job);
CREATE TABLE deliveries (
	number INTEGER PRIMARY KEY AUTOINCREMENT,
	event  TEXT    NOT NULL,
	job    TEXT    NOT NULL,
	fence  INTEGER NOT NULL
);
CREATE INDEX deliveries_event ON deliveries (event);
CREATE INDEX deliveries_job ON deliveries (job)`

// Open makes the shop's tables and takes the orders in, unpaid.
func Open(ctx context.Context, db *sql.DB, orders []Order) error {
	return sqlite.InTx(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, tables); err != nil {
			return fmt.Errorf("shop: make the tables: %w", err)
		}
		for _, o := range orders {
			_, err := tx.ExecContext(ctx, `INSERT INTO orders (id, customer, cents, currency) VALUES (?, ?, ?, ?)`,
				o.ID, o.Customer, o.Cents, o.Currency)
			if err != nil {
				return fmt.Errorf("shop: take order %d in: %w", o.ID, err)
			}
		}
		return nil
	})
}

// paid looks whether the order has been paid.
func (s *Shop) paid(ctx context.Context, order int64) (bool, error) {
	var by sql.NullString
	err := s.DB.QueryRowContext(ctx, `SELECT paid_by FROM orders WHERE id = ?`, order).Scan(&by)
	if errors.Is(err, sql.ErrNoRows) {
		return false, worker.Permanent(fmt.Errorf("shop: there is no order %d", order))
	}
	if err != nil {
		return false, fmt.Errorf("shop: look whether order %d is paid: %w", order, err)
	}
	return by.Valid, nil
}

// bill writes the invoice and marks the order as paid.
func bill(ctx context.Context, tx *sql.Tx, run *worker.Run, o Order, charge string) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO invoices (order_id, cents, charge, job, fence) VALUES (?, ?, ?, ?, ?)`,
		o.ID, o.Cents, charge, run.JobID().String(), run.Fence())
	if err != nil {
		return fmt.Errorf("shop: write the invoice of order %d: %w", o.ID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE orders SET paid_by = ? WHERE id = ?`, charge, o.ID)
	if err != nil {
		return fmt.Errorf("shop: mark order %d as paid: %w", o.ID, err)
	}
	return nil
}

// delivered looks whether the event has been delivered.
func (s *Shop) delivered(ctx context.Context, event string) (bool, error) {
	var known bool
	err := s.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM deliveries WHERE event = ?)`, event).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("shop: look whether %s is delivered: %w", event, err)
	}
	return known, nil
}

// noteDelivery writes that the event is delivered.
func noteDelivery(ctx context.Context, tx *sql.Tx, run *worker.Run, event string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO deliveries (event, job, fence) VALUES (?, ?, ?)`,
		event, run.JobID().String(), run.Fence())
	if err != nil {
		return fmt.Errorf("shop: note that %s is delivered: %w", event, err)
	}
	return nil
}

// Invoice is one row of the table invoices.
type Invoice struct {
	Number  int64
	OrderID int64
	Cents   int64
	Charge  string
	Job     nexjob.ID
	Fence   int64
}

// Delivery is one row of the table deliveries.
type Delivery struct {
	Number int64
	Event  string
	Job    nexjob.ID
	Fence  int64
}

// Invoices returns the invoices with a number above last, in order.
func Invoices(ctx context.Context, db *sql.DB, last int64) ([]Invoice, error) {
	return read(ctx, db, "the invoices", `SELECT number, order_id, cents, charge, job, fence
		FROM invoices WHERE number > ? ORDER BY number`, last, func(rows *sql.Rows) (i Invoice, err error) {
		var job string
		if err := rows.Scan(&i.Number, &i.OrderID, &i.Cents, &i.Charge, &job, &i.Fence); err != nil {
			return i, err
		}
		i.Job, err = nexjob.ParseID(job)
		return i, err
	})
}

// Deliveries returns the deliveries that are noted with a number above last, in order.
func Deliveries(ctx context.Context, db *sql.DB, last int64) ([]Delivery, error) {
	return read(ctx, db, "the deliveries", `SELECT number, event, job, fence
		FROM deliveries WHERE number > ? ORDER BY number`, last, func(rows *sql.Rows) (d Delivery, err error) {
		var job string
		if err := rows.Scan(&d.Number, &d.Event, &job, &d.Fence); err != nil {
			return d, err
		}
		d.Job, err = nexjob.ParseID(job)
		return d, err
	})
}

// Payments returns by which charge each paid order was paid.
func Payments(ctx context.Context, db *sql.DB) (map[int64]string, error) {
	type paid struct {
		order int64
		by    string
	}
	rows, err := read(ctx, db, "the orders", `SELECT id, paid_by FROM orders WHERE paid_by IS NOT NULL AND id > ?`,
		0, func(rows *sql.Rows) (p paid, err error) { return p, rows.Scan(&p.order, &p.by) })
	by := make(map[int64]string, len(rows))
	for _, row := range rows {
		by[row.order] = row.by
	}
	return by, err
}

// read reads the rows of a table above a number.
func read[T any](
	ctx context.Context, db *sql.DB, what, query string, last int64, scan func(*sql.Rows) (T, error),
) ([]T, error) {
	rows, err := db.QueryContext(ctx, query, last)
	if err != nil {
		return nil, fmt.Errorf("shop: read %s: %w", what, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err is what counts
	var all []T
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("shop: read %s: %w", what, err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("shop: read %s: %w", what, err)
	}
	return all, nil
}
