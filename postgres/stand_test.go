package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/storagetest"
)

// stand is where the stores of a suite stand: a database with one pool of connections, so
// that they stay warm, and schemas that are emptied and used again, since a suite opens
// some thousands of stores.
type stand struct {
	url   string
	pool  *pgxpool.Pool
	db    *sql.DB
	level pgx.TxIsoLevel // of callers' transactions, and the default of every session

	mu   sync.Mutex
	free []string
	made int
}

// newStand makes a stand whose sessions, those of the engine too, have an isolation level
// as their default.
func newStand(t testing.TB, server *testenv.Postgres, level pgx.TxIsoLevel) *stand {
	t.Helper()
	at := &stand{url: database(t, server), level: level}
	at.pool = connect(t, at.url, func(c *pgxpool.Config) {
		c.MaxConns = 40 // the server's 300 are shared by all stands, and by other processes
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = string(level)
	})
	at.db = stdlib.OpenDBFromPool(at.pool)
	t.Cleanup(func() { _ = at.db.Close() })
	return at
}

// take gives a schema with empty, migrated tables.
func (at *stand) take(t testing.TB) string {
	t.Helper()
	at.mu.Lock()
	defer at.mu.Unlock()
	if n := len(at.free); n > 0 {
		schema := at.free[n-1]
		at.free = at.free[:n-1]
		return schema
	}
	at.made++
	schema := fmt.Sprint("t", at.made)
	s := at.wrap(t, schema, nil)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, at.pool, strings.ReplaceAll(assertions, "SCHEMA", schema))
	return schema
}

// assertions are what no moment of the tables may break. They live in tests alone.
const assertions = `CREATE UNIQUE INDEX one_active_job_per_key ON SCHEMA.nexjob_jobs (key) WHERE key IS NOT NULL AND state < 5`

// emptying makes tables as good as new.
const emptying = `DELETE FROM SCHEMA.nexjob_jobs; DELETE FROM SCHEMA.nexjob_keys; DELETE FROM SCHEMA.nexjob_leases;
	DELETE FROM SCHEMA.nexjob_attempts; DELETE FROM SCHEMA.nexjob_parents; DELETE FROM SCHEMA.nexjob_receipts;
	DELETE FROM SCHEMA.nexjob_entries; UPDATE SCHEMA.nexjob_meta SET number = 0, text = '' WHERE name = 'pulse'`

// giveBack empties a schema for the next store.
func (at *stand) giveBack(schema string) error {
	_, err := at.pool.Exec(context.Background(), strings.ReplaceAll(emptying, "SCHEMA", schema), pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	at.free = append(at.free, schema)
	return nil
}

// wrap is a handle on tables.
func (at *stand) wrap(t testing.TB, schema string, clock func() time.Time) *postgres.Store {
	t.Helper()
	s, err := postgres.Wrap(t.Context(), at.pool, postgres.Options{
		Schema: schema, Migrate: clock == nil, Clock: clock, ListenURL: "none",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// tenant is a store on a stand; with its end the schema is free for the next.
type tenant struct {
	*postgres.Store
	at     *stand
	schema string
	over   *atomic.Bool
}

// Close ends the store and gives its schema back.
func (s tenant) Close() error {
	if s.over.Swap(true) {
		return nil
	}
	return errors.Join(s.Store.Close(), s.at.giveBack(s.schema))
}

func tenantOf(t testing.TB, s nexjob.Storage) tenant {
	t.Helper()
	tenant, ok := s.(tenant)
	if !ok {
		t.Fatalf("%T is no store on a stand", s)
	}
	return tenant
}

// harness is what storagetest needs of a stand, with callers' transactions of pgx.
func (at *stand) harness() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			schema := at.take(t)
			s := tenant{at.wrap(t, schema, clock), at, schema, new(atomic.Bool)}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			return s
		},
		PassesBy:  true,
		Overtaken: true,
		Second: func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
			return at.wrap(t, tenantOf(t, first).schema, clock)
		},
		Begin: at.begin,
	}
}

// inAnotherProcess is a harness whose second handle is served by another process.
func (at *stand) inAnotherProcess() storagetest.Harness {
	h := at.harness()
	h.Second = func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
		return storagetest.Child(t, clock, childURL+"="+at.url, childSchema+"="+tenantOf(t, first).schema)
	}
	return h
}

// bySQL is a harness whose callers' transactions are those of database/sql.
func (at *stand) bySQL() storagetest.Harness {
	h := at.harness()
	h.Begin = at.beginSQL
	return h
}

func (at *stand) begin(t testing.TB, _ nexjob.Storage) storagetest.Transaction {
	t.Helper()
	tx, err := at.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: at.level})
	if err != nil {
		t.Fatal(err)
	}
	c := caller{tx}
	t.Cleanup(func() { _ = c.Rollback() })
	return c
}

type caller struct{ tx pgx.Tx }

func (c caller) Tx() nexjob.Tx   { return postgres.Tx(c.tx) }
func (c caller) Commit() error   { return c.tx.Commit(context.Background()) }
func (c caller) Rollback() error { return c.tx.Rollback(context.Background()) }

func (at *stand) beginSQL(t testing.TB, _ nexjob.Storage) storagetest.Transaction {
	t.Helper()
	levels := map[pgx.TxIsoLevel]sql.IsolationLevel{
		pgx.ReadUncommitted: sql.LevelReadUncommitted, pgx.ReadCommitted: sql.LevelReadCommitted,
		pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable,
	}
	tx, err := at.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: levels[at.level]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return sqlCaller{tx}
}

type sqlCaller struct{ tx *sql.Tx }

func (c sqlCaller) Tx() nexjob.Tx   { return postgres.SQLTx(c.tx) }
func (c sqlCaller) Commit() error   { return c.tx.Commit() }
func (c sqlCaller) Rollback() error { return c.tx.Rollback() }
