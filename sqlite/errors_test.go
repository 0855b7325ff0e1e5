package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

// TestACallerThatWaitedInVainHearsForWhat: the end of a caller's patience names who held
// the file and what helps, and is still the end of its context.
func TestACallerThatWaitedInVainHearsForWhat(t *testing.T) {
	const (
		another = `waited \d+ms for the file: another writer holds it, .* sqlite3 shell, .* DB .*: context deadline exceeded$`
		ofInTx  = `waited \d+ms for the file: a transaction of InTx in this process holds it; .*: context deadline exceeded$`
	)
	s := testStore(t, Options{BusyTimeout: 10 * time.Millisecond})
	check := func(what, want string, step func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
		defer cancel()
		err := step(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !nexjob.IsTransient(err) ||
			errors.Is(err, nexjob.ErrOutcomeUnknown) || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s is answered %v, want %s", what, err, want)
		}
	}
	enqueue := func(ctx context.Context) error {
		_, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{charge("waits")})
		return err
	}
	inTx := func(ctx context.Context) error { return s.InTx(ctx, func(*sql.Tx) error { return nil }) }
	ownPool := func(ctx context.Context) error {
		own, err := sql.Open("sqlite", pathOfStore(t, s))
		if err != nil {
			return err
		}
		defer func() { _ = own.Close() }()
		return InTx(ctx, own, func(*sql.Tx) error { return nil })
	}

	release := hold(t, s)
	check("an enqueue beside a transaction of DB", `^sqlite: enqueue: `+another, enqueue)
	check("InTx beside a transaction of DB", `^sqlite: in tx: `+another, inTx)
	check("InTx of a pool beside a transaction of DB", `^sqlite: in tx: `+another, ownPool)
	release()

	err := s.InTx(t.Context(), func(*sql.Tx) error {
		check("an enqueue beside InTx", `^sqlite: enqueue: `+ofInTx, enqueue)
		check("InTx beside InTx", `^sqlite: in tx: `+ofInTx, inTx)
		check("InTx of a pool beside InTx", `^sqlite: in tx: `+another, ownPool)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := jobsStored(t, s); n != 0 {
		t.Errorf("%d jobs of callers that were answered an error are stored", n)
	}
}

func pathOfStore(t *testing.T, s *Store) string {
	t.Helper()
	var seq, name, path string
	if err := s.DB().QueryRowContext(t.Context(), `PRAGMA database_list`).Scan(&seq, &name, &path); err != nil {
		t.Fatal(err)
	}
	return path
}
