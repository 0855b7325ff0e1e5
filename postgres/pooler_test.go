package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/storagetest"
	"github.com/nexjob/nexjob/worker"
)

// unprepared is what makes pgx prepare nothing.
const unprepared = "default_query_exec_mode"

// behindPooler starts a server with pgbouncer in transaction mode before it.
func behindPooler(t *testing.T, options testenv.BouncerOptions) (*testenv.Postgres, *testenv.Bouncer) {
	t.Helper()
	server := ownServer(t, nil)
	pooler, err := testenv.StartBouncer(t.Context(), server, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	})
	return server, pooler
}

// aDatabase makes an empty database and returns its name.
func aDatabase(t *testing.T, server *testenv.Postgres) string {
	t.Helper()
	name := strings.ToLower(nexjob.NewID().String())
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestThroughPooler(t *testing.T) {
	server, pooler := behindPooler(t, testenv.BouncerOptions{PoolSize: 6})
	t.Run("who prepares statements is told", func(t *testing.T) { refusesToPrepare(t, server, pooler) })
	t.Run("a pooler with one session alone", func(t *testing.T) { refusesLater(t, server) })
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		t.Run("wake-ups by the server's own URL, "+mode, func(t *testing.T) { wakesBeside(t, server, pooler, mode) })
	}
	t.Run("polls where nothing can be heard", func(t *testing.T) { pollsBehind(t, server, pooler) })
	t.Run("migrations", func(t *testing.T) { migratesBehind(t, server, pooler) })
	name := aDatabase(t, server)
	t.Run("storage", func(t *testing.T) {
		storagetest.Races(t, newPooled(t, with(t, pooler.URL(name), unprepared, "exec", "pool_max_conns", "8")).harness())
	})
	t.Run("nothing of a session stays", func(t *testing.T) { leavesNothing(t, server, pooler, name) })
}

func refusesToPrepare(t *testing.T, server *testenv.Postgres, pooler *testenv.Bouncer) {
	url := pooler.URL(aDatabase(t, server))
	for range 3 {
		_, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true})
		if err == nil || !strings.Contains(err.Error(), "add default_query_exec_mode=exec to the URL") || nexjob.IsTransient(err) {
			t.Fatalf("open: %v", err)
		}
	}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true}); err == nil {
		t.Error("a pool whose connections prepare statements was wrapped")
	}
	if _, err := postgres.SchemaOf(t.Context(), url, postgres.Options{}); err == nil {
		t.Error("SchemaOf took a URL that Open refuses")
	}
}

// A pooler with one session cannot be caught at Open, and harms nobody until it has more.
func refusesLater(t *testing.T, server *testenv.Postgres) {
	pooler, err := testenv.StartBouncer(t.Context(), server, testenv.BouncerOptions{PoolSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = postgres.Open(t.Context(), pooler.URL(aDatabase(t, server)), postgres.Options{Migrate: true})
	if err != nil && !strings.Contains(err.Error(), "default_query_exec_mode=exec") {
		t.Errorf("open: %v", err)
	}
}

func wakesBeside(t *testing.T, server *testenv.Postgres, pooler *testenv.Bouncer, mode string) {
	name := aDatabase(t, server)
	url := with(t, pooler.URL(name), unprepared, mode)
	options := postgres.Options{ListenURL: server.URL(name)}
	_, started := served(t, url, options)
	conn, from := observer(t, server.URL(name)), client(openAt(t, url, options))
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	var took []time.Duration
	for n := range 20 {
		enqueue(t, from, n)
		at := time.Now()
		took = append(took, receive(t, seldom/4, "start", started).Sub(at).Round(time.Millisecond/10))
	}
	t.Log(took)
}

func pollsBehind(t *testing.T, server *testenv.Postgres, pooler *testenv.Bouncer) {
	for _, listen := range []string{"", "none"} {
		name := aDatabase(t, server)
		url := with(t, pooler.URL(name), unprepared, "exec")
		options := postgres.Options{ListenURL: listen}
		s := openAt(t, url, options)
		starts := make(chan int, 100)
		working(t, s, worker.Options{Poll: 50 * time.Millisecond}, func(_ context.Context, _ *worker.Run, n int) error {
			starts <- n
			return nil
		})
		from := client(openAt(t, url, options))
		for n := range 5 {
			enqueue(t, from, n)
			receive(t, 5*time.Second, "start", starts)
		}
		if n := number(t, observer(t, server.URL(name)), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"); n != 0 {
			t.Errorf("%d sessions of the pooler listen", n)
		}
	}
}

// childMigrates tells a process of this test what to migrate.
const childMigrates = "NEXJOB_TEST_MIGRATES"

// TestMigrateInChild is the process that migratesBehind starts.
func TestMigrateInChild(t *testing.T) {
	url := os.Getenv(childMigrates)
	if url == "" {
		return // it is only for the process that migratesBehind starts
	}
	if _, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true}); err != nil {
		t.Fatal(err)
	}
}

