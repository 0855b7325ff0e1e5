package ground

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres gives databases on one server.
type Postgres struct {
	url   *url.URL
	admin *pgx.Conn
	pid   int // of the server's first process; 0: not on this machine
	made  int // databases so far
	close func() error
}

var _ Ground = (*Postgres)(nil)

// UsePostgres takes a server that runs, which Close leaves alone. It refuses one whose
// commits do not reach the disk. The CPU is read where it runs on this machine.
func UsePostgres(ctx context.Context, at string) (*Postgres, error) {
	address, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	g := &Postgres{url: address, close: func() error { return nil }}
	if g.admin, err = pgx.Connect(ctx, at); err != nil {
		return nil, err
	}
	backend, durable := 0, false
	err = g.admin.QueryRow(ctx, `SELECT pg_backend_pid(), bool_and(setting = 'on')
		FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit')`).Scan(&backend, &durable)
	if err == nil && !durable {
		err = errors.New("fsync or synchronous_commit is off at the server: its commits do not reach the disk")
	}
	if err != nil {
		return nil, errors.Join(err, g.admin.Close(ctx))
	}
	if p, err := look(backend); err == nil && p.name == "postgres" {
		g.pid = p.parent
	}
	return g, nil
}

// Fresh makes a database, and lets the server write what it has not yet.
func (g *Postgres) Fresh(ctx context.Context) (at string, remove func() error, err error) {
	g.made++
	name := fmt.Sprintf("nexjob_bench_%d_%d", os.Getpid(), g.made)
	if _, err := g.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	kept := context.WithoutCancel(ctx)
	remove = func() error {
		_, err := g.admin.Exec(kept, "DROP DATABASE "+name+" WITH (FORCE)")
		return err
	}
	if _, err := g.admin.Exec(ctx, "CHECKPOINT"); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	address := *g.url
	address.Path = "/" + name
	return address.String(), remove, nil
}

// Tidy brings a database into the state that it has after a while of quiet: vacuumed,
// analyzed, and on the disk.
func (g *Postgres) Tidy(ctx context.Context, at string) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "VACUUM ANALYZE")
	if err == nil {
		_, err = conn.Exec(ctx, "CHECKPOINT")
	}
	return errors.Join(err, conn.Close(ctx))
}

// Hold opens a session that keeps a snapshot of a database until it is released, as a
// long report or a forgotten transaction does.
func (g *Postgres) Hold(ctx context.Context, at string) (release func(), err error) {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class")
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	kept := context.WithoutCancel(ctx)
	return func() { _ = conn.Close(kept) }, nil
}

// CPU is that of all processes of the server.
func (g *Postgres) CPU() (time.Duration, error) {
	if g.pid == 0 {
		return 0, nil
	}
	return groupCPU(g.pid)
}

// Close ends the server, if it was started here.
func (g *Postgres) Close() error {
	return errors.Join(g.admin.Close(context.Background()), g.close())
}
