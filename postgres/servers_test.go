package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/storagetest"
)

// How a test tells the process that it starts which tables are meant, and what to do with
// them if it is not to serve them.
const (
	childURL    = "NEXJOB_POSTGRES_CHILD_URL"
	childSchema = "NEXJOB_POSTGRES_CHILD_SCHEMA"
	childRole   = "NEXJOB_POSTGRES_CHILD_ROLE"
)

func TestMain(m *testing.M) {
	url := os.Getenv(childURL)
	if url == "" {
		code := m.Run()
		if err := servers.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	play := serve
	if role := os.Getenv(childRole); role != "" {
		play = roles()[role]
	}
	if err := play(url, os.Getenv(childSchema)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(url, schema string) error {
	return storagetest.Serve(os.Stdin, os.Stdout, func(clock func() time.Time) (nexjob.Storage, error) {
		return postgres.Open(context.Background(), url, postgres.Options{Schema: schema, Clock: clock, ListenURL: "none"})
	})
}

// servers are the private servers that tests share, each started by the first that wants it.
var servers = &fleet{started: make(map[string]*started)}

type fleet struct {
	mu      sync.Mutex
	started map[string]*started
}

type started struct {
	once   sync.Once
	server *testenv.Postgres
	err    error
}

// plain is a server of a version as it comes.
func plain(t testing.TB, version int) *testenv.Postgres {
	return servers.get(t, fmt.Sprint(version), testenv.PostgresOptions{Version: version})
}

// odd is a server with settings that somebody may have chosen, and without autovacuum, so
// that plans change only when a test says so.
func odd(t testing.TB, version int) *testenv.Postgres {
	return servers.get(t, fmt.Sprint("odd ", version), testenv.PostgresOptions{Version: version, Settings: map[string]string{
		"autovacuum": "off", "timezone": "Europe/Berlin", "datestyle": "German, DMY", "intervalstyle": "sql_standard",
		"bytea_output": "escape", "extra_float_digits": "-15",
	}})
}

func (f *fleet) get(t testing.TB, name string, options testenv.PostgresOptions) *testenv.Postgres {
	t.Helper()
	f.mu.Lock()
	s := f.started[name]
	if s == nil {
		s = new(started)
		f.started[name] = s
	}
	f.mu.Unlock()
	s.once.Do(func() { s.server, s.err = testenv.StartPostgres(context.Background(), options) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

func (f *fleet) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var failed []error
	for _, s := range f.started {
		if s.server != nil {
			failed = append(failed, s.server.Close())
		}
	}
	return errors.Join(failed...)
}

// database makes an empty database for a test and returns its URL.
func database(t testing.TB, server *testenv.Postgres) string {
	t.Helper()
	name := strings.ToLower(nexjob.NewID().String())
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// connect opens a pool that the test's end closes.
func connect(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// do runs SQL of the test's own, one or several statements.
func do(t testing.TB, pool *pgxpool.Pool, text string) {
	t.Helper()
	conn, err := pool.Acquire(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().Exec(context.WithoutCancel(t.Context()), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// ask answers one value of the test's own question.
func ask[T any](t testing.TB, pool *pgxpool.Pool, text string, args ...any) T {
	t.Helper()
	var answer T
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), text, args...).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// open opens a store that the test's end closes.
func open(t testing.TB, url string, options postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// store is a store in a database of its own on a plain server.
func store(t testing.TB) *postgres.Store {
	t.Helper()
	return open(t, database(t, plain(t, 15)), postgres.Options{Migrate: true})
}
