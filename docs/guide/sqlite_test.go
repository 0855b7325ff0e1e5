package guide_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// What the file holds beside the tables of its user.
func Example_tables() {
	store, _, done := open(`CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
	defer done()
	rows, err := store.DB().QueryContext(context.Background(),
		`SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		name := ""
		fail(rows.Scan(&name))
		fmt.Println(name)
	}
	fail(rows.Err())
	// Output:
	// nexjob_attempts
	// nexjob_bodies
	// nexjob_entries
	// nexjob_jobs
	// nexjob_keys
	// nexjob_meta
	// nexjob_migrations
	// nexjob_parents
	// nexjob_receipts
	// nexjob_results
	// orders
}

// payments reads each order with the last job of its key.
const payments = `
	SELECT o.id, coalesce(j.state, k.ended), coalesce(j.args, b.args)
	FROM orders o
	LEFT JOIN nexjob_keys k ON k.key = CAST('payment-' || o.id AS BLOB)
	LEFT JOIN nexjob_jobs j ON j.id = k.job AND j.key = k.key
	LEFT JOIN nexjob_bodies b ON b.seq = j.seq
	ORDER BY o.id`

// The store's tables beside those of the user: a job with a small body, one with a large
// one, one whose record was removed before its key, and an order without a job.
func Example_payments() {
	store, client, done := open(`CREATE TABLE orders (id INTEGER PRIMARY KEY);
		INSERT INTO orders VALUES (1), (2), (3), (4)`)
	defer done()
	ctx := context.Background()
	notes := nexjob.KindOf[map[string]string]("notes", nexjob.Defaults{})
	var jobs []nexjob.NewJob
	for i, note := range []string{"short", strings.Repeat("long ", 200), "gone"} {
		jobs = append(jobs, notes.New(map[string]string{"note": note}, nexjob.Options{
			IdempotencyKey: fmt.Sprintf("payment-%d", i+1), KeepKeyFor: time.Hour,
		}))
	}
	answers, err := client.EnqueueMany(ctx, jobs)
	fail(err)
	gone := nexjob.Query{IDs: []nexjob.ID{answers[2].ID}}
	for _, act := range []nexjob.Act{nexjob.ActCancel, nexjob.ActPurge} {
		_, err := client.Amend(ctx, gone, nexjob.Action{Act: act}, 1)
		fail(err)
	}

	rows, err := store.DB().QueryContext(ctx, payments)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var order int
		var state sql.Null[nexjob.State]
		var args []byte
		fail(rows.Scan(&order, &state, &args))
		fmt.Println(order, state.V, state.Valid, len(args))
	}
	fail(rows.Err())
	// Output:
	// 1 Enqueued true 16
	// 2 Enqueued true 1011
	// 3 Cancelled true 0
	// 4 State(0) false 0
}

// backup writes a copy of the file as it is at one moment, while jobs are worked.
func backup(ctx context.Context, store *sqlite.Store, to string) error {
	_, err := store.DB().ExecContext(ctx, `VACUUM INTO ?`, to)
	return err
}

// A copy of before the charge charges again, under the same outside key.
func Example_restore() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	folder, remove := temporary()
	defer remove()
	copied := filepath.Join(folder, "copy.db")

	answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{
		IdempotencyKey: "payment-42",
	}))
	fail(err)
	fail(backup(ctx, store, copied))

	var keys []string
	charge := func(ctx context.Context, run *worker.Run, _ Charge) error {
		_, err := worker.Effect[worker.None]{
			Name: "charge", RepeatableFor: 24 * time.Hour,
			Send: worker.NoResult(func(_ context.Context, key string) error {
				keys = append(keys, key)
				return nil
			}),
		}.Do(ctx, run)
		return err
	}
	stop := serve(store, ChargeCard, charge)
	fmt.Println("the file:", end(client, answer.ID))
	stop()

	old, err := sqlite.Open(ctx, copied, sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stop = serve(old, ChargeCard, charge)
	fmt.Println("the copy:", end(nexjob.NewClient(old, nexjob.ClientOptions{}), answer.ID))
	stop()
	fail(old.Close())
	fmt.Println(len(keys), "calls under one key:", keys[0] == keys[1])
	// Output:
	// the file: Succeeded
	// the copy: Succeeded
	// 2 calls under one key: true
}

// What a transaction that holds the file for too long is told, and those who wait for it.
func Example_tooLong() {
	folder, remove := temporary()
	defer remove()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(folder, "shop.db"), sqlite.Options{
		TxLimit: 100 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { fail(store.Close()) }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	err = sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error {
		_, err := client.Enqueue(ctx, Webhook.New(Event{ID: "e1"}, nexjob.Options{})) // should be client.In(…)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
		return err
	})
	fmt.Println(err)

	// A transaction of DB itself has no limit, and everybody waits for it.
	tx, err := store.DB().BeginTx(ctx, nil)
	fail(err)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = client.Enqueue(short, Webhook.New(Event{ID: "e2"}, nexjob.Options{}))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	fmt.Println(regexp.MustCompile(`waited \d+ms`).ReplaceAllString(err.Error(), "waited 200ms"))
	fail(tx.Rollback())
	// Output:
	// sqlite: in tx: the transaction held the file for longer than 100ms and was rolled back: keep slow work, such as calls of other services, out of it, and enqueue in it with Client.In, for Client.Enqueue waits until it ends (sql: transaction has already been committed or rolled back)
	// true
	// nexjob: enqueue: sqlite: enqueue: waited 200ms for the file: another writer holds it, such as another process, an open sqlite3 shell, or a transaction begun on DB or on a pool of your own; end that sooner, or wait longer: context deadline exceeded
}

