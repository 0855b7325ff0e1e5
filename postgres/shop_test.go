package postgres_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"log/slog"
	"net"
	address "net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// shop is a store with a table of the user's own beside it, and connections of the user's
// own to both.
type shop struct {
	store  *postgres.Store
	client *nexjob.Client
	pool   *pgxpool.Pool
	db     *sql.DB
	wire   *wireCutter // between the user's connections and the server
}

func openShop(t testing.TB, url string) *shop {
	t.Helper()
	store, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Pool().Exec(t.Context(), `DROP TABLE IF EXISTS orders; CREATE TABLE orders (n bigint)`); err != nil {
		t.Fatal(err)
	}
	s := &shop{store: store, wire: newWireCutter(t, url)}
	s.client = nexjob.NewClient(store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.client.Close(context.Background()) })
	if s.pool, err = pgxpool.New(t.Context(), s.wire.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pool.Close)
	s.db = stdlib.OpenDBFromPool(s.pool)
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

// count answers a number that SQL asks for, beside all transactions of the user's.
func (s *shop) count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := s.store.Pool().QueryRow(context.WithoutCancel(t.Context()), query, args...).Scan(&n); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return n
}

func (s *shop) orders(t testing.TB) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM orders`)
}

func (s *shop) jobs(t testing.TB) int {
	t.Helper()
	return s.count(t, `SELECT count(*) FROM nexjob_jobs`)
}

// openTx is a transaction of one of the ways.
type openTx struct {
	tx   nexjob.Tx
	exec func(ctx context.Context, query string) error
}

// way is a way into a transaction that a helper commits.
type way struct {
	name string
	in   func(ctx context.Context, s *shop, f func(tx openTx) error) error
}

func ofPgx(tx pgx.Tx) openTx {
	return openTx{postgres.Tx(tx), func(ctx context.Context, query string) error {
		_, err := tx.Exec(ctx, query)
		return err
	}}
}

func ofSQL(tx *sql.Tx) openTx {
	return openTx{postgres.SQLTx(tx), func(ctx context.Context, query string) error {
		_, err := tx.ExecContext(ctx, query)
		return err
	}}
}

func ways() []way {
	return []way{
		{"pgx", func(ctx context.Context, s *shop, f func(tx openTx) error) error {
			return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error { return f(ofPgx(tx)) })
		}},
		{"database/sql", func(ctx context.Context, s *shop, f func(tx openTx) error) error {
			return postgres.InSQLTx(ctx, s.db, func(tx *sql.Tx) error { return f(ofSQL(tx)) })
		}},
	}
}

// The moments at which a wireCutter cuts.
const (
	notAtAll int32 = iota
	beforeCommit
	afterCommit // the server has answered, and the client does not hear it
)

// wireCutter stands between a client and the server, and cuts a connection at its next commit.
type wireCutter struct {
	url  string
	cut  atomic.Int32
	cuts atomic.Int32
}

func newWireCutter(t testing.TB, to string) *wireCutter {
	t.Helper()
	at, err := address.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := new(wireCutter)
	behind := at.Host
	at.Host = listener.Addr().String()
	w.url = at.String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(context.Background(), "tcp", behind)
			if err != nil {
				_ = client.Close()
				continue
			}
			running.Go(func() { w.serve(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	return w
}

func (w *wireCutter) serve(client, server net.Conn) {
	closed := func(c net.Conn) { _ = c.Close() } // of a cut wire nobody asks how it was
	defer closed(client)
	defer closed(server)
	var deaf atomic.Bool
	var answers sync.WaitGroup
	defer answers.Wait()
	defer closed(server)
	answers.Go(func() {
		defer closed(client)
		pass(client, server, func([]byte) bool { return !deaf.Load() })
	})
	pass(server, client, func(sent []byte) bool {
		if !bytes.Contains(bytes.ToLower(sent), []byte("commit\x00")) {
			return true
		}
		how := w.cut.Swap(notAtAll)
		if how != notAtAll {
			w.cuts.Add(1)
		}
		deaf.Store(how == afterCommit)
		return how != beforeCommit
	})
}

// pass hands on what from sends for as long as it may.
func pass(to io.Writer, from io.Reader, may func([]byte) bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !may(buffer[:n]) {
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
