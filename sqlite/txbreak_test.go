package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// TestRolledBackUnderTheCaller: SQLite ends a transaction by itself where a statement
// asks for it (ON CONFLICT ROLLBACK), at a full disk, or when a write is interrupted.
// A caller that overlooks the error would go on without a transaction, and a
// settlement would stand although the rows before it are gone. The step refuses.
func TestRolledBackUnderTheCaller(t *testing.T) {
	for name, spoil := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"by a constraint": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `INSERT OR ROLLBACK INTO orders VALUES (1)`)
			return err
		},
		"by hand": func(ctx context.Context, tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `ROLLBACK`); err != nil {
				return err
			}
			return errors.New("rolled back")
		},
		"by an interrupt": func(ctx context.Context, tx *sql.Tx) error {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			_, err := tx.ExecContext(short, `INSERT INTO orders WITH RECURSIVE n(i) AS
				(SELECT 10 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n`)
			return err
		},
	} {
		for _, first := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", after a step"}[first], func(t *testing.T) {
				s := shop(t, sqlite.Options{})
				ctx := t.Context()
				job := keyedJob("k")
				enqueue(t, s, job)
				claimed, err := s.Claim(ctx, time.Now(), nexjob.ClaimRequest{
					Worker: "w", N: 1, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
				})
				if err != nil || len(claimed) != 1 {
					t.Fatal(err, claimed)
				}
				err = s.InTx(ctx, func(tx *sql.Tx) error {
					if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (1)`); err != nil {
						return err
					}
					in, err := s.Join(sqlite.Tx(tx))
					if err != nil {
						return err
					}
					if first {
						if _, err := in.Enqueue(ctx, time.Now(), []nexjob.NewJob{keyedJob("gone")}); err != nil {
							return err
						}
					}
					if err := spoil(ctx, tx); err == nil {
						t.Fatal("nothing was spoilt")
					}
					_, _ = tx.ExecContext(ctx, `INSERT INTO orders VALUES (2)`) // overlooks that all is over
					settled, err := in.Settle(ctx, time.Now(), []nexjob.Settlement{{
						Lease: claimed[0].Job.Lease(), As: nexjob.EndSucceeded,
					}})
					if err == nil {
						t.Errorf("a settlement without a transaction is answered %+v", settled)
					}
					if _, err := in.Enqueue(ctx, time.Now(), []nexjob.NewJob{keyedJob("stray")}); err == nil {
						t.Error("an enqueue without a transaction is answered nil")
					}
					return nil // overlooks it again
				})
				if err == nil {
					t.Error("InTx says that all is well")
				}
				for _, j := range stored(t, s) {
					if j.State == nexjob.Succeeded || j.Key != "k" {
						t.Errorf("job %q is %s though the transaction is gone", j.Key, j.State)
					}
				}
				if n := orders(t, s); n != 0 {
					t.Errorf("%d orders stand, of a transaction that is gone", n)
				}
			})
		}
	}
}

// rewriting is a transaction like bun's, which writes arguments into statements and counts
// their places from 0.
type rewriting struct{ *sql.Tx }

func rewritten(query string, args []any) string {
	for i, arg := range args {
		query = strings.ReplaceAll(query, fmt.Sprint("?", i), fmt.Sprintf("'%v'", arg))
	}
	return query
}

func (r rewriting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return r.Tx.ExecContext(ctx, rewritten(query, args))
}

func (r rewriting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return r.Tx.QueryContext(ctx, rewritten(query, args))
}

// TestRewritingTransaction: a transaction that puts arguments elsewhere is refused before
// anything is done, with what to do.
func TestRewritingTransaction(t *testing.T) {
	s := shop(t, sqlite.Options{})
	err := s.InTx(t.Context(), func(tx *sql.Tx) error {
		return enqueueIn(t.Context(), s, rewriting{tx}, keyedJob("k"))
	})
	if err == nil || !strings.Contains(err.Error(), "bun calls tx.Tx") {
		t.Errorf("the answer is %v", err)
	}
	if n := len(stored(t, s)); n != 0 {
		t.Errorf("%d jobs are stored", n)
	}
}
