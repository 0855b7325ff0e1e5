package demo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/internal/testenv"
)

// PrivateServer as Options.Store is a server of PostgreSQL that is started for the run.
const PrivateServer = "postgres"

// place is the database of a run.
type place struct {
	at     string            // as cast.StoreEnv tells it
	name   string            // for people
	server *testenv.Postgres // started for the run
	schema string            // on a server
	kept   bool              // the schema stays
}

// newPlace finds the database of a run. leave must be called, whatever becomes of it.
func newPlace(ctx context.Context, o *Options, dir string) (*place, error) {
	switch o.Store {
	case "":
		return &place{at: filepath.Join(dir, "demo.db"), name: "a SQLite file"}, nil
	case PrivateServer:
		return privateServer(ctx)
	}
	p := &place{kept: o.Keep != ""}
	return p, p.on(o.Store)
}

// privateServer starts a server whose commits reach the disk, as those of one that counts do.
func privateServer(ctx context.Context) (*place, error) {
	server, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{
		Fsync:    true,
		Settings: map[string]string{"cluster_name": "nexjob-demo"}, // so it is ours, whatever the environment names
	})
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	p := &place{server: server}
	if err := p.on(server.URL("")); err == nil {
		_ = p.run(ctx, "CREATE EXTENSION IF NOT EXISTS amcheck SCHEMA public") // without it less is checked
	}
	p.name = fmt.Sprintf("a private PostgreSQL, process %d", server.PID())
	return p, nil
}

// on chooses a schema of a name of its own on a server.
func (p *place) on(server string) error {
	at, err := url.Parse(server)
	if err != nil {
		return fmt.Errorf("demo: the storage is no URL") // whose text may hold a password
	}
	id := nexjob.NewID()
	p.schema = "nexjob_demo_" + hex.EncodeToString(id[10:])
	q := at.Query()
	q.Set("search_path", p.schema+",public")
	at.RawQuery = q.Encode()
	p.at, p.name = at.String(), fmt.Sprintf("PostgreSQL at %s, schema %s", at.Host, p.schema)
	return nil
}

// run runs a statement on a connection of its own.
func (p *place) run(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, p.at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // what counts was answered
	_, err = conn.Exec(ctx, statement)
	return err
}

// codeNotPermitted is PostgreSQL's code for a right that is missing.
const codeNotPermitted = "42501"

// make makes the schema. After a refusal there is none to be dropped.
func (p *place) make(ctx context.Context) error {
	if p.schema == "" {
		return nil
	}
	if err := p.run(ctx, fmt.Sprintf("CREATE SCHEMA %q", p.schema)); err != nil {
		said, refused := errors.AsType[*pgconn.PgError](err)
		if _, away := errors.AsType[*pgconn.ConnectError](err); refused || away {
			p.schema = ""
		}
		if refused && said.Code == codeNotPermitted {
			err = fmt.Errorf("%w; the user needs GRANT CREATE ON DATABASE", err)
		}
		return fmt.Errorf("demo: make a schema for the run: %w", err)
	}
	return nil
}

// leave lets go of the database: a private server ends, and a schema on another is
// dropped unless it is to be kept.
func (p *place) leave(ctx context.Context) error {
	switch {
	case p.server != nil:
		return p.server.Close() //nolint:contextcheck // a private server ends, whatever else has ended
	case p.schema == "" || p.kept:
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cast.StopTime)
	defer cancel()
	if err := p.run(ctx, fmt.Sprintf("DROP SCHEMA IF EXISTS %q CASCADE", p.schema)); err != nil {
		return fmt.Errorf("demo: schema %s is left behind: %w", p.schema, err)
	}
	return nil
}

// away is how long a server that was killed stays away before it is started again.
const away = 500 * time.Millisecond

// Restart ends the server as a crash does, and starts it again a moment later.
func (p *place) Restart(ctx context.Context) (pid int, err error) {
	pid = p.server.PID()
	if err := p.server.Kill(); err != nil {
		return pid, err
	}
	pause := time.NewTimer(away)
	defer pause.Stop()
	select {
	case <-ctx.Done(): // it is closed soon
		return pid, context.Cause(ctx)
	case <-pause.C:
	}
	return pid, p.server.Start(ctx)
}
