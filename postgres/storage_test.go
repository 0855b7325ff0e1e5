package postgres_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

func levels() []pgx.TxIsoLevel {
	return []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
}

// longProof is whether the long proof runs: see storagetest and make proof.
func longProof() bool { return os.Getenv("NEXJOB_HISTORIES") != "" }

// TestStorage tries the whole contract at the isolation level that is PostgreSQL's own
// default, and what depends on a caller's transaction at every level on every version.
// make proof tries the whole of it everywhere.
func TestStorage(t *testing.T) {
	t.Parallel()
	whole := map[string]bool{"15 read committed": true} // make proof: all
	for _, version := range testenv.Versions() {
		for _, level := range levels() {
			name := fmt.Sprint(version, " ", level)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newStand(t, plain(t, version), level).harness()
				if whole[name] || longProof() {
					storagetest.Run(t, h)
					return
				}
				storagetest.InTransactions(t, h)
			})
		}
	}
}

// TestStorageInSQL: callers' transactions of database/sql.
func TestStorageInSQL(t *testing.T) {
	t.Parallel()
	for _, level := range levels() {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			storagetest.InTransactions(t, newStand(t, plain(t, 15), level).bySQL())
		})
	}
}

func inMemory() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			s := memory.New(memory.Options{Clock: clock})
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Begin: func(t testing.TB, s nexjob.Storage) storagetest.Transaction {
			m, ok := s.(*memory.Store)
			if !ok {
				t.Fatalf("%T is no memory store", s)
			}
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

func TestCompare(t *testing.T) {
	storagetest.Compare(t, inMemory(), newStand(t, plain(t, 15), pgx.ReadCommitted).harness(), 0)
}

func TestRacesInTwoProcesses(t *testing.T) {
	t.Parallel()
	storagetest.Races(t, newStand(t, plain(t, 15), pgx.ReadCommitted).inAnotherProcess())
}

func TestLinearizable(t *testing.T) {
	t.Parallel()
	storagetest.Linearizable(t, newStand(t, plain(t, 15), pgx.ReadCommitted).harness(), 0)
}

func TestLinearizableInTwoProcesses(t *testing.T) {
	t.Parallel()
	storagetest.Linearizable(t, newStand(t, plain(t, 15), pgx.ReadCommitted).inAnotherProcess(), 0)
}
