package storagetest_test

import (
	"fmt"
	"os"
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

const childVariable = "STORAGETEST_CHILD"

// TestMain serves a memory store where a test of Child has started this process.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	err := storagetest.Serve(os.Stdin, os.Stdout, func(clock func() time.Time) (nexjob.Storage, error) {
		return memory.New(memory.Options{Clock: clock}), nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestChild races clients over a storage that lives in another process.
func TestChild(t *testing.T) {
	storagetest.Linearizable(t, storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			return storagetest.Child(t, clock, childVariable+"=1")
		},
	}, 50)
}

func TestStorage(t *testing.T) { storagetest.Run(t, mutated(inMemory())) }

func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, mutated(inMemory()), 0) }
