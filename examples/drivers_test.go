package examples_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	_ "github.com/lib/pq"              // driver postgres
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/examples/internal/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/storagetest"
)

func connect(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// suite is where storagetest's stores stand: a schema for each, used again when it is empty.
type suite struct {
	pool *pgxpool.Pool
	db   *sql.DB // whose transactions are the callers'

	mu   sync.Mutex
	made int
	free []string
}

func (on *suite) schema() string {
	on.mu.Lock()
	defer on.mu.Unlock()
	if n := len(on.free); n > 0 {
		name := on.free[n-1]
		on.free = on.free[:n-1]
		return name
	}
	on.made++
	return fmt.Sprint("suite", on.made)
}

func (on *suite) empty(schema string) error {
	text := fmt.Sprintf(`UPDATE %s.nexjob_meta SET number = 0, text = '' WHERE name = 'pulse';`, schema)
	for _, table := range []string{"jobs", "keys", "leases", "attempts", "parents", "receipts", "entries"} {
		text += fmt.Sprintf(`DELETE FROM %s.nexjob_%s;`, schema, table)
	}
	if _, err := on.pool.Exec(context.Background(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	on.mu.Lock()
	defer on.mu.Unlock()
	on.free = append(on.free, schema)
	return nil
}

// handle is a store that knows its schema.
type handle struct {
	*postgres.Store
	schema string
}

func (on *suite) handle(t testing.TB, schema string, clock func() time.Time) handle {
	t.Helper()
	s, err := postgres.Wrap(t.Context(), on.pool, postgres.Options{Schema: schema, Migrate: true, Clock: clock, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return handle{s, schema}
}

func (on *suite) harness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			schema := on.schema()
			t.Cleanup(func() {
				if err := on.empty(schema); err != nil {
					t.Errorf("empty the tables: %v", err)
				}
			})
			return on.handle(t, schema, clock)
		},
		Second: func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
			h, ok := first.(handle)
			if !ok {
				t.Fatalf("%T is no handle", first)
			}
			return on.handle(t, h.schema, clock)
		},
		PassesBy: true,
		Begin: func(t testing.TB, _ nexjob.Storage) storagetest.Transaction {
			tx, err := on.db.BeginTx(context.WithoutCancel(t.Context()), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			return caller{tx}
		},
	}
}

type caller struct{ tx *sql.Tx }

func (c caller) Tx() nexjob.Tx   { return postgres.SQLTx(c.tx) }
func (c caller) Commit() error   { return c.tx.Commit() }
func (c caller) Rollback() error { return c.tx.Rollback() }

// TestLibPQ: callers' transactions of lib/pq pass what those of pgx pass.
func TestLibPQ(t *testing.T) {
	url := database(t, server(t), "pq")
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	storagetest.Run(t, (&suite{pool: pool, db: connect(t, "postgres", url)}).harness())
}

// TestBunRewrites: bun's own transaction loses the arguments of statements, which is said
// before anything is done.
func TestBunRewrites(t *testing.T) {
	url := database(t, server(t), "bun")
	store, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	err = bun.NewDB(connect(t, "pgx", url), pgdialect.New()).RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := client.In(postgres.SQLTx(tx)).Enqueue(ctx, shop.ChargeFor(1))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "bun calls tx.Tx") {
		t.Errorf("the answer is %v", err)
	}
}
