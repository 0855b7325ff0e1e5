package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
)

// plain opens a file as a stranger's tool does, without this package.
func plain(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// bySomebody brings up a file with the SQL that is printed for people's own tools.
func bySomebody(t *testing.T, path string) *sql.DB {
	t.Helper()
	steps, err := Migrations()
	if err != nil || len(steps) == 0 {
		t.Fatal(err, len(steps))
	}
	db := plain(t, path)
	for i, m := range steps {
		if m.Version != int64(i)+1 || m.Name == "" {
			t.Errorf("step %d is version %d, %q", i, m.Version, m.Name)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), m.SQL); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestMigrationsBySomebodyElse: a file that was brought up with the printed SQL is like
// any other, and Open finds nothing to do.
func TestMigrationsBySomebodyElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	db := bySomebody(t, path)
	golden(t, "testdata/schema.sql", schemaText(t, db))
	noted := func() []string {
		rows, err := db.QueryContext(t.Context(), `SELECT version || ' ' || name || ' ' || checksum || ' ' ||
			min_code || ' ' || applied_at FROM nexjob_migrations ORDER BY version`)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		if err := eachRow(rows, func(v values) error { all = append(all, v.text(0)); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := noted()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if diff := cmp.Diff(before, noted()); diff != "" || len(before) != len(s.steps) {
		t.Errorf("Open migrated again (-before +after):\n%s", diff)
	}
	if s.id == "" {
		t.Error("the file has no identity")
	}
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("order-1")}); err != nil {
		t.Error(err)
	}
	other, err := Open(t.Context(), closed(t, filepath.Join(t.TempDir(), "jobs.db")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if other.id == s.id {
		t.Error("two files that were brought up with the same SQL have one identity")
	}
}

// closed is a file that was brought up by somebody else, and let go.
func closed(t *testing.T, path string) string {
	t.Helper()
	if err := bySomebody(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSchemaOf: looking makes nothing and changes nothing.
func TestSchemaOf(t *testing.T) {
	folder := t.TempDir()
	steps, err := Migrations()
	if err != nil {
		t.Fatal(err)
	}
	newest := int64(len(steps))
	none := filepath.Join(folder, "none.db")
	empty := filepath.Join(folder, "empty.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(folder, "theirs.db")
	if _, err := plain(t, theirs).ExecContext(t.Context(), `CREATE TABLE orders (id INTEGER)`); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(folder, "ours.db")
	if from, err := MigrateTo(t.Context(), ours, newest); from != 0 || err != nil {
		t.Fatal(from, err)
	}
	for path, want := range map[string]Schema{
		none:   {Blank: true, Newest: newest},
		empty:  {Exists: true, Blank: true, Newest: newest},
		theirs: {Exists: true, Newest: newest},
		ours:   {Exists: true, Version: newest, Newest: newest},
	} {
		before, _ := os.ReadFile(path)
		got, err := SchemaOf(t.Context(), path)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", path, err, diff)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
	if _, err := plain(t, ours).ExecContext(t.Context(), `INSERT INTO nexjob_migrations VALUES (1000, 'later', '', 1000, 0)`); err != nil {
		t.Fatal(err)
	}
	if _, err := SchemaOf(t.Context(), ours); err == nil || !strings.Contains(err.Error(), "needs code that knows version 1000") {
		t.Errorf("a schema from the future: %v", err)
	}
	if _, err := MigrateTo(t.Context(), ours, newest); err == nil || !strings.HasPrefix(err.Error(), "sqlite: migrate: ") {
		t.Errorf("a schema from the future is migrated: %v", err)
	}
	for _, path := range []string{"", ":memory:", folder} {
		if _, err := SchemaOf(t.Context(), path); err == nil || !strings.HasPrefix(err.Error(), "sqlite: schema: ") {
			t.Errorf("schema of %q: %v", path, err)
		}
	}
}

// TestMigrateTo goes to a version and no further, and never back.
func TestMigrateTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	steps, err := Migrations()
	if err != nil {
		t.Fatal(err)
	}
	newest := int64(len(steps))
	for _, version := range []int64{-1, 0, newest + 1} {
		if _, err := MigrateTo(t.Context(), path, version); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("to %d: %v", version, err)
		}
	}
	at := int64(0)
	for version := int64(1); version <= newest; version++ {
		if from, err := MigrateTo(t.Context(), path, version); from != at || err != nil {
			t.Fatalf("to %d: from %d, %v", version, from, err)
		}
		at = version
		if got, err := SchemaOf(t.Context(), path); got.Version != at || err != nil {
			t.Fatalf("at %d: %+v, %v", at, got, err)
		}
	}
	if from, err := MigrateTo(t.Context(), path, 1); from != newest || err != nil {
		t.Errorf("back to 1: from %d, %v", from, err)
	}
	s := testStore(t, Options{})
	second := append(slices.Clip(s.steps),
		migration{Version: newest + 1, Name: "next", Text: "CREATE TABLE nexjob_next (id)", Checksum: "sum", MinCode: 1},
		migration{Version: newest + 2, Name: "third", Text: "CREATE TABLE nexjob_third (id)", Checksum: "sum", MinCode: 1})
	if from, err := migrateTo(t.Context(), s.db, second, newest+1, time.Now()); from != newest || err != nil {
		t.Errorf("one step on: from %d, %v", from, err)
	}
	if _, version, err := look(t.Context(), s.db, second); version != newest+1 || err != nil {
		t.Errorf("one step on: at %d, %v", version, err)
	}
}
