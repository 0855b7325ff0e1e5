package shop

import (
	"context"
	"fmt"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// tables are the shop's own, beside those of the jobs. A BIGINT is an INTEGER to SQLite,
// and %[1]s is what numbers the rows.
//
// invoices and deliveries have no unique constraint, on purpose: it would turn a row
// that was written twice into an error that looks like care, and the audit counts rows.
const tables = `
CREATE TABLE orders (
	id       BIGINT PRIMARY KEY,
	customer TEXT   NOT NULL,
	cents    BIGINT NOT NULL,
	currency TEXT   NOT NULL,
	paid_by  TEXT             -- the provider's ID of the charge
);
CREATE TABLE invoices (
	number   %[1]s,
	order_id BIGINT NOT NULL,
	cents    BIGINT NOT NULL,
	charge   TEXT   NOT NULL,
	job      TEXT   NOT NULL,
	fence    BIGINT NOT NULL  -- of the attempt that wrote it
);
CREATE INDEX invoices_job ON invoices (job);
CREATE TABLE deliveries (
	number %[1]s,
	event  TEXT   NOT NULL,
	job    TEXT   NOT NULL,
	fence  BIGINT NOT NULL
);
CREATE INDEX deliveries_event ON deliveries (event);
CREATE INDEX deliveries_job ON deliveries (job)`

// Open makes the shop's tables and takes the orders in, unpaid.
func Open(ctx context.Context, books Books, orders []Order) error {
	return books.InTx(ctx, func(tx Tx) error {
		if err := tx.Exec(ctx, fmt.Sprintf(tables, books.Numbering())); err != nil {
			return fmt.Errorf("shop: make the tables: %w", err)
		}
		for _, o := range orders {
			err := tx.Exec(ctx, `INSERT INTO orders (id, customer, cents, currency) VALUES ($1, $2, $3, $4)`,
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
	known, paid := false, false
	err := s.Books.Query(ctx, func(row Row) error {
		known = true
		return row.Scan(&paid)
	}, `SELECT paid_by IS NOT NULL FROM orders WHERE id = $1`, order)
	if err == nil && !known {
		return false, worker.Permanent(fmt.Errorf("shop: there is no order %d", order))
	}
	if err != nil {
		return false, fmt.Errorf("shop: look whether order %d is paid: %w", order, err)
	}
	return paid, nil
}

// bill writes the invoice and marks the order as paid.
func bill(ctx context.Context, tx Tx, run *worker.Run, o Order, charge string) error {
	err := tx.Exec(ctx, `INSERT INTO invoices (order_id, cents, charge, job, fence) VALUES ($1, $2, $3, $4, $5)`,
		o.ID, o.Cents, charge, run.JobID().String(), run.Fence())
	if err != nil {
		return fmt.Errorf("shop: write the invoice of order %d: %w", o.ID, err)
	}
	if err := tx.Exec(ctx, `UPDATE orders SET paid_by = $1 WHERE id = $2`, charge, o.ID); err != nil {
		return fmt.Errorf("shop: mark order %d as paid: %w", o.ID, err)
	}
	return nil
}

// delivered looks whether the event has been delivered.
func (s *Shop) delivered(ctx context.Context, event string) (bool, error) {
	known := false
	err := s.Books.Query(ctx, func(row Row) error { return row.Scan(&known) },
		`SELECT EXISTS (SELECT 1 FROM deliveries WHERE event = $1)`, event)
	if err != nil {
		return false, fmt.Errorf("shop: look whether %s is delivered: %w", event, err)
	}
	return known, nil
}

// noteDelivery writes that the event is delivered.
func noteDelivery(ctx context.Context, tx Tx, run *worker.Run, event string) error {
	err := tx.Exec(ctx, `INSERT INTO deliveries (event, job, fence) VALUES ($1, $2, $3)`,
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
func Invoices(ctx context.Context, books Books, last int64) ([]Invoice, error) {
	return read(ctx, books, "the invoices", `SELECT number, order_id, cents, charge, job, fence
		FROM invoices WHERE number > $1 ORDER BY number`, last, func(row Row) (i Invoice, err error) {
		var job string
		if err := row.Scan(&i.Number, &i.OrderID, &i.Cents, &i.Charge, &job, &i.Fence); err != nil {
			return i, err
		}
		i.Job, err = nexjob.ParseID(job)
		return i, err
	})
}

// Deliveries returns the deliveries that are noted with a number above last, in order.
func Deliveries(ctx context.Context, books Books, last int64) ([]Delivery, error) {
	return read(ctx, books, "the deliveries", `SELECT number, event, job, fence
		FROM deliveries WHERE number > $1 ORDER BY number`, last, func(row Row) (d Delivery, err error) {
		var job string
		if err := row.Scan(&d.Number, &d.Event, &job, &d.Fence); err != nil {
			return d, err
		}
		d.Job, err = nexjob.ParseID(job)
		return d, err
	})
}

// Payments returns by which charge each paid order was paid.
func Payments(ctx context.Context, books Books) (map[int64]string, error) {
	type paid struct {
		order int64
		by    string
	}
	rows, err := read(ctx, books, "the orders", `SELECT id, paid_by FROM orders WHERE paid_by IS NOT NULL AND id > $1`,
		0, func(row Row) (p paid, err error) { return p, row.Scan(&p.order, &p.by) })
	by := make(map[int64]string, len(rows))
	for _, row := range rows {
		by[row.order] = row.by
	}
	return by, err
}

// CountRows returns how many rows are committed that were written for a job.
func CountRows(ctx context.Context, books Books, job nexjob.ID) (n int, err error) {
	err = books.Query(ctx, func(row Row) error { return row.Scan(&n) },
		`SELECT (SELECT count(*) FROM invoices WHERE job = $1) + (SELECT count(*) FROM deliveries WHERE job = $1)`, job.String())
	if err != nil {
		return 0, fmt.Errorf("shop: count the rows of job %s: %w", job, err)
	}
	return n, nil
}

// read reads the rows of a table above a number.
func read[T any](
	ctx context.Context, books Books, what, query string, last int64, scan func(Row) (T, error),
) ([]T, error) {
	var all []T
	err := books.Query(ctx, func(row Row) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	}, query, last)
	if err != nil {
		return nil, fmt.Errorf("shop: read %s: %w", what, err)
	}
	return all, nil
}
