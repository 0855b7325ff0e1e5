package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

func newest(t testing.TB) int64 {
	t.Helper()
	steps, err := postgres.Migrations(postgres.Options{})
	if err != nil || len(steps) == 0 {
		t.Fatal(err, len(steps))
	}
	return int64(len(steps))
}

// noted is what the tables say of their migrations.
func noted(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	return ask[string](t, pool, `SELECT string_agg(concat_ws(' ', version, name, checksum, min_code, applied_at), ';' ORDER BY version)
		FROM nexjob_migrations`)
}

// TestMigrateTwice: the second time there is nothing to do.
func TestMigrateTwice(t *testing.T) {
	t.Parallel()
	s := store(t)
	before := noted(t, s.Pool())
	if err := s.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := open(t, s.Pool().Config().ConnString(), postgres.Options{Migrate: true}).Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, noted(t, s.Pool())); diff != "" {
		t.Errorf("migrated again (-before +after):\n%s", diff)
	}
}

// TestMigrateAtOnce: eight that start together on an empty database all find it migrated,
// also where its schema is missing.
func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	for _, options := range []postgres.Options{{Migrate: true}, {Migrate: true, Schema: "jobs"}} {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := postgres.Open(t.Context(), url, options)
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		all.Wait()
	}
	pool := connect(t, url)
	if n := ask[int64](t, pool, `SELECT count(*) FROM jobs.nexjob_migrations`); n != newest(t) {
		t.Errorf("%d migrations are noted", n)
	}
}

// TestMigrateKilled: a migration whose server process ends in the middle leaves nothing,
// and the next one does it whole.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	pool := connect(t, url)
	// An event trigger ends the session in which the table of leases is being made.
	do(t, pool, `CREATE FUNCTION die() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF to_regclass('nexjob_leases') IS NOT NULL THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; END $$;
		CREATE EVENT TRIGGER killer ON ddl_command_end EXECUTE FUNCTION die()`)
	if _, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true}); err == nil || !nexjob.IsTransient(err) {
		t.Errorf("a migration whose session was ended: %v", err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM pg_class WHERE relname LIKE 'nexjob%'`); n != 0 {
		t.Errorf("%d things are left of a migration that was killed", n)
	}
	do(t, pool, `DROP EVENT TRIGGER killer`)
	s := open(t, url, postgres.Options{Migrate: true})
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{job("k")}); err != nil {
		t.Error(err)
	}
}

// TestWrongSchema: tables that this code did not make, or cannot run on, are refused.
func TestWrongSchema(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, want string }{
		"edited":          {`UPDATE nexjob_migrations SET checksum = 'other'`, "a migration is never edited"},
		"from the future": {`INSERT INTO nexjob_migrations VALUES (1000, 'later', '', 1000)`, "needs code that knows version 1000"},
	} {
		s := store(t)
		url := s.Pool().Config().ConnString()
		do(t, s.Pool(), c.change)
		for _, migrate := range []bool{false, true} {
			_, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: migrate})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "postgres: open: ") ||
				nexjob.IsTransient(err) {
				t.Errorf("a schema %s, migrate %v: %v", name, migrate, err)
			}
		}
		if _, err := postgres.SchemaOf(t.Context(), url, postgres.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a schema %s: %v", name, err)
		}
		if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a schema %s is migrated: %v", name, err)
		}
	}
	later := store(t)
	do(t, later.Pool(), `INSERT INTO nexjob_migrations VALUES (1000, 'later', '', 1)`)
	open(t, later.Pool().Config().ConnString(), postgres.Options{}) // newer, and made for older code too
}

// TestNotMigrated: an empty database is an error that says what to do.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	for _, options := range []postgres.Options{{}, {Schema: "jobs"}, {Prefix: "shop"}} {
		_, err := postgres.Open(t.Context(), url, options)
		if err == nil || !strings.Contains(err.Error(), "nexjob migrate") || !strings.Contains(err.Error(), "Options.Migrate") ||
			nexjob.IsTransient(err) || !strings.Contains(err.Error(), options.Prefix+options.Schema) {
			t.Errorf("%+v: %v", options, err)
		}
		if got, err := postgres.SchemaOf(t.Context(), url, options); err != nil || got.Version != 0 || got.Newest != newest(t) {
			t.Errorf("%+v: %+v, %v", options, got, err)
		}
	}
	if n := ask[int](t, connect(t, url), `SELECT count(*) FROM pg_class WHERE relname LIKE '%migrations'`); n != 0 {
		t.Error("looking has made tables")
	}
	for _, field := range []string{"schema", "prefix"} { // as the command takes them
		_, err := postgres.Open(t.Context(), url+"&"+field+"=jobs", postgres.Options{})
		if !errors.Is(err, nexjob.ErrInvalid) || !strings.Contains(err.Error(), field+" in the URL") {
			t.Errorf("%s in the URL: %v", field, err)
		}
	}
	for _, wrong := range []postgres.Options{{Schema: "a b"}, {Prefix: `x"`}, {Schema: strings.Repeat("s", 41)}} {
		if _, err := postgres.Open(t.Context(), url, wrong); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestMigrationsBySomebodyElse: tables that were made with the printed SQL are like any
// other, and Open finds nothing to do.
func TestMigrationsBySomebodyElse(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	pool := connect(t, url)
	do(t, pool, `CREATE SCHEMA jobs`)
	for _, options := range []postgres.Options{{}, {Schema: "jobs", Prefix: "Shop"}} {
		steps, err := postgres.Migrations(options)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			do(t, pool, "BEGIN;"+step.SQL+"COMMIT")
		}
		s := open(t, url, options)
		if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{job("k")}); err != nil {
			t.Error(err)
		}
	}
	before := noted(t, pool)
	open(t, url, postgres.Options{Migrate: true})
	if diff := cmp.Diff(before, noted(t, pool)); diff != "" {
		t.Errorf("Open migrated again (-before +after):\n%s", diff)
	}
}

