package memory_test

import (
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

func inMemory() storagetest.Harness {
	return storagetest.Harness{
		Open: func(_ testing.TB, clock func() time.Time) nexjob.Storage {
			return memory.New(memory.Options{Clock: clock})
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

type caller struct{ own *memory.Tx }

func (c caller) Commit() error   { return c.own.Commit() }
func (c caller) Rollback() error { return c.own.Rollback() }

func (c caller) Tx() nexjob.Tx { return c.own }

func TestStorage(t *testing.T) { storagetest.Run(t, inMemory()) }

func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, inMemory(), 0) }
