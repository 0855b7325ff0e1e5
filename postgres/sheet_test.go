package postgres_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
)

// TestStatementsAreUsed finds statements that nothing runs, names that mean none, and
// statements that the schema does not fit.
func TestStatementsAreUsed(t *testing.T) {
	t.Parallel()
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
	s := store(t)
	conn, err := s.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for name, text := range postgres.StatementTexts(s) {
		if _, isTable := strings.CutPrefix(name, "table "); isTable {
			continue
		}
		if !strings.Contains(code, `"`+name+`"`) && name != "wake" { // wake-ups are to come
			t.Errorf("nothing runs %q", name)
		}
		if name == "count jobs" {
			text += " GROUP BY 1, 2, 3"
		}
		if _, err := conn.Conn().Prepare(t.Context(), "test "+name, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, run := range regexp.MustCompile(`(?:sheet\[|\b(?:run|exec|jobs|hot)\(ctx, )"([a-z ]+)"`).FindAllStringSubmatch(code, -1) {
		if _, known := postgres.StatementTexts(s)[run[1]]; !known && run[1] != "table " {
			t.Errorf("no statement is called %q", run[1])
		}
	}
}

// schemaQuestions ask the catalogue what the migrations have made, in words that do not
// depend on the server's version.
const schemaQuestions = `
SELECT 'table ' || c.relname || coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', '') || E'\n' ||
  (SELECT string_agg('  ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) ||
      CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END || coalesce(' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid), '') ||
      CASE WHEN l.collname = 'default' THEN ' COLLATE default' ELSE '' END, E'\n' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE a.attrelid = c.oid AND a.attnum > 0) AS line, 1 AS sort, c.relname AS name
  FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
UNION ALL SELECT 'view ' || viewname || E'\n' || definition, 2, viewname FROM pg_views WHERE schemaname = current_schema()
UNION ALL SELECT indexdef, 3, indexname FROM pg_indexes WHERE schemaname = current_schema()
UNION ALL SELECT 'sequence ' || sequencename || ' ' || data_type || ' cache ' || cache_size, 4, sequencename
  FROM pg_sequences WHERE schemaname = current_schema()
UNION ALL SELECT 'function ' || p.oid::regprocedure::text || ' ' || p.provolatile::text || ' ' ||
    coalesce(array_to_string(p.proconfig, ', '), '') || ' ' || md5(p.prosrc), 5, p.proname
  FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
ORDER BY 2, 3`

// TestSchema holds what the migrations make, on every version of the server.
func TestSchema(t *testing.T) {
	t.Parallel()
	seen := make(map[int]string)
	for _, version := range testenv.Versions() {
		s := open(t, database(t, odd(t, version)), postgres.Options{Migrate: true})
		rows, err := s.Pool().Query(t.Context(), schemaQuestions)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line, name string
			var sort int
			if err := rows.Scan(&line, &sort, &name); err != nil {
				t.Fatal(err)
			}
			// Version 15 writes the table's name before each column of a view.
			seen[version] += strings.ReplaceAll(line, "nexjob_receipts.", "") + "\n"
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "testdata/schema.txt", seen[15])
	if diff := cmp.Diff(seen[15], seen[18]); diff != "" {
		t.Errorf("the schema on 15 and on 18 (-15 +18):\n%s", diff)
	}
	if strings.Contains(seen[15], "COLLATE default") {
		t.Error("a column is compared as the database's collation says")
	}
}

// golden compares with a file; NEXJOB_UPDATE=1 writes it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("NEXJOB_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
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
