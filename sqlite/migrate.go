package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema.
type migration = sqlstore.Migration

const migrationsTable = `CREATE TABLE IF NOT EXISTS nexjob_migrations (
  version     INTEGER PRIMARY KEY,
  name        TEXT    NOT NULL,
  checksum    TEXT    NOT NULL,
  min_code    INTEGER NOT NULL,
  applied_at  INTEGER NOT NULL
) STRICT`

// migrate brings the schema up to the newest of all; see migrateTo.
func migrate(ctx context.Context, db *sql.DB, all []migration, now time.Time) error {
	_, err := migrateTo(ctx, db, all, int64(len(all)), now)
	return err
}

// migrateTo brings the schema up to a version in one transaction that holds the
// file's write lock: several processes do it one after the other, and one that dies in
// the middle leaves nothing behind. It answers the version that it found.
func migrateTo(ctx context.Context, db *sql.DB, all []migration, to int64, now time.Time) (from int64, err error) {
	if _, from, err = look(ctx, db, all); err != nil || from >= to {
		return from, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	// A step that makes a table anew must not seem to delete what a user's own refers to.
	// A connection changes that outside of transactions only; this one is not used again.
	defer func() { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }()
	if _, err := conn.ExecContext(ctx, `PRAGMA foreign_keys = off`); err != nil {
		return 0, err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, migrationsTable); err != nil {
		return 0, err
	}
	if from, err = applied(ctx, tx, all); err != nil {
		return 0, err
	}
	for _, m := range all[min(from, to):to] {
		if _, err := tx.ExecContext(ctx, m.Text); err != nil {
			return 0, fmt.Errorf("%04d_%s: %w", m.Version, m.Name, err)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO nexjob_migrations VALUES (?, ?, ?, ?, ?)`,
			m.Version, m.Name, m.Checksum, m.MinCode, rules.Micro(now).UnixMicro()); err != nil {
			return 0, err
		}
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO nexjob_meta (name, text) VALUES ('store', ?)
		ON CONFLICT (name) DO NOTHING`, nexjob.NewID().String()); err != nil {
		return 0, err
	}
	return from, tx.Commit()
}

// look reads, without the lock, how many things the file's schema holds, of anybody,
// and the newest version applied, 0 when there is none.
func look(ctx context.Context, db *sql.DB, all []migration) (things int, newest int64, err error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback()
	var ours int
	err = tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE name = 'nexjob_migrations')
		FROM sqlite_schema`).Scan(&things, &ours)
	if err != nil || ours == 0 {
		return things, 0, err
	}
	newest, err = applied(ctx, tx, all)
	return things, newest, err
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
		if m := &all[newest-1]; m.Checksum != v.text(2) {
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

// Migration is one step of the schema, for people who bring it up with a tool of
// their own.
type Migration struct {
	Version int64
	Name    string
	// SQL makes the step and notes it as applied, so that Open finds it done. It is
	// to be run in one transaction, once, and after the versions before it.
	SQL string
}

// Migrations returns all steps of the schema, oldest first. No file is opened.
func Migrations() ([]Migration, error) {
	all, err := sqlstore.ReadMigrations(migrationFiles)
	if err != nil {
		return nil, wrap("migrations", err)
	}
	steps := make([]Migration, len(all))
	for i, m := range all {
		steps[i] = Migration{m.Version, m.Name, bySomebodyElse(&m)}
	}
	return steps, nil
}

// bySomebodyElse is the step with what migrateTo writes beside it. Names and checksums
// hold nothing that SQL would have to quote.
func bySomebodyElse(m *migration) string {
	return fmt.Sprintf(`%s;

%s
INSERT INTO nexjob_migrations (version, name, checksum, min_code, applied_at)
  VALUES (%d, '%s', '%s', %d, CAST(strftime('%%s', 'now') AS INTEGER) * 1000000);

-- The identity of this file, once in its life.
INSERT INTO nexjob_meta (name, text) VALUES ('store', lower(
  hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-' || hex(randomblob(2)) || '-' ||
  hex(randomblob(2)) || '-' || hex(randomblob(6))))
  ON CONFLICT (name) DO NOTHING;
`, migrationsTable, m.Text, m.Version, m.Name, m.Checksum, m.MinCode)
}

// Schema is what SchemaOf finds.
type Schema struct {
	Exists  bool  // there is a file
	Blank   bool  // nothing is in it, of nexjob's or anybody's
	Version int64 // the newest migration that was applied; 0: none
	Newest  int64 // the newest that this code has; Open brings older ones up to it
}

// SchemaOf looks at the file without making, migrating or changing it. A file whose
// schema this code must not use is an error that says why.
func SchemaOf(ctx context.Context, path string) (Schema, error) {
	schema, err := inspect(ctx, path)
	if err != nil {
		return Schema{}, wrap("schema", err)
	}
	return schema, nil
}

func inspect(ctx context.Context, path string) (Schema, error) {
	all, err := sqlstore.ReadMigrations(migrationFiles)
	if err != nil {
		return Schema{}, err
	}
	file, err := location(path)
	if err != nil {
		return Schema{}, err
	}
	schema := Schema{Newest: int64(len(all)), Blank: true}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return schema, nil
	}
	// Under this mode SQLite makes no file, should it vanish at this moment.
	db, err := pool(file, url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(5000)"}, "_query_only": {"1"}}, nil)
	if err != nil {
		return Schema{}, err
	}
	defer func() { _ = db.Close() }() // it was only read
	things, version, err := look(ctx, db, all)
	if err != nil {
		return Schema{}, notOpened(path, err)
	}
	schema.Exists, schema.Blank, schema.Version = true, things == 0, version
	return schema, nil
}

// MigrateTo brings the schema of the file up to a version, making the file if there is
// none, and answers the version that it found. A later one stays. Open goes on to the
// newest by itself: this is for who looks at each step before the next.
func MigrateTo(ctx context.Context, path string, version int64) (from int64, err error) {
	from, err = migrateFile(ctx, path, version)
	return from, wrap("migrate", err)
}

func migrateFile(ctx context.Context, path string, to int64) (int64, error) {
	all, err := sqlstore.ReadMigrations(migrationFiles)
	if err != nil {
		return 0, err
	}
	if to < 1 || to > int64(len(all)) {
		return 0, &nexjob.InvalidError{
			Field: "version", Why: fmt.Sprint(to), Remedy: fmt.Sprintf("1 to %d", len(all)),
		}
	}
	file, err := location(path)
	if err != nil {
		return 0, err
	}
	db, err := pool(file, url.Values{"_pragma": {"busy_timeout(5000)"}, "_txlock": {"immediate"}}, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }() // what counts was committed
	if err := useWAL(ctx, db); err != nil {
		return 0, notOpened(path, err)
	}
	from, err := migrateTo(ctx, db, all, to, onewriter.HostClock(nil)())
	if err != nil {
		return 0, notOpened(path, err)
	}
	return from, nil
}