// migratesBehind lets two processes migrate through the pooler, of which the first is
// killed while it holds the lock and has done a part.
func migratesBehind(t *testing.T, server *testenv.Postgres, pooler *testenv.Bouncer) {
	name := aDatabase(t, server)
	url := with(t, pooler.URL(name), unprepared, "exec")
	conn := observer(t, server.URL(name))
	// The first stops in mid-step, at a table of a later statement's name that is being made.
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TABLE nexjob_entries (x int)"); err != nil {
		t.Fatal(err)
	}
	first := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMigrateInChild$")
	first.Env = append(os.Environ(), childMigrates+"="+url)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	watch := observer(t, server.URL(name))
	eventually(t, 20*time.Second, "the first in the middle", func() bool {
		return number(t, watch, `SELECT count(*) FROM pg_locks a JOIN pg_locks w ON w.pid = a.pid AND NOT w.granted
			WHERE a.locktype = 'advisory' AND a.granted`) > 0
	})
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	second := make(chan error, 1)
	go func() {
		s, err := postgres.Open(context.Background(), url, postgres.Options{Migrate: true})
		if err == nil {
			err = s.Close()
		}
		second <- err
	}()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, 20*time.Second, "the second migrates", second); err != nil {
		t.Fatal(err)
	}
	if n := number(t, watch, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); n != 0 {
		t.Errorf("%d advisory locks stay", n)
	}
	var group sync.WaitGroup
	other := postgres.Options{Schema: "together", Migrate: true}
	for range 4 {
		group.Go(func() {
			s, err := postgres.Open(context.Background(), url, other)
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	group.Wait()
}

// leavesNothing looks into the sessions that the pooler holds.
func leavesNothing(t *testing.T, server *testenv.Postgres, pooler *testenv.Bouncer, name string) {
	direct := observer(t, server.URL(name))
	if n := number(t, direct, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"); n != 0 {
		t.Errorf("%d advisory locks", n)
	}
	if n := number(t, direct, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"); n != 0 {
		t.Errorf("%d open transactions", n)
	}
	var open []pgx.Tx
	seen := make(map[int]bool)
	for range 6 { // as many as it holds, so each is one of them
		conn := observer(t, with(t, pooler.URL(name), unprepared, "exec"))
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
		seen[number(t, conn, "SELECT pg_backend_pid()")] = true
		if n := number(t, conn, "SELECT count(*) FROM pg_prepared_statements"); n != 0 {
			t.Errorf("%d prepared statements stay", n)
		}
		if n := number(t, conn, "SELECT count(*) FROM pg_listening_channels()"); n != 0 {
			t.Errorf("%d channels are listened to", n)
		}
		for setting, usual := range map[string]string{"lock_timeout": "0", "enable_seqscan": "on", "synchronous_commit": "on", "jit": "on"} {
			var is string
			if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&is); err != nil || is != usual {
				t.Errorf("%s stays %s, %v", setting, is, err)
			}
		}
	}
	if len(seen) != len(open) {
		t.Errorf("%d sessions seen", len(seen))
	}
	for _, tx := range open {
		_ = tx.Rollback(t.Context())
	}
}

// pooled is a database behind a pooler, whose schemas are emptied and used again.
type pooled struct {
	pool *pgxpool.Pool
	made atomic.Int64
	mu   sync.Mutex
	free []string
}

func newPooled(t *testing.T, url string) *pooled {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &pooled{pool: pool}
}

// pooledStore gives its schema back when it is closed.
type pooledStore struct {
	*postgres.Store
	schema string
}

func (p *pooled) harness() storagetest.Harness {
	return storagetest.Harness{
		PassesBy: true,
		Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
			p.mu.Lock()
			schema := ""
			if n := len(p.free); n > 0 {
				schema, p.free = p.free[n-1], p.free[:n-1]
			}
			p.mu.Unlock()
			if schema == "" {
				schema = fmt.Sprintf("s%d", p.made.Add(1))
			}
			s := pooledStore{p.open(t, schema, clock), schema}
			t.Cleanup(func() { p.empty(t, s) })
			return s
		},
		Second: func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage {
			s, ok := first.(pooledStore)
			if !ok {
				t.Fatalf("not one of these stores: %T", first)
			}
			return p.open(t, s.schema, clock)
		},
		Begin: func(t testing.TB, _ nexjob.Storage) storagetest.Transaction {
			tx, err := p.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return pooledTx{tx}
		},
	}
}

func (p *pooled) open(t testing.TB, schema string, clock func() time.Time) *postgres.Store {
	t.Helper()
	s, err := postgres.Wrap(t.Context(), p.pool, postgres.Options{Schema: schema, Migrate: true, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *pooled) empty(t testing.TB, s pooledStore) {
	_ = s.Close()
	var sql strings.Builder
	for _, table := range []string{"jobs", "keys", "leases", "attempts", "parents", "receipts", "entries"} {
		fmt.Fprintf(&sql, "DELETE FROM %s.nexjob_%s;", s.schema, table)
	}
	fmt.Fprintf(&sql, "UPDATE %s.nexjob_meta SET number = 0, text = '' WHERE name = 'pulse'", s.schema)
	if _, err := p.pool.Exec(context.Background(), sql.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Error(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, s.schema)
}

type pooledTx struct{ tx pgx.Tx }

func (c pooledTx) Tx() nexjob.Tx   { return postgres.Tx(c.tx) }
func (c pooledTx) Commit() error   { return c.tx.Commit(context.Background()) }
func (c pooledTx) Rollback() error { return c.tx.Rollback(context.Background()) }