// A transaction of the user's own connections that begins with a read can no longer
// write once another has written.
func Example_deferred() {
	folder, remove := temporary()
	defer remove()
	ctx := context.Background()
	path := filepath.Join(folder, "shop.db")
	store, err := sqlite.Open(ctx, path, sqlite.Options{
		Synchronous: sqlite.Normal, // see Durability
		BusyTimeout: time.Second,
		TxLimit:     2 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { fail(store.Close()) }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	db, err := sql.Open("sqlite", path)
	fail(err)
	defer func() { fail(db.Close()) }()

	tx, err := db.BeginTx(ctx, nil)
	fail(err)
	tables := 0
	fail(tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables))
	_, err = client.Enqueue(ctx, Webhook.New(Event{ID: "e1"}, nexjob.Options{}))
	fail(err)
	_, err = client.In(sqlite.Tx(tx)).Enqueue(ctx, Webhook.New(Event{ID: "e2"}, nexjob.Options{}))
	fmt.Println(err)
	fail(tx.Rollback())

	held, err := store.DB().BeginTx(ctx, nil)
	fail(err)
	_, err = db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER)`)
	fmt.Println(err)
	fail(held.Rollback())

	// InTx begins it so that it may write, on connections of any kind.
	err = sqlite.InTx(ctx, db, func(tx *sql.Tx) error {
		_, err := client.In(sqlite.Tx(tx)).Enqueue(ctx, Webhook.New(Event{ID: "e2"}, nexjob.Options{}))
		return err
	})
	fmt.Println(err)
	// Output:
	// nexjob: enqueue: sqlite: enqueue: the transaction has read before it wrote, and others have written since: SQLite will never let it write; use sqlite.InTx, or begin it IMMEDIATE (_txlock=immediate) (take the write lock: database is locked (517))
	// database is locked (5) (SQLITE_BUSY)
	// <nil>
}

// Foreign keys between the user's tables: a row that is refused takes its job with it.
func Example_foreignKeys() {
	folder, remove := temporary()
	defer remove()
	ctx := context.Background()
	path := filepath.Join(folder, "shop.db")
	store, err := sqlite.Open(ctx, path, sqlite.Options{ForeignKeys: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { fail(store.Close()) }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{})

	_, err = store.DB().ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY);
		CREATE TABLE lines (order_id INTEGER REFERENCES orders)`)
	fail(err)
	for _, order := range []int{1, 2} {
		err := sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error {
			if order == 1 {
				_, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (1)`)
				fail(err)
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO lines VALUES (?)`, order); err != nil {
				return err
			}
			_, err := client.In(sqlite.Tx(tx)).Enqueue(ctx, Webhook.New(Event{ID: "e1"}, nexjob.Options{}))
			return err
		})
		fmt.Println(err)
	}
	page, err := client.Find(ctx, nexjob.Query{})
	fmt.Println(len(page.Jobs), err)
	// Output:
	// <nil>
	// constraint failed: FOREIGN KEY constraint failed (787)
	// 1 <nil>
}

// What Open says of a file that it cannot use.
func TestOpenSaysWhatHelps(t *testing.T) {
	folder := t.TempDir()
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(folder, "no", "shop.db"): "its folder does not exist: make it first",
		folder:                                 "it is a folder: name a file in it",
		text:                                   "it holds something else than a SQLite database: name another file",
		":memory:":                             "use package memory, or a file in a temporary folder",
		"file:shop.db":                         "give the plain name of the file",
	} {
		store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err == nil {
			_ = store.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Pages of purged jobs are used again, but the file shrinks only by VACUUM.
func TestTheFileShrinksByVacuum(t *testing.T) {
	store, client, done := open("")
	defer done()
	ctx := t.Context()
	jobs := make([]nexjob.NewJob, 500)
	for i := range jobs {
		jobs[i] = Webhook.New(Event{ID: strings.Repeat("e", 4000)}, nexjob.Options{})
	}
	if _, err := client.EnqueueMany(ctx, jobs); err != nil {
		t.Fatal(err)
	}
	pages := func() (n int) {
		if err := store.DB().QueryRowContext(ctx, `PRAGMA page_count`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	full := pages()
	if _, err := client.Amend(ctx, nexjob.Query{Kinds: []string{Webhook.Name()}}, nexjob.Action{Act: nexjob.ActDelete}, nexjob.MaxPage); err != nil {
		t.Fatal(err)
	}
	if now := pages(); now < full {
		t.Errorf("%d pages, then %d", full, now)
	}
	if _, err := store.DB().ExecContext(ctx, `VACUUM`); err != nil {
		t.Fatal(err)
	}
	if now := pages(); now > full/4 {
		t.Errorf("%d pages, after VACUUM %d", full, now)
	}
}
