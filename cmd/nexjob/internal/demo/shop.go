package demo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// shopTables are the shop's own tables, beside those of the jobs.
//
// invoices has no unique constraint on its order, on purpose: it would turn a
// doubled invoice into an error that looks like care, and the audit counts rows.
const shopTables = `
CREATE TABLE orders (
	id       INTEGER PRIMARY KEY,
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
)`

// ChargeCard charges an order's card and writes its invoice. It tries again soon:
// the provider is next door.
var ChargeCard = nexjob.KindOf[outside.Charge]("charge-card", nexjob.Defaults{
	MaxAttempts: 25,
	Retry:       nexjob.Retry{Initial: 200 * time.Millisecond, Max: 2 * time.Second},
})

// paymentKey is the idempotency key of an order's payment.
func paymentKey(order int64) string { return "payment-" + strconv.FormatInt(order, 10) }

// Invoice is one row of the table invoices.
type Invoice struct {
	Number  int64
	OrderID int64
	Cents   int64
	Charge  string
	Job     nexjob.ID
	Fence   int64
}

// shop handles the jobs of the shop: this is the code that a user writes.
type shop struct {
	db  *sql.DB
	pay *cashier
	// committed is called after each commit, before anything else is done: here the
	// demo's witness looks at what is there. A real shop has nothing like it.
	committed func(ctx context.Context, order int64, job nexjob.ID)
}

// charge charges the order once and writes its invoice once, whatever dies in
// between.
func (s *shop) charge(ctx context.Context, run *worker.Run, c outside.Charge) error {
	if paid, err := s.paid(ctx, c.OrderID); err != nil || paid {
		return err // a repeat that was enqueued after success is a new operation
	}
	payment, err := worker.Effect[outside.Payment]{
		Name:          "charge",
		RepeatableFor: 24 * time.Hour, // the provider keeps its keys at least so long
		Send: func(ctx context.Context, key string) (outside.Payment, error) {
			return s.pay.charge(ctx, key, leaseOf(run), c)
		},
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return s.inTx(ctx, run, payment.OrderID, func(tx *sql.Tx) error {
		if err := book(ctx, tx, payment, leaseOf(run)); err != nil {
			return err
		}
		return run.CompleteIn(ctx, sqlite.Tx(tx))
	})
}

// inTx is sqlite.InTx, with the witness behind it.
func (s *shop) inTx(ctx context.Context, run *worker.Run, order int64, f func(tx *sql.Tx) error) error {
	if err := sqlite.InTx(ctx, s.db, f); err != nil {
		return err
	}
	s.committed(ctx, order, run.JobID())
	return nil
}

// paid looks whether the order has been paid.
func (s *shop) paid(ctx context.Context, order int64) (bool, error) {
	var by sql.NullString
	err := s.db.QueryRowContext(ctx, `SELECT paid_by FROM orders WHERE id = ?`, order).Scan(&by)
	if errors.Is(err, sql.ErrNoRows) {
		return false, worker.Permanent(fmt.Errorf("demo: there is no order %d", order))
	}
	if err != nil {
		return false, fmt.Errorf("demo: look whether order %d is paid: %w", order, err)
	}
	return by.Valid, nil
}

// book writes the invoice and marks the order as paid.
func book(ctx context.Context, tx *sql.Tx, payment outside.Payment, lease nexjob.Lease) error {
	_, err := tx.ExecContext(ctx,
		`INSERT INTO invoices (order_id, cents, charge, job, fence) VALUES (?, ?, ?, ?, ?)`,
		payment.OrderID, payment.Cents, payment.ID, lease.Job.String(), lease.Fence)
	if err != nil {
		return fmt.Errorf("demo: write the invoice of order %d: %w", payment.OrderID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE orders SET paid_by = ? WHERE id = ?`, payment.ID, payment.OrderID)
	if err != nil {
		return fmt.Errorf("demo: mark order %d as paid: %w", payment.OrderID, err)
	}
	return nil
}

func leaseOf(run *worker.Run) nexjob.Lease {
	return nexjob.Lease{Job: run.JobID(), Fence: run.Fence()}
}

// openShop makes the shop's tables and takes the orders in, unpaid.
func openShop(ctx context.Context, db *sql.DB, lines []Line) error {
	return sqlite.InTx(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, shopTables); err != nil {
			return fmt.Errorf("demo: make the shop's tables: %w", err)
		}
		for _, line := range lines {
			_, err := tx.ExecContext(ctx,
				`INSERT INTO orders (id, cents, currency) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
				line.OrderID, line.Cents, line.Currency)
			if err != nil {
				return fmt.Errorf("demo: take order %d in: %w", line.OrderID, err)
			}
		}
		return nil
	})
}

// invoicesAfter returns the invoices with a number above last, in order.
func invoicesAfter(ctx context.Context, db *sql.DB, last int64) ([]Invoice, error) {
	rows, err := db.QueryContext(ctx, `SELECT number, order_id, cents, charge, job, fence
		FROM invoices WHERE number > ? ORDER BY number`, last)
	if err != nil {
		return nil, fmt.Errorf("demo: read invoices: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err is what counts
	var invoices []Invoice
	for rows.Next() {
		var i Invoice
		var job string
		if err := rows.Scan(&i.Number, &i.OrderID, &i.Cents, &i.Charge, &job, &i.Fence); err != nil {
			return nil, fmt.Errorf("demo: read an invoice: %w", err)
		}
		if i.Job, err = nexjob.ParseID(job); err != nil {
			return nil, fmt.Errorf("demo: read invoice %d: %w", i.Number, err)
		}
		invoices = append(invoices, i)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("demo: read invoices: %w", err)
	}
	return invoices, nil
}

// paidOrders returns by which charge each paid order was paid.
func paidOrders(ctx context.Context, db *sql.DB) (map[int64]string, error) {
	rows, err := db.QueryContext(ctx, `SELECT id, paid_by FROM orders WHERE paid_by IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("demo: read orders: %w", err)
	}
	defer func() { _ = rows.Close() }() // rows.Err is what counts
	paid := make(map[int64]string)
	for rows.Next() {
		var id int64
		var by string
		if err := rows.Scan(&id, &by); err != nil {
			return nil, fmt.Errorf("demo: read an order: %w", err)
		}
		paid[id] = by
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("demo: read orders: %w", err)
	}
	return paid, nil
}
