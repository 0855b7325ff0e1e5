package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// TestForeignTransaction: a transaction of another database is refused by its first step,
// with or without tables like ours there, and the answer names that alone as the remedy.
func TestForeignTransaction(t *testing.T) {
	t.Parallel()
	s, other, bare := store(t), store(t), connect(t, database(t, plain(t, 15)))
	for what, begin := range map[string]func() (pgx.Tx, error){
		"with tables":    func() (pgx.Tx, error) { return other.Pool().Begin(t.Context()) },
		"without tables": func() (pgx.Tx, error) { return bare.Begin(t.Context()) },
	} {
		tx, err := begin()
		if err != nil {
			t.Fatal(err)
		}
		_, err = client(s).In(postgres.Tx(tx)).Enqueue(t.Context(), numbered().New(1, nexjob.Options{}))
		if err == nil || !strings.Contains(err.Error(), "begin it where the store was opened") || strings.Contains(err.Error(), "Migrate") ||
			nexjob.IsTransient(err) {
			t.Errorf("%s: %v", what, err)
		}
		if err := tx.Rollback(t.Context()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
			t.Error(err)
		}
	}
}
