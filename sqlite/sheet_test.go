package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
)

// testStore opens a store from inside the package.
func testStore(t *testing.T, options Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStatementsAreUsed finds statements that nothing runs, names that mean none,
// and statements that the schema does not fit.
func TestStatementsAreUsed(t *testing.T) {
	s := testStore(t, Options{})
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	code := ""
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	for name, statement := range s.sheet {
		name, _, _ = strings.Cut(name, manyRows)
		if !strings.Contains(code, `"`+name+`"`) {
			t.Errorf("nothing runs %q", name)
		}
		plan(t.Context(), t, s, statement) // it can be prepared
	}
}

// plan is what SQLite means to do for a statement, without its numbers.
func plan(ctx context.Context, t *testing.T, s *Store, statement string, args ...any) string {
	t.Helper()
	for range strings.Count(statement, "?") - len(args) {
		args = append(args, "[]")
	}
	rows, err := s.db.QueryContext(ctx, "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatalf("plan of %s: %v", statement, err)
	}
	var b strings.Builder
	depths := map[int64]int{0: -1}
	err = eachRow(rows, func(v values) error {
		depths[v.int64(0)] = depths[v.int64(1)] + 1
		fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depths[v.int64(0)]+1), v.text(3))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPlans holds the way that every statement finds its rows.
func TestPlans(t *testing.T) {
	s := testStore(t, Options{})
	var b strings.Builder
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range s.sheet {
			if !strings.HasPrefix(name, "search ") && !strings.Contains(name, manyRows) && name != "count jobs" && !yield(name) {
				return
			}
		}
	}) {
		text := plan(t.Context(), t, s, s.sheet[name])
		for line := range strings.Lines(text) {
			if strings.Contains(line, "SCAN ") && !strings.Contains(line, "VIRTUAL TABLE") &&
				!strings.Contains(line, "CONSTANT ROW") && !strings.Contains(line, "USING INDEX nexjob_jobs_lease") {
				t.Errorf("%s walks over a whole table:\n%s", name, text)
			}
		}
		fmt.Fprintf(&b, "%s\n%s\n", name, text)
	}
	now, id := time.Unix(1000, 0), nexjob.NewID()
	for _, q := range []struct {
		name string
		of   nexjob.Query
	}{
		{"everything", nexjob.Query{}},
		{"IDs", nexjob.Query{IDs: []nexjob.ID{id}}},
		{"operations", nexjob.Query{Operations: []nexjob.ID{id}}},
		{"a key", nexjob.Query{Key: "k"}},
		{"a beginning of keys", nexjob.Query{KeyPrefix: "k"}},
		{"children", nexjob.Query{Parent: id}},
		{"tags", nexjob.Query{Tags: []string{"a"}}},
		{"any tag", nexjob.Query{AnyTags: []string{"a", "b"}}},
		{"failed", nexjob.Query{States: []nexjob.State{nexjob.Failed}}},
		{"processing", nexjob.Query{States: []nexjob.State{nexjob.Processing}}},
		{"uncertain", nexjob.Query{States: []nexjob.State{nexjob.Uncertain}}},
		{"retention", nexjob.Query{States: []nexjob.State{nexjob.Succeeded}, EndedBefore: now}},
		{"deadlines", nexjob.Query{States: []nexjob.State{nexjob.Enqueued, nexjob.Scheduled}, DeadlineBefore: now}},
	} {
		text, args := searchJobs(s.sheet, &q.of, now).page(10)
		fmt.Fprintf(&b, "search: %s\n%s\n", q.name, plan(t.Context(), t, s, text, args...))
	}
	golden(t, "testdata/plans.txt", b.String())
}

// TestSchema holds what the migrations make.
func TestSchema(t *testing.T) {
	s := testStore(t, Options{})
	golden(t, "testdata/schema.sql", schemaText(t, s.db))
}

// schemaText is the schema of a file as SQL.
func schemaText(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name`)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = eachRow(rows, func(v values) error {
		fmt.Fprintf(&b, "%s;\n\n", v.text(0))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares with a file; NEXJOB_UPDATE=1 writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("NEXJOB_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), NEXJOB_UPDATE=1 writes it anew:\n%s", path, diff)
	}
}
