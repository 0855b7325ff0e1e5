package guide_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// startPostgres starts a server for a test, with an empty database.
func startPostgres(t *testing.T) (server *testenv.Postgres, url string) {
	t.Helper()
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	return server, server.URL("shop")
}

// as is a URL of the same database for another role.
func as(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func run(t *testing.T, pool *pgxpool.Pool, text string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

const roles = `
	CREATE ROLE owner LOGIN;
	CREATE ROLE app LOGIN;
	CREATE SCHEMA jobs AUTHORIZATION owner`

const grants = `
	GRANT USAGE ON SCHEMA jobs TO app;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA jobs TO app;
	GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA jobs TO app;
	ALTER DEFAULT PRIVILEGES IN SCHEMA jobs GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO app;
	ALTER DEFAULT PRIVILEGES IN SCHEMA jobs GRANT USAGE, UPDATE ON SEQUENCES TO app`

// openAs opens the store as the page shows it.
func openAs(ctx context.Context, migrator, app string) (*postgres.Store, error) {
	store, err := postgres.Open(ctx, migrator, postgres.Options{Schema: "jobs", Migrate: true})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return postgres.Open(ctx, app, postgres.Options{Schema: "jobs"})
}

// TestPermissions: one role owns the tables, another that has the page's grants works on them.
func TestPermissions(t *testing.T) {
	_, address := startPostgres(t)
	admin := openPool(t, address)
	run(t, admin, roles)
	owner, app := as(t, address, "owner"), as(t, address, "app")
	if _, err := openAs(t.Context(), owner, app); err == nil {
		t.Error("a role without grants has opened the store")
	}
	run(t, openPool(t, owner), grants)
	store, err := openAs(t.Context(), owner, app)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { fail(store.Close()) }()
	workOnce(t, store)
	if err := store.Migrate(t.Context()); err != nil {
		t.Errorf("nothing is missing, and Migrate answers %v", err)
	}
}

// workOnce sends a job through a store, with each sort of step.
func workOnce(t *testing.T, store *postgres.Store) {
	t.Helper()
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	defer func() { fail(client.Close(context.Background())) }()
	failed := false
	stop := serve(store, Webhook, func(ctx context.Context, run *worker.Run, _ Event) error {
		if _, err := worker.Step(ctx, run, "look", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return err
		}
		if !failed {
			failed = true
			return worker.RetryAfter(1, errors.New("not yet"))
		}
		return nil
	})
	defer stop()
	answer, err := client.Enqueue(t.Context(), Webhook.New(Event{ID: "e1"}, nexjob.Options{IdempotencyKey: "e1"}))
	if err != nil {
		t.Fatal(err)
	}
	if ended := end(client, answer.ID); ended != "Succeeded" {
		t.Error(ended)
	}
	if _, err := client.Amend(t.Context(), nexjob.Query{IDs: []nexjob.ID{answer.ID}}, nexjob.Action{Act: nexjob.ActDelete}, 1); err != nil {
		t.Error(err)
	}
}

// TestBehindPgbouncer opens the store as the page shows it behind a pooler.
func TestBehindPgbouncer(t *testing.T) {
	server, direct := startPostgres(t)
	bouncer, err := testenv.StartBouncer(t.Context(), server, testenv.BouncerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bouncer.Close() })
	store, err := openBehind(t.Context(), bouncer.URL("shop"), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { fail(store.Close()) }()
	workOnce(t, store)
}

func openBehind(ctx context.Context, pooler, direct string) (*postgres.Store, error) {
	config, err := pgxpool.ParseConfig(pooler)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // prepares nothing
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return postgres.Wrap(ctx, pool, postgres.Options{Migrate: true, ListenURL: direct})
}

// again reports whether a transaction came to nothing because another got in its way.
func again(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "40001" || refused.Code == "40P01")
}

// reserve takes the last item of a stock and enqueues its delivery.
func reserve(ctx context.Context, pool *pgxpool.Pool, client *nexjob.Client, item string) error {
	for {
		err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`); err != nil {
				return err
			}
			left := 0
			if err := tx.QueryRow(ctx, `SELECT count FROM stock WHERE item = $1`, item).Scan(&left); err != nil {
				return err
			}
			if left == 0 {
				return fmt.Errorf("%s is sold out", item)
			}
			if _, err := tx.Exec(ctx, `UPDATE stock SET count = count - 1 WHERE item = $1`, item); err != nil {
				return err
			}
			_, err := client.In(postgres.Tx(tx)).Enqueue(ctx, Webhook.New(Event{ID: item}, nexjob.Options{}))
			return err
		})
		if !again(err) {
			return err
		}
	}
}

// TestReserve: of many who reserve at once, those that the stock holds get a delivery.
func TestReserve(t *testing.T) {
	_, address := startPostgres(t)
	store, err := postgres.Open(t.Context(), address, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { fail(store.Close()) }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	run(t, store.Pool(), `CREATE TABLE stock (item text PRIMARY KEY, count int); INSERT INTO stock VALUES ('lamp', 3)`)
	const callers = 6
	answers := make(chan error)
	for range callers {
		go func() { answers <- reserve(t.Context(), store.Pool(), client, "lamp") }()
	}
	soldOut := 0
	for range callers {
		switch err := <-answers; {
		case err == nil:
		case strings.Contains(err.Error(), "sold out"):
			soldOut++
		default:
			t.Error(err)
		}
	}
	page, err := client.Find(t.Context(), nexjob.Query{})
	if err != nil || len(page.Jobs) != 3 || soldOut != callers-3 {
		t.Errorf("%d jobs, %d sold out, %v", len(page.Jobs), soldOut, err)
	}
}
