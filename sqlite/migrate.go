package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema. It runs once, whole, and is never edited:
// its checksum is kept in the file.
type migration struct {
	version  int64
	name     string
	text     string
	checksum string
	// minCode is the newest migration that code must know to run on the schema after
	// this one: code that is a version behind goes on working.
	minCode int64
}

// readMigrations returns the migrations in order.
func readMigrations(files fs.FS) ([]migration, error) {
	paths, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile(`^migrations/(\d{4})_([a-z0-9_]+)\.sql$`)
	headed := regexp.MustCompile(`^-- min-code: (\d+)\n`)
	var all []migration
	for i, path := range paths { // Glob sorts
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		name, head := named.FindStringSubmatch(path), headed.FindSubmatch(data)
		if name == nil || head == nil {
			return nil, fmt.Errorf("%s: want NNNN_word.sql that begins with -- min-code: N", path)
		}
		m := migration{name: name[2], text: string(data)}
		sum := sha256.Sum256(data)
		m.checksum = hex.EncodeToString(sum[:])
		if m.version, err = strconv.ParseInt(name[1], 10, 64); err != nil {
			return nil, err
		}
		if m.minCode, err = strconv.ParseInt(string(head[1]), 10, 64); err != nil {
			return nil, err
		}
		if m.version != int64(i)+1 || m.minCode < 1 || m.minCode > m.version {
			return nil, fmt.Errorf("%s: versions go up by one, and min-code is at most the version", path)
		}
		all = append(all, m)
	}
	return all, nil
}

const migrationsTable = `CREATE TABLE IF NOT EXISTS nexjob_migrations (
  version     INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL,
  checksum    TEXT    NOT NULL,
  min_code    INTEGER NOT NULL,
  applied_at  INTEGER NOT NULL
) STRICT`

// migrate brings the schema up to date in one transaction that holds the file's
// write lock: several processes do it one after the other, and one that dies in the
// middle leaves nothing behind.
func migrate(ctx context.Context, db *sql.DB, all []migration, now time.Time) error {
	if done, err := migrated(ctx, db, all); done || err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, migrationsTable); err != nil {
		return err
	}
	at, err := applied(ctx, tx, all)
	if err != nil {
		return err
	}
	for _, m := range all[min(at, int64(len(all))):] {
		if _, err := tx.ExecContext(ctx, m.text); err != nil {
			return fmt.Errorf("%04d_%s: %w", m.version, m.name, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO nexjob_migrations VALUES (?, ?, ?, ?, ?)`,
			m.version, m.name, m.checksum, m.minCode, rules.Micro(now).UnixMicro()); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO nexjob_meta (name, text) VALUES ('store', ?)
		ON CONFLICT (name) DO NOTHING`, nexjob.NewID().String()); err != nil {
		return err
	}
	return tx.Commit()
}

// migrated looks, without the lock, whether there is nothing to do.
func migrated(ctx context.Context, db *sql.DB, all []migration) (bool, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	var tables int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'nexjob_migrations'`).Scan(&tables)
	if err != nil || tables == 0 {
		return false, err
	}
	at, err := applied(ctx, tx, all)
	return at >= int64(len(all)), err
}

// applied returns the newest version of the file, or why this code must not use it.
func applied(ctx context.Context, tx *sql.Tx, all []migration) (int64, error) {
	rows, err := tx.QueryContext(ctx, `SELECT version, name, checksum, min_code FROM nexjob_migrations ORDER BY version`)
	if err != nil {
		return 0, err
	}
	newest, minCode := int64(0), int64(0)
	err = eachRow(rows, func(v values) error {
		newest, minCode = v.int64(0), v.int64(3)
		if newest > int64(len(all)) {
			return nil
		}
		if m := &all[newest-1]; m.checksum != v.text(2) {
			return fmt.Errorf("migration %04d_%s was applied with another text than this code has; "+
				"a migration is never edited", newest, v.text(1))
		}
		return nil
	})
	if err == nil && minCode > int64(len(all)) {
		err = fmt.Errorf("the file's schema is at version %d and needs code that knows version %d; "+
			"this code knows %d: update it", newest, minCode, len(all))
	}
	return newest, err
}

// useWAL switches the file to a write-ahead log, once in its life. SQLite answers
// busy without waiting when another process does the same.
func useWAL(ctx context.Context, db *sql.DB) error {
	for {
		var mode string
		err := db.QueryRowContext(ctx, `PRAGMA journal_mode = wal`).Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file stays in journal mode %q; a write-ahead log is wanted", mode)
		case !isBusy(err):
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return errors.Join(err, errors.New("the file stays busy"))
		}
	}
}

// pause waits on a timer and the context together.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
