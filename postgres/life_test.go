package postgres_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	neturl "net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// ownServer is a server that a test may stop, start and change.
func ownServer(t *testing.T, settings map[string]string) *testenv.Postgres {
	t.Helper()
	// Settings, however few, make it a private one.
	all := map[string]string{"max_connections": "100"}
	maps.Copy(all, settings)
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{Settings: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// newDatabase makes an empty database and returns its URL.
func newDatabase(t *testing.T, server *testenv.Postgres) string {
	t.Helper()
	name := strings.ToLower(nexjob.NewID().String())
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// with adds a parameter to a URL.
func with(t *testing.T, url string, parameters ...string) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(parameters); i += 2 {
		q.Set(parameters[i], parameters[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// openAt opens a store on migrated tables, which the test's end closes.
func openAt(t *testing.T, url string, options postgres.Options) *postgres.Store {
	t.Helper()
	options.Migrate = true
	s, err := postgres.Open(t.Context(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// observer is a connection of the test's own.
func observer(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// number asks for one number.
func number(t *testing.T, conn *pgx.Conn, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const listeners = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'nexjob listen' AND datname = current_database()`

// eventually waits until something holds, and fails after a limit.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(limit)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s: not within %s", what, limit)
		case <-look.C:
		}
	}
}

// take receives, and fails after a limit.
func receive[T any](t *testing.T, limit time.Duration, what string, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(limit):
		t.Fatalf("%s: not within %s", what, limit)
		panic("unreachable")
	}
}

// working runs a worker until the test ends, before its stores are closed. It calls handle
// for each job.
func working(t *testing.T, store nexjob.Storage, options worker.Options, handle func(ctx context.Context, run *worker.Run, n int) error) *worker.Worker {
	t.Helper()
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	w := worker.New(store, options)
	worker.Handle(w, numbered(), handle)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !strings.Contains(err.Error(), "left") {
			t.Error(err)
		}
	})
	return w
}

func numbered() nexjob.Kind[int] { return nexjob.KindOf[int]("numbered", nexjob.Defaults{}) }

// enqueue adds one job.
func enqueue(t *testing.T, c *nexjob.Client, n int) nexjob.ID {
	t.Helper()
	answer, err := c.Enqueue(t.Context(), numbered().New(n, nexjob.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return answer.ID
}

func client(s nexjob.Storage) *nexjob.Client { return nexjob.NewClient(s, nexjob.ClientOptions{}) }

// goroutines lists those of a package.
func goroutines(of string) []string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	var found []string
	for one := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(one, of) {
			found = append(found, one)
		}
	}
	return found
}

// gate stands between a client and a server. Frozen, it forwards nothing more on what is
// connected, and says nothing: as where a network drops packets.
type gate struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	frozen chan struct{} // closed: what is connected hangs
	conns  []net.Conn
}

func newGate(t *testing.T, url string) (g *gate, through string) {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g = &gate{listener: listener, to: u.Host, frozen: make(chan struct{})}
	var group sync.WaitGroup
	group.Go(func() { g.accept(&group) })
	t.Cleanup(func() {
		_ = listener.Close()
		g.mu.Lock()
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.mu.Unlock()
		group.Wait()
	})
	u.Host = listener.Addr().String()
	return g, u.String()
}

func (g *gate) accept(group *sync.WaitGroup) {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", g.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		g.mu.Lock()
		frozen := g.frozen
		g.conns = append(g.conns, in, out)
		g.mu.Unlock()
		group.Go(func() { forward(in, out, frozen) })
		group.Go(func() { forward(out, in, frozen) })
	}
}

func forward(to io.WriteCloser, from io.Reader, frozen <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-frozen:
			return // nothing is closed
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// freeze hangs what is connected; who connects later is served.
func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.frozen)
	g.frozen = make(chan struct{})
}
