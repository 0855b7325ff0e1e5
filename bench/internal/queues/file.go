package queues

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/nexjob/nexjob/sqlite"
)

// pool opens a file for a peer: with the driver, the journal, the cache, the
// checkpoints and the durability of nexjob's own connections, so that what differs is
// the queue. It is one connection, for which each peer has its reason.
func pool(at Place) (*sql.DB, error) {
	settings := url.Values{
		"_pragma": {
			"busy_timeout(5000)",
			"journal_mode(wal)",
			fmt.Sprintf("synchronous(%s)", map[sqlite.Synchronous]string{
				sqlite.Full: "full", sqlite.Normal: "normal",
			}[at.Mode]),
			"cache_size(-16384)",
			"temp_store(memory)",
			"wal_autocheckpoint(4000)",
			"journal_size_limit(67108864)",
		},
		"_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(at.At)+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, nil
}

// number reads one number.
func number(ctx context.Context, db *sql.DB, query string) (int, error) {
	n := 0
	err := db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}