// TestMigrateTo goes to a version and no further, and never back.
func TestMigrateTo(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	last := newest(t)
	for _, version := range []int64{-1, 0, last + 1} {
		if _, err := postgres.MigrateTo(t.Context(), url, postgres.Options{}, version); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("to %d: %v", version, err)
		}
	}
	for version := int64(1); version <= last; version++ {
		if from, err := postgres.MigrateTo(t.Context(), url, postgres.Options{}, version); from != version-1 || err != nil {
			t.Fatalf("to %d: from %d, %v", version, from, err)
		}
		if got, err := postgres.SchemaOf(t.Context(), url, postgres.Options{}); got.Version != version || err != nil {
			t.Fatalf("at %d: %+v, %v", version, got, err)
		}
	}
	if from, err := postgres.MigrateTo(t.Context(), url, postgres.Options{}, 1); from != last || err != nil {
		t.Errorf("back to 1: from %d, %v", from, err)
	}
}

// TestSideBySide: stores of other names in one database, on one pool, see nothing of each
// other, and a transaction of one is none of the other's.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	pool := connect(t, database(t, plain(t, 15)))
	var stores []*postgres.Store
	for _, options := range []postgres.Options{{}, {Prefix: "shop"}, {Schema: "jobs"}, {Schema: "jobs", Prefix: "Shop"}, {Schema: "Jobs"}} {
		options.Migrate = true
		s, err := postgres.Wrap(t.Context(), pool, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	for i, s := range stores {
		now := time.Now()
		if a, err := s.Enqueue(t.Context(), now, []nexjob.NewJob{job("k")}); err != nil || a[0].Outcome != nexjob.Created {
			t.Fatalf("store %d: %+v, %v", i, a, err)
		}
		if page, err := s.Find(t.Context(), now, nexjob.Query{}); err != nil || len(page.Jobs) != 1 {
			t.Errorf("store %d has %d jobs, %v", i, len(page.Jobs), err)
		}
		claimed, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: 9, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
		})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("store %d: %v, %d claimed", i, err, len(claimed))
		}
		ends := []nexjob.Settlement{{Lease: claimed[0].Job.Lease(), As: nexjob.EndSucceeded}}
		other := stores[(i+1)%len(stores)]
		if settled, err := other.Settle(t.Context(), now, ends); err != nil || !errors.Is(settled[0].Err, nexjob.ErrLeaseLost) {
			t.Errorf("store %d ends a job of its neighbour: %+v, %v", i, settled, err)
		}
		if settled, err := s.Settle(t.Context(), now, ends); err != nil || settled[0].Err != nil {
			t.Errorf("store %d: %+v, %v", i, settled, err)
		}
	}
}

// TestOpenStopped: a caller who gives up gets his own error, and nothing is half made.
func TestOpenStopped(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := postgres.Open(ctx, url, postgres.Options{Migrate: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("open with a context that has ended: %v", err)
	}
	if _, err := postgres.Open(t.Context(), "postgres://[", postgres.Options{}); err == nil || nexjob.IsTransient(err) {
		t.Errorf("open of no URL: %v", err)
	}
	if _, err := postgres.Open(t.Context(), fmt.Sprint(url, "_none"), postgres.Options{}); err == nil {
		t.Error("a database that is not there was opened")
	}
}
