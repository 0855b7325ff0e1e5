package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/sqlite"
)

var _ sqlite.SQLTx = (*sql.Tx)(nil)

func keyedJob(key string) nexjob.NewJob {
	args := []byte(`{"order_id":42,"cents":1999}`)
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: "charge", Args: args, Fingerprint: nexjob.FingerprintOf(args),
		Options: nexjob.Options{IdempotencyKey: key},
	}
}

// enqueueIn adds a job in a caller's transaction.
func enqueueIn(ctx context.Context, s *sqlite.Store, tx sqlite.SQLTx, job nexjob.NewJob) error {
	in, err := s.Join(sqlite.Tx(tx))
	if err != nil {
		return err
	}
	answers, err := in.Enqueue(ctx, time.Now(), []nexjob.NewJob{job})
	if err != nil {
		return err
	}
	return answers[0].Err
}

func stored(t testing.TB, s *sqlite.Store) []nexjob.Job {
	t.Helper()
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{Limit: nexjob.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return page.Jobs
}

// shop is a store with a table of the user's own beside it.
func shop(t testing.TB, options sqlite.Options) *sqlite.Store {
	t.Helper()
	s := open(t, file(t), options)
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	return s
}

func orders(t testing.TB, s *sqlite.Store) int {
	t.Helper()
	n := 0
	if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// own opens the file as a program does that knows nothing of the store: DEFERRED
// transactions and no busy time.
func own(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestInTx: the user's rows and the job stand together or not at all.
func TestInTx(t *testing.T) {
	s := shop(t, sqlite.Options{})
	for name, db := range map[string]*sql.DB{"the store's DB": s.DB(), "the user's own": own(t, pathOf(t, s))} {
		t.Run(name, func(t *testing.T) {
			rowsBefore, jobsBefore := orders(t, s), len(stored(t, s))
			work := func(key string, end error) error {
				return sqlite.InTx(t.Context(), db, func(tx *sql.Tx) error {
					if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders DEFAULT VALUES`); err != nil {
						return err
					}
					if err := enqueueIn(t.Context(), s, tx, keyedJob(key)); err != nil {
						return err
					}
					if n := len(stored(t, s)); n != jobsBefore {
						return fmt.Errorf("%d jobs are seen before the commit", n-jobsBefore)
					}
					return end
				})
			}
			mine := errors.New("no")
			if err := work("k", mine); err != mine { //nolint:errorlint // it comes back as it is
				t.Errorf("f's error comes back as %v", err)
			}
			func() {
				defer func() { _ = recover() }()
				_ = sqlite.InTx(t.Context(), db, func(tx *sql.Tx) error {
					_ = enqueueIn(t.Context(), s, tx, keyedJob("k"))
					panic("no")
				})
			}()
			if r, j := orders(t, s), len(stored(t, s)); r != rowsBefore || j != jobsBefore {
				t.Errorf("rolled back, but %d rows and %d jobs are new", r-rowsBefore, j-jobsBefore)
			}
			if err := work("k of "+name, nil); err != nil {
				t.Errorf("commit: %v", err)
			}
			if r, j := orders(t, s), len(stored(t, s)); r != rowsBefore+1 || j != jobsBefore+1 {
				t.Errorf("committed, but %d rows and %d jobs are new", r-rowsBefore, j-jobsBefore)
			}
		})
	}
}

// TestInTxRings: workers of this process hear of a commit on the store's DB.
func TestInTxRings(t *testing.T) {
	s := shop(t, sqlite.Options{})
	rings, stop := s.Bell().Listen()
	defer stop()
	work := func(tx *sql.Tx) error { return enqueueIn(t.Context(), s, tx, keyedJob("")) }
	if err := s.InTx(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	<-rings
	if err := sqlite.InTx(t.Context(), s.DB(), work); err != nil {
		t.Fatal(err)
	}
	<-rings
}

// TestInTxWaitsForItself: a step of the store inside f under a context that does not
// tell waits for f's transaction, which ends at the limit; then everything goes on.
func TestInTxWaitsForItself(t *testing.T) {
	s := shop(t, sqlite.Options{TxLimit: 20 * time.Millisecond})
	err := s.InTx(t.Context(), func(*sql.Tx) error {
		_, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{keyedJob("k")})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "held the file for longer") {
		t.Errorf("the answer is %v", err)
	}
	if n := len(stored(t, s)); n != 1 {
		t.Errorf("%d jobs are stored, want that of the step", n)
	}
}

// TestInTxIsMarked: what would wait for the open transaction is refused at once.
func TestInTxIsMarked(t *testing.T) {
	s := shop(t, sqlite.Options{})
	ctx, _ := nexjob.WithOpenTx(t.Context())
	err := s.InTx(ctx, func(tx *sql.Tx) error {
		for verb, step := range map[string]func() error{
			"enqueue": func() error { _, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{keyedJob("k")}); return err },
			"record":  func() error { _, err := s.Record(ctx, time.Now(), nil); return err },
			"claim": func() error {
				_, err := s.Claim(ctx, time.Now(), nexjob.ClaimRequest{Lease: time.Second})
				return err
			},
			"in tx": func() error { return s.InTx(ctx, func(*sql.Tx) error { return nil }) },
		} {
			if err := step(); !errors.Is(err, nexjob.ErrInTransaction) {
				t.Errorf("%s inside the transaction is answered %v", verb, err)
			}
		}
		return enqueueIn(ctx, s, tx, keyedJob("k"))
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{keyedJob("later")}); err != nil {
		t.Errorf("after the transaction: %v", err)
	}
}

// TestInTxLimit: a transaction that holds the file for too long ends by itself.
func TestInTxLimit(t *testing.T) {
	s := shop(t, sqlite.Options{TxLimit: 20 * time.Millisecond})
	err := s.InTx(t.Context(), func(tx *sql.Tx) error {
		if err := enqueueIn(t.Context(), s, tx, keyedJob("k")); err != nil {
			return err
		}
		for { // until the limit
			if _, err := tx.ExecContext(t.Context(), `INSERT INTO orders DEFAULT VALUES`); err != nil {
				return err
			}
		}
	})
	if err == nil || !strings.Contains(err.Error(), "held the file for longer than 20ms and was rolled back") {
		t.Errorf("the answer is %v", err)
	}
	if n, j := orders(t, s), len(stored(t, s)); n+j != 0 {
		t.Errorf("%d rows and %d jobs of it are there", n, j)
	}
	err = s.InTx(t.Context(), func(*sql.Tx) error {
		<-time.After(30 * time.Millisecond)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "held the file for longer") {
		t.Errorf("f returned nil too late, and the answer is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.InTx(ctx, func(tx *sql.Tx) error {
		cancel()
		return enqueueIn(t.Context(), s, tx, keyedJob("k"))
	})
	if !errors.Is(err, context.Canceled) || len(stored(t, s)) != 0 {
		t.Errorf("the caller left, and the answer is %v", err)
	}
}

// TestStaleTransaction: a transaction that began DEFERRED and has read can never
// write once others have; the refusal says what to do.
func TestStaleTransaction(t *testing.T) {
	s := shop(t, sqlite.Options{})
	db := own(t, pathOf(t, s))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{keyedJob("other")}); err != nil {
		t.Fatal(err)
	}
	err = enqueueIn(t.Context(), s, tx, keyedJob("k"))
	if err == nil || !strings.Contains(err.Error(), "InTx") || !strings.Contains(err.Error(), "IMMEDIATE") {
		t.Errorf("the answer is %v", err)
	}
	if nexjob.IsTransient(err) {
		t.Error("it is called transient, but the same transaction can never do it")
	}
}

// TestForeignTransaction: a transaction of another file, or another engine, is
// refused before anything is written.
func TestForeignTransaction(t *testing.T) {
	s, other := shop(t, sqlite.Options{}), shop(t, sqlite.Options{})
	plain := own(t, file(t))
	for name, db := range map[string]*sql.DB{"another store's": other.DB(), "of a file without a store": plain} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		if err := enqueueIn(t.Context(), s, tx, keyedJob("k")); err == nil || !strings.Contains(err.Error(), "not one of this store's file") {
			t.Errorf("a transaction %s is answered %v", name, err)
		}
		in, err := s.Join(sqlite.Tx(tx))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Find(t.Context(), time.Now(), nexjob.Query{}); err == nil {
			t.Errorf("a look in a transaction %s is answered", name)
		}
	}
	m := memory.New(memory.Options{})
	tx, err := m.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := s.Join(tx); !errors.Is(err, nexjob.ErrUnsupported) {
		t.Errorf("a transaction of memory is answered %v", err)
	}
	err = sqlite.InTx(t.Context(), plain, func(*sql.Tx) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "not one of this store's file") {
		t.Errorf("InTx on a file without a store is answered %v", err)
	}
}

// TestEndedTransaction: a step in a transaction that is over says so.
func TestEndedTransaction(t *testing.T) {
	s := shop(t, sqlite.Options{})
	tx, err := s.DB().BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := enqueueIn(t.Context(), s, tx, keyedJob("k")); !errors.Is(err, nexjob.ErrClosed) {
		t.Errorf("the answer is %v", err)
	}
}

// TestNoTransaction: what a Begin that failed has returned is answered, not a panic.
func TestNoTransaction(t *testing.T) {
	s := shop(t, sqlite.Options{})
	client := nexjob.NewClient(s, nexjob.ClientOptions{})
	var none *sql.Tx
	for _, tx := range []nexjob.Tx{nil, sqlite.Tx(nil), sqlite.Tx(none)} {
		if _, err := client.In(tx).Enqueue(t.Context(), keyedJob("k")); err == nil || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("%#v is answered %v", tx, err)
		}
	}
}

// TestBrokenTransactions (B061): a transaction that was cancelled in the middle
// leaves its connection fit for the next.
func TestBrokenTransactions(t *testing.T) {
	s := shop(t, sqlite.Options{})
	s.DB().SetMaxOpenConns(2)
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.InTx(ctx, func(tx *sql.Tx) error {
			if err := enqueueIn(ctx, s, tx, keyedJob("k")); err != nil {
				return err
			}
			cancel()
			_, err := tx.ExecContext(ctx, `INSERT INTO orders DEFAULT VALUES`)
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("round %d is answered %v", i, err)
		}
	}
	if err := s.InTx(t.Context(), func(tx *sql.Tx) error {
		return enqueueIn(t.Context(), s, tx, keyedJob("k"))
	}); err != nil {
		t.Error(err)
	}
	if n, j := orders(t, s), len(stored(t, s)); n != 0 || j != 1 {
		t.Errorf("%d rows and %d jobs are there, want the last job alone", n, j)
	}
}

// A transaction that waits for a writer elsewhere holds its process's turn meanwhile, and
// with it the renewals of all leases. So it must be there soon after the file is free:
// SQLite's own waiting would sleep for up to 100 ms more each time.
func TestInTxIsThereSoonAfterAnotherWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	other, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	const rounds = 6
	var late time.Duration
	for range rounds {
		held, freed := make(chan struct{}), make(chan time.Time, 1)
		go func() {
			err := other.InTx(t.Context(), func(*sql.Tx) error {
				close(held)
				time.Sleep(240 * time.Millisecond) // long enough for SQLite to have grown patient
				freed <- time.Now()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
		<-held
		if err := store.InTx(t.Context(), func(*sql.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		late += time.Since(<-freed)
	}
	if late > rounds*60*time.Millisecond { // SQLite's own waiting comes to more than 90 each
		t.Errorf("in %d rounds it came %s late", rounds, late)
	}
	var busy int
	if err := store.DB().QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&busy); err != nil || busy != 5000 {
		t.Errorf("the connection's own patience is %d ms afterwards, %v", busy, err)
	}
}
