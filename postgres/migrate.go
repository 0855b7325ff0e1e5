package postgres

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/sqlstore"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const migrationsTable = `CREATE TABLE IF NOT EXISTS nexjob.migrations (
  version     bigint PRIMARY KEY,
  name        text   COLLATE "C" NOT NULL,
  checksum    text   COLLATE "C" NOT NULL,
  min_code    bigint NOT NULL,
  applied_at  timestamptz NOT NULL DEFAULT now()
)`

var errNotMigrated = lasting("its tables are not there: set Options.Migrate, or run nexjob migrate")

// migrate brings the schema up to a version, each step in a transaction of its own. One
// lock of the transaction makes processes do it one after the other, also through a
// pooler, and one that dies in the middle leaves nothing of its step behind.
func (s *Store) migrate(ctx context.Context, to int64) error {
	for {
		done, err := s.migrateOnce(ctx, to)
		if err != nil || done {
			return err
		}
	}
}

func (s *Store) migrateOnce(ctx context.Context, to int64) (done bool, err error) {
	// Who has waited for another's migration is to see it, whatever the session's default is.
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		from, err := s.version(ctx, tx)
		if done = from >= to; err != nil || done {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "nexjob "+s.names.channel()); err != nil {
			return err
		}
		if err := s.makeTable(ctx, tx); err != nil {
			return err
		}
		if from, err = s.version(ctx, tx); err != nil || from >= to {
			return err
		}
		m := &s.steps[from]
		if _, err := tx.Conn().PgConn().Exec(ctx, s.names.in(m.Text)).ReadAll(); err != nil {
			return fmt.Errorf("%04d_%s: %w", m.Version, m.Name, err)
		}
		_, err = tx.Exec(ctx, s.names.in(`INSERT INTO nexjob.migrations (version, name, checksum, min_code) VALUES ($1, $2, $3, $4)`),
			m.Version, m.Name, m.Checksum, m.MinCode)
		return err
	})
	return done, err
}

// makeTable makes the schema, where it was asked for and is missing, and the table of
// migrations.
func (s *Store) makeTable(ctx context.Context, tx pgx.Tx) error {
	var there bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)`, s.names.schema).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS "`+s.names.schema+`"`); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, s.names.in(migrationsTable))
	return err
}

// version returns the newest step that was applied, 0 for none, or why this code must not
// use the tables.
func (s *Store) version(ctx context.Context, tx pgx.Tx) (int64, error) {
	var there bool
	table := strings.ReplaceAll(s.names.in("nexjob.migrations"), "'", "''")
	if err := tx.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, table).Scan(&there); err != nil || !there {
		return 0, err
	}
	rows, err := tx.Query(ctx, s.names.in(`SELECT version, name, checksum, min_code FROM nexjob.migrations ORDER BY version`))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	newest, minCode, known := int64(0), int64(0), int64(len(s.steps))
	for rows.Next() {
		var name, checksum string
		if err := rows.Scan(&newest, &name, &checksum, &minCode); err != nil {
			return 0, err
		}
		if newest <= known && s.steps[newest-1].Checksum != checksum {
			return 0, lasting("migration %04d_%s was applied with another text than this code has; "+
				"a migration is never edited", newest, name)
		}
	}
	if err := rows.Err(); err != nil {
		return 0, err
	}
	if minCode > known {
		return 0, lasting("the schema is at version %d and needs code that knows version %d; this code knows %d: update it",
			newest, minCode, known)
	}
	return newest, nil
}

// ready refuses tables that are not there, or that this code cannot use.
func (s *Store) ready(ctx context.Context) error {
	version := int64(0)
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		version, err = s.version(ctx, tx)
		return err
	})
	switch {
	case err != nil:
		return err
	case version == 0:
		return fmt.Errorf("schema %q, prefix %q: %w", s.names.schema, s.names.prefix, errNotMigrated)
	case version < int64(len(s.steps)):
		return lasting("schema %q, prefix %q: its tables are at version %d of %d: set Options.Migrate, or run nexjob migrate",
			s.names.schema, s.names.prefix, version, len(s.steps))
	}
	return nil
}

// Migration is one step of the schema, for people who bring it up with a tool of their
// own.
type Migration struct {
	Version int64
	Name    string
	// SQL makes the step and notes it as applied, so that Open finds it done. It is to be
	// run in one transaction, once, and after the versions before it.
	SQL string
}

// Migrations returns all steps of the schema, oldest first, for the names that options
// choose: without a Schema, names are not qualified and stand where the search path says,
// which must be the same whenever they are run. Nothing is connected to.
func Migrations(options Options) ([]Migration, error) {
	n := names{schema: options.Schema, prefix: options.Prefix}
	if n.prefix == "" {
		n.prefix = "nexjob"
	}
	if n.schema == "" {
		n.schema = "public"
	}
	if err := n.check(); err != nil {
		return nil, wrap("migrations", err)
	}
	all, err := sqlstore.ReadMigrations(migrationFiles)
	if err != nil {
		return nil, wrap("migrations", err)
	}
	steps := make([]Migration, len(all))
	for i, m := range all {
		steps[i] = Migration{m.Version, m.Name, n.in(fmt.Sprintf("%s\n\n%s;\nINSERT INTO nexjob.migrations (version, name, checksum, min_code)\n  VALUES (%d, '%s', '%s', %d);\n",
			strings.TrimSpace(m.Text), migrationsTable, m.Version, m.Name, m.Checksum, m.MinCode))}
	}
	return steps, nil
}

// Schema is what SchemaOf finds.
type Schema struct {
	Version int64 // the newest migration that was applied; 0: none
	Newest  int64 // the newest that this code has
}

// SchemaOf looks at the tables without making, migrating or changing them.
func SchemaOf(ctx context.Context, url string, options Options) (Schema, error) {
	schema, err := schemaOf(ctx, url, options)
	return schema, wrap("schema", err)
}

func schemaOf(ctx context.Context, url string, options Options) (Schema, error) {
	s, err := closedStore(ctx, url, options)
	if err != nil {
		return Schema{}, err
	}
	defer s.pool.Close()
	found := Schema{Newest: int64(len(s.steps))}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		found.Version, err = s.version(ctx, tx)
		return err
	})
	return found, err
}

// MigrateTo brings the schema up to a version and answers the version that it found. A
// later one stays.
func MigrateTo(ctx context.Context, url string, options Options, version int64) (from int64, err error) {
	found, err := SchemaOf(ctx, url, options)
	if err != nil {
		return 0, err
	}
	if version < 1 || version > found.Newest {
		return 0, wrap("migrate", &nexjob.InvalidError{
			Field: "version", Why: fmt.Sprint(version), Remedy: fmt.Sprintf("1 to %d", found.Newest),
		})
	}
	s, err := closedStore(ctx, url, options)
	if err != nil {
		return 0, wrap("migrate", err)
	}
	defer s.pool.Close()
	return found.Version, wrap("migrate", s.migrate(ctx, version))
}

// closedStore is a store that serves nothing, for its names and steps.
func closedStore(ctx context.Context, url string, options Options) (*Store, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool}
	if err := s.named(ctx, options); err != nil {
		pool.Close()
		return nil, err
	}
	return s, nil
}
