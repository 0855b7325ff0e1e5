package queues

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/sqlite"
)

// TestPeersAreSetAsWeAre keeps a peer from being measured at another durability than
// ours, which a misspelt setting would do in silence.
func TestPeersAreSetAsWeAre(t *testing.T) {
	for mode, synchronous := range map[sqlite.Synchronous]string{sqlite.Full: "2", sqlite.Normal: "1"} {
		at := Place{At: filepath.Join(t.TempDir(), "bench.db"), Mode: mode}
		q, err := OpenSQLite(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		peer, err := pool(at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = peer.Close() })
		want := map[string]string{
			"journal_mode": "wal", "synchronous": synchronous, "busy_timeout": "5000",
			"temp_store": "2", "journal_size_limit": "67108864",
		}
		if diff := cmp.Diff(want, settings(t, fileOf(q), want)); diff != "" {
			t.Errorf("ours (-want +got):\n%s", diff)
		}
		want["cache_size"], want["wal_autocheckpoint"] = "-16384", "4000" // of our writing connection alone
		if diff := cmp.Diff(want, settings(t, peer, want)); diff != "" {
			t.Errorf("peers (-want +got):\n%s", diff)
		}
	}
}

func settings(t *testing.T, db *sql.DB, names map[string]string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for name := range names {
		value := ""
		if err := db.QueryRowContext(t.Context(), "PRAGMA "+name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		got[name] = value
	}
	return got
}

// TestRawWritesWhatWeDo keeps the peer raw from leaving out rows: its tables hold as
// many as ours do, but for the keys.
func TestRawWritesWhatWeDo(t *testing.T) {
	rows := func(open Opener) map[string]int {
		counts := make(map[string]int)
		q, err := open(t.Context(), Place{At: filepath.Join(t.TempDir(), "bench.db")})
		if err == nil {
			err = q.AddMany(t.Context(), Orders(1, 100))
		}
		if err == nil {
			err = tally(t.Context(), q, counts)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
		return counts
	}
	mine, theirs := rows(OpenSQLite), rows(OpenRaw)
	for _, table := range []string{"nexjob_keys", "nexjob_meta", "nexjob_migrations", "nexjob_entries"} {
		delete(mine, table)
		delete(theirs, table)
	}
	for table, n := range mine { // raw has the example's rows too
		if n > 0 {
			mine[table]++
		}
	}
	if diff := cmp.Diff(mine, theirs); diff != "" {
		t.Errorf("rows in each table (-ours +raw):\n%s", diff)
	}
}

func tally(ctx context.Context, q Queue, counts map[string]int) error {
	var db *sql.DB
	switch q := q.(type) {
	case *Nexjob:
		db = fileOf(q)
	case *raw:
		db = q.db
	}
	tables, err := column(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'nexjob%'")
	for _, table := range tables {
		if err == nil {
			counts[table], err = number(ctx, db, "SELECT count(*) FROM "+table)
		}
	}
	return err
}

// fileOf is the file of nexjob on SQLite; nil on another engine.
func fileOf(q Queue) *sql.DB {
	if our, ok := q.(*Nexjob); ok {
		if store, ok := our.Storage.(*sqlite.Store); ok {
			return store.DB()
		}
	}
	return nil
}
