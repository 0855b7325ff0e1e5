package cast

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/sqlite"
)

// StoreEnv names the variable of the environment that tells a process of the cast where
// the jobs are: a URL of PostgreSQL, or the path of a SQLite file. A command line would
// show a password to everybody on the machine.
const StoreEnv = "NEXJOB_DEMO_STORE"

// Premises are where the shop keeps its jobs and its books.
type Premises struct {
	Store  nexjob.Storage
	Client *nexjob.Client
	Books  shop.Books
}

// Open opens them; a URL of PostgreSQL names a schema as its search path. Whoever comes
// first makes the tables of the jobs.
func Open(ctx context.Context, at string, first bool) (*Premises, error) {
	p, options := &Premises{}, nexjob.ClientOptions{}
	if first { // the demo, whose standard error is for its progress
		options.Logger = slog.New(slog.DiscardHandler)
	}
	if !strings.HasPrefix(at, "postgres") {
		store, err := sqlite.Open(ctx, at, sqlite.Options{})
		if err != nil {
			return nil, fmt.Errorf("demo: open the storage: %w", err)
		}
		p.Store, p.Books = store, shop.OnSQLite(store)
		p.Client = nexjob.NewClient(store, options)
		return p, nil
	}
	store, err := postgres.Open(ctx, at, postgres.Options{Migrate: first})
	if err != nil {
		return nil, fmt.Errorf("demo: open the storage: %w", err)
	}
	p.Store, p.Books = store, shop.OnPostgres(store)
	p.Client = nexjob.NewClient(store, options)
	return p, nil
}

// openPatiently opens them for a process that was started while the server may be away.
func openPatiently(ctx context.Context, at string) (p *Premises, err error) {
	err = Patiently(ctx, func() error {
		p, err = Open(ctx, at, false)
		return err
	})
	return p, err
}

// Close closes them. By then every answer was given after its commit, and a client holds
// nothing but counts of decisions, so no error of theirs matters to anybody.
func (p *Premises) Close(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = p.Client.Close(closing)
	_ = p.Store.Close()
}
