package storagetest_test

import (
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

// inMemory is the reference engine's harness, as an engine's own test file has it.
func inMemory() storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			s := memory.New(memory.Options{Clock: clock})
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
		Begin: func(t testing.TB, s nexjob.Storage) storagetest.Transaction {
			store, ok := s.(*memory.Store)
			if !ok {
				t.Fatalf("a transaction of a %T", s)
			}
			tx, err := store.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return caller{tx}
		},
	}
}

type caller struct{ tx *memory.Tx }

func (c caller) Tx() nexjob.Tx   { return c.tx }
func (c caller) Commit() error   { return c.tx.Commit() }
func (c caller) Rollback() error { return c.tx.Rollback() }

func TestStorage(t *testing.T) { storagetest.Run(t, mutated(inMemory())) }

func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, mutated(inMemory()), 0) }
