package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

func levels() []pgx.TxIsoLevel {
	return []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
}

func TestStorage(t *testing.T) {
	t.Parallel()
	for _, version := range []int{15, 18} {
		for _, level := range levels() {
			t.Run(fmt.Sprint(version, " ", level), func(t *testing.T) {
				storagetest.Run(t, newStand(t, plain(t, version), level).harness())
			})
		}
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
	storagetest.Races(t, newStand(t, plain(t, 15), pgx.ReadCommitted).inAnotherProcess())
}

func TestLinearizable(t *testing.T) {
	storagetest.Linearizable(t, newStand(t, plain(t, 15), pgx.ReadCommitted).harness(), 0)
}

func TestLinearizableInTwoProcesses(t *testing.T) {
	storagetest.Linearizable(t, newStand(t, plain(t, 15), pgx.ReadCommitted).inAnotherProcess(), 0)
}
