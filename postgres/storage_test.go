package postgres_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/storagetest"
)

type place struct {
	schema string
	pool   *pgxpool.Pool
}

var places struct {
	sync.Mutex
	free []*place
}
var counter atomic.Int64

var url = os.Getenv("PGURL")

func open(t testing.TB, p *place, clock func() time.Time) *postgres.Store {
	s, err := postgres.Wrap(t.Context(), p.pool, postgres.Options{Schema: p.schema, Migrate: true, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func take(t testing.TB) *place {
	places.Lock()
	defer places.Unlock()
	if n := len(places.free); n > 0 {
		p := places.free[n-1]
		places.free = places.free[:n-1]
		return p
	}
	p := &place{schema: fmt.Sprintf("t%d_%d", os.Getpid(), counter.Add(1))}
	var err error
	if p.pool, err = pgxpool.New(context.Background(), url); err != nil {
		t.Fatal(err)
	}
	open(t, p, nil)
	if _, err := p.pool.Exec(t.Context(), fmt.Sprintf("CREATE UNIQUE INDEX one_active ON %s.nexjob_jobs (key) WHERE key IS NOT NULL AND state < 5", p.schema)); err != nil {
		t.Fatal(err)
	}
	return p
}

type opened struct {
	*postgres.Store
	p    *place
	over *atomic.Bool
}

func (o opened) Close() error {
	if o.over.Swap(true) {
		return nil
	}
	places.Lock()
	defer places.Unlock()
	err := o.Store.Close()
	if err != nil {
		return err
	}
	sql := ""
	for _, table := range []string{"jobs", "keys", "leases", "attempts", "parents", "receipts", "entries"} {
		sql += "DELETE FROM " + o.p.schema + ".nexjob_" + table + ";"
	}
	sql += "UPDATE " + o.p.schema + ".nexjob_meta SET number = 0, text = '' WHERE name = 'pulse'"
	if _, err := o.p.pool.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	places.free = append(places.free, o.p)
	return err
}

func harness(level pgx.TxIsoLevel) storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			p := take(t)
			s := opened{open(t, p, clock), p, new(atomic.Bool)}
			t.Cleanup(func() { s.Close() })
			return s
		},
		PassesBy: true,
		Second: func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
			return open(t, first.(opened).p, clock)
		},
		Begin: func(t testing.TB, s nexjob.Storage) storagetest.Transaction {
			tx, err := s.(opened).Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			return caller{tx}
		},
	}
}

type caller struct{ tx pgx.Tx }

func (c caller) Tx() nexjob.Tx   { return postgres.Tx(c.tx) }
func (c caller) Commit() error   { return c.tx.Commit(context.Background()) }
func (c caller) Rollback() error { return c.tx.Rollback(context.Background()) }

func TestStorage(t *testing.T) { storagetest.Run(t, harness(pgx.ReadCommitted)) }

func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, harness(pgx.ReadCommitted), 0) }

func inMemory() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			s := memory.New(memory.Options{Clock: clock})
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Begin: func(t testing.TB, s nexjob.Storage) storagetest.Transaction {
			m := s.(*memory.Store)
			tx, err := m.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return inMemoryTx{tx}
		},
	}
}

type inMemoryTx struct{ tx *memory.Tx }

func (x inMemoryTx) Tx() nexjob.Tx   { return x.tx }
func (x inMemoryTx) Commit() error   { return x.tx.Commit() }
func (x inMemoryTx) Rollback() error { return x.tx.Rollback() }

func TestCompare(t *testing.T) { storagetest.Compare(t, inMemory(), harness(pgx.ReadCommitted), 0) }
