package main

import (
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
		file := filepath.Join(t.TempDir(), "bench.db")
		q, err := openOurs(t.Context(), file, mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.close() })
		peer, err := pool(file, mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = peer.Close() })
		want := map[string]string{
			"journal_mode": "wal", "synchronous": synchronous, "busy_timeout": "5000",
			"temp_store": "2", "journal_size_limit": "67108864",
		}
		mine, ok := q.(*our)
		if !ok {
			t.Fatalf("ours is a %T", q)
		}
		if diff := cmp.Diff(want, settings(t, mine.store.DB(), want)); diff != "" {
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
