package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/storagetest"
)

// childFile is how a test tells the process it starts which file to serve.
const childFile = "NEXJOB_SQLITE_CHILD_FILE"

func TestMain(m *testing.M) {
	path := os.Getenv(childFile)
	if path == "" {
		os.Exit(m.Run())
	}
	play := serve
	if role := os.Getenv(childRole); role != "" {
		play = roles()[role]
	}
	if err := play(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(path string) error {
	return storagetest.Serve(os.Stdin, os.Stdout, func(clock func() time.Time) (nexjob.Storage, error) {
		return sqlite.Open(context.Background(), path, sqlite.Options{Clock: clock})
	})
}

// file names the file of a test.
func file(t testing.TB) string { return filepath.Join(t.TempDir(), "jobs.db") }

// open opens a store that the test's end closes.
func open(t testing.TB, path string, options sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// pathOf finds the file that a store lives in.
func pathOf(t testing.TB, s *sqlite.Store) string {
	t.Helper()
	var path string
	if err := s.DB().QueryRow(`SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

// storeOf is the engine's own type of a storage that the harness opened.
func storeOf(t testing.TB, s nexjob.Storage) *sqlite.Store {
	t.Helper()
	store, ok := s.(*sqlite.Store)
	if !ok {
		t.Fatalf("%T is no SQLite store", s)
	}
	return store
}

// assertions are what no moment of a file may break. They live in tests alone.
const assertions = `CREATE UNIQUE INDEX IF NOT EXISTS one_active_job_per_key ON nexjob_jobs (key)
	WHERE key IS NOT NULL AND state < 5`

// fresh returns a fresh harness's file, made once: the suite opens some thousands.
var fresh = func() func(t testing.TB) []byte {
	var once sync.Once
	var data []byte
	return func(t testing.TB) []byte {
		t.Helper()
		once.Do(func() { data = makeFresh(t) })
		if data == nil {
			t.Fatal("the file that all checks begin with could not be made")
		}
		return data
	}
}()

func makeFresh(t testing.TB) []byte {
	t.Helper()
	path := file(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.DB().ExecContext(t.Context(), assertions); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func onFile(second func(testing.TB, nexjob.Storage, func() time.Time) nexjob.Storage) storagetest.Harness {
	return storagetest.Harness{
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			path := file(t)
			if err := os.WriteFile(path, fresh(t), 0o600); err != nil {
				t.Fatal(err)
			}
			return open(t, path, sqlite.Options{Clock: clock, Synchronous: sqlite.Normal})
		},
		Second: second,
		Begin: func(t testing.TB, s nexjob.Storage) storagetest.Transaction {
			tx, err := storeOf(t, s).DB().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return caller{tx}
		},
	}
}

type caller struct{ tx *sql.Tx }

func (c caller) Tx() nexjob.Tx   { return sqlite.Tx(c.tx) }
func (c caller) Commit() error   { return c.tx.Commit() }
func (c caller) Rollback() error { return c.tx.Rollback() }

// inThisProcess is a second store on the file of the first.
func inThisProcess(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
	return open(t, pathOf(t, storeOf(t, first)), sqlite.Options{Clock: clock})
}

// inAnotherProcess is a store on the file of the first in a process of its own.
func inAnotherProcess(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
	return storagetest.Child(t, clock, childFile+"="+pathOf(t, storeOf(t, first)))
}

func TestStorage(t *testing.T) {
	t.Parallel() // with the long ones side by side
	storagetest.Run(t, onFile(inThisProcess))
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

func TestCompare(t *testing.T) { storagetest.Compare(t, inMemory(), onFile(nil), 0) }

func TestRacesInTwoProcesses(t *testing.T) { storagetest.Races(t, onFile(inAnotherProcess)) }

func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, onFile(inThisProcess), 0) }

func TestLinearizableInTwoProcesses(t *testing.T) {
	storagetest.Linearizable(t, onFile(inAnotherProcess), 0)
}
