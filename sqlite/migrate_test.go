package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
)

// schemaOf is everything a file is made of.
func schemaOf(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT type || ' ' || name FROM sqlite_schema ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	if err := eachRow(rows, func(v values) error { all = append(all, v.text(0)); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMigrateTwice: a second run, or many at once, change nothing.
func TestMigrateTwice(t *testing.T) {
	s := testStore(t, Options{})
	before := schemaOf(t, s.db)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, schemaOf(t, s.db)); diff != "" {
		t.Errorf("schema (-before +after):\n%s", diff)
	}
}

// TestOpenANewFileAtOnce: stores that are opened at the same moment agree on the file.
func TestOpenANewFileAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	var wg sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		wg.Go(func() {
			s, err := Open(t.Context(), path, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = s.id
			_ = s.Close()
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("the file is called %q", ids)
			break
		}
	}
}

// TestMigrateOn: a later migration is added to a file; one that fails leaves nothing
// and is done by the next; code that is older goes on working if it may.
func TestMigrateOn(t *testing.T) {
	s := testStore(t, Options{})
	first := s.steps
	next := func(version, minCode int64, text string) migration {
		return migration{Version: version, Name: "next", Text: text, Checksum: fmt.Sprint("sum of ", text), MinCode: minCode}
	}
	run := func(all []migration) error { return migrate(t.Context(), s.db, all, time.Now()) }
	broken := append(first[:1:1], next(2, 1, "CREATE TABLE nexjob_next (id); CREATE TABL"))
	before := schemaOf(t, s.db)
	if err := run(broken); err == nil || !strings.Contains(err.Error(), "0002_next") {
		t.Fatalf("a broken migration is answered %v", err)
	}
	if diff := cmp.Diff(before, schemaOf(t, s.db)); diff != "" {
		t.Fatalf("a broken migration left (-before +after):\n%s", diff)
	}
	second := append(first[:1:1], next(2, 1, "CREATE TABLE nexjob_next (id)"))
	third := append(second[:2:2], next(3, 3, "CREATE TABLE nexjob_third (id)"))
	for _, all := range [][]migration{second, second, first} {
		if err := run(all); err != nil {
			t.Fatalf("code that knows %d versions: %v", len(all), err)
		}
	}
	edited := append(first[:1:1], next(2, 1, "CREATE TABLE nexjob_other (id)"))
	if err := run(edited); err == nil || !strings.Contains(err.Error(), "never edited") {
		t.Errorf("an edited migration is answered %v", err)
	}
	if err := run(third); err != nil {
		t.Fatal(err)
	}
	if err := run(second); err == nil || !strings.Contains(err.Error(), "needs code that knows version 3") {
		t.Errorf("code that is too old is answered %v", err)
	}
	if err := s.Migrate(t.Context()); err == nil {
		t.Error("a store that is too old migrates")
	}
}

func TestOpenRefuses(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{"", ":memory:", "file::memory:?cache=shared", "file:" + folder + "/a.db"} {
		if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.HasPrefix(err.Error(), "sqlite: open: path") {
			t.Errorf("open %q: %v", path, err)
		}
	}
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, remedy := range map[string]string{
		filepath.Join(folder, "none", "a.db"): "make it first",
		folder:                                "name a file in it",
		text:                                  "name another file",
	} {
		_, err := Open(t.Context(), path, Options{})
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("open %q: %v, want %q", path, err, remedy)
		}
	}
	path := filepath.Join(folder, "a.db")
	for _, o := range []Options{{Synchronous: 2}, {BusyTimeout: -1}, {TxLimit: 2 * time.Hour}} {
		if _, err := Open(t.Context(), path, o); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("open with %+v: %v", o, err)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(folder, "none", "a.db"), Options{}); !nexjob.IsTransient(err) {
		t.Errorf("open in a folder that is not there: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ended, path, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("open under a context that has ended: %v", err)
	}
}

// TestOddPaths: a file may be called what the system allows.
func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b.db", "a?b=c.db", "a#b.db", "a%20b.db", "ü+&.db", "-.db"} {
		path := filepath.Join(t.TempDir(), name)
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got string
		if err := s.db.QueryRowContext(t.Context(), `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&got); err != nil {
			t.Error(err)
		}
		if filepath.Base(got) != name {
			t.Errorf("%s is kept in %s", name, got)
		}
		_ = s.Close()
	}
}

// TestFencesGrow: also when the file has forgotten the newest ones, as after a power
// failure under Normal or when it is put back from a backup.
func TestFencesGrow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	now := time.Now()
	var backup []byte
	last := int64(0)
	for range 4 {
		if backup != nil {
			if err := os.WriteFile(path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Second)
		s, err := Open(t.Context(), path, Options{Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := s.Enqueue(t.Context(), now, []nexjob.NewJob{charge("")}); err != nil {
				t.Fatal(err)
			}
			claimed, err := s.Claim(t.Context(), now, ask(1))
			if err != nil || len(claimed) != 1 {
				t.Fatal(err, claimed)
			}
			if fence := claimed[0].Job.Fence; fence <= last {
				t.Errorf("fence %d after %d", fence, last)
			}
			last = claimed[0].Job.Fence
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if backup == nil {
			if backup, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMigrateKeepsWhatRefersToATable: a step that makes a table anew deletes nothing of a
// user's, who should not refer to it but may.
func TestMigrateKeepsWhatRefersToATable(t *testing.T) {
	s := testStore(t, Options{ForeignKeys: true})
	exec := func(text string) {
		t.Helper()
		if _, err := s.db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	count := func(of string) (n int) {
		t.Helper()
		if err := s.db.QueryRowContext(t.Context(), `SELECT count(*) FROM `+of).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	exec(`CREATE TABLE notes (name TEXT REFERENCES nexjob_meta (name) ON DELETE CASCADE);
		INSERT INTO notes SELECT name FROM nexjob_meta WHERE name = 'store'`)
	anew := migration{Version: 2, Name: "anew", Checksum: "a", MinCode: 1, Text: `CREATE TABLE nexjob_anew AS
		SELECT * FROM nexjob_meta; DROP TABLE nexjob_meta; CREATE TABLE nexjob_meta (name TEXT PRIMARY KEY, text TEXT);
		INSERT INTO nexjob_meta SELECT name, text FROM nexjob_anew; DROP TABLE nexjob_anew`}
	if err := migrate(t.Context(), s.db, append(s.steps[:1:1], anew), time.Now()); err != nil {
		t.Fatal(err)
	}
	if n := count("notes"); n != 1 {
		t.Errorf("%d rows of the user's are left, want 1", n)
	}
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO notes VALUES ('nothing')`); err == nil {
		t.Error("after a migration foreign keys are not held any more")
	}
}

// TestSettings: the user's connections commit as Options say.
func TestSettings(t *testing.T) {
	for mode, want := range map[Synchronous]int64{Full: 2, Normal: 1} {
		s := testStore(t, Options{Synchronous: mode, BusyTimeout: 1234 * time.Millisecond, ForeignKeys: mode == Normal})
		foreignKeys := map[string]int64{"readers": 0, "DB": map[Synchronous]int64{Full: 0, Normal: 1}[mode]}
		var lane int64
		err := s.lane.conn.once(t.Context(), "PRAGMA synchronous", func(v values) error {
			lane = v.int64(0)
			return nil
		}, nil)
		if err != nil || lane != want {
			t.Errorf("synchronous of the lane is %d, want %d: %v", lane, want, err)
		}
		for name, on := range map[string]runner{"DB": s.db, "readers": s.readers} {
			for pragma, want := range map[string]int64{"synchronous": want, "busy_timeout": 1234, "foreign_keys": foreignKeys[name]} {
				rows, err := on.QueryContext(t.Context(), "PRAGMA "+pragma)
				if err != nil {
					t.Fatal(err)
				}
				if err := eachRow(rows, func(v values) error {
					if got := v.int64(0); got != want {
						t.Errorf("%s of %s is %d, want %d", pragma, name, got, want)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
