package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

type orderArgs struct {
	N int `json:"n"`
}

func keyedOrder(key string) nexjob.NewJob {
	kind := nexjob.KindOf[orderArgs]("order", nexjob.Defaults{})
	return kind.New(orderArgs{N: 42}, nexjob.Options{IdempotencyKey: key})
}

func insertOrder(ctx context.Context, tx openTx) error {
	return tx.exec(ctx, `INSERT INTO orders VALUES (1)`)
}

// sale is an order and its job in a transaction, which then ends as it is told.
func (s *shop) sale(ctx context.Context, w way, key string, then func(tx openTx) error) error {
	return w.in(ctx, s, func(tx openTx) error {
		if err := insertOrder(ctx, tx); err != nil {
			return err
		}
		if _, err := s.client.In(tx.tx).Enqueue(ctx, keyedOrder(key)); err != nil {
			return err
		}
		return then(tx)
	})
}

// TestInTx: however f ends, the user's rows and the job stand together or not at all, and
// the answer says which.
func TestInTx(t *testing.T) {
	t.Parallel()
	url := server(t)
	mine := errors.New("no")
	for _, w := range ways() {
		tests := []struct {
			name string
			then func(t *testing.T, s *shop, cancel func(), tx openTx) error
			want error // also part of the text
			rows int
			not  error
		}{
			{"commits", func(*testing.T, *shop, func(), openTx) error { return nil }, nil, 1, nil},
			{"f's error", func(*testing.T, *shop, func(), openTx) error { return mine }, mine, 0, nil},
			{"the caller has left", func(_ *testing.T, _ *shop, cancel func(), _ openTx) error {
				cancel()
				return nil
			}, context.Canceled, 0, nexjob.ErrOutcomeUnknown},
			{"an error that f hides", func(t *testing.T, _ *shop, _ func(), tx openTx) error {
				_ = tx.exec(t.Context(), `SELECT 1/0`)
				return nil
			}, errors.New("roll it back and begin anew"), 0, nexjob.ErrOutcomeUnknown},
			{"nobody hears of the commit", func(_ *testing.T, s *shop, _ func(), _ openTx) error {
				s.wire.cut.Store(afterCommit)
				return nil
			}, nexjob.ErrOutcomeUnknown, 1, nil},
			{"the commit does not arrive", func(_ *testing.T, s *shop, _ func(), _ openTx) error {
				s.wire.cut.Store(beforeCommit)
				return nil
			}, nexjob.ErrOutcomeUnknown, 0, nil},
			{"idle for too long", func(t *testing.T, s *shop, _ func(), tx openTx) error {
				const idle = `SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = current_database()`
				err := tx.exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 1`)
				for s.count(t, idle) > 0 && t.Context().Err() == nil { //nolint:revive // until the server has ended it
				}
				return err
			}, errors.New("idle-in-transaction timeout"), 0, nexjob.ErrOutcomeUnknown},
		}
		for _, tt := range tests {
			t.Run(w.name+"/"+tt.name, func(t *testing.T) {
				s := openShop(t, url)
				before := s.jobs(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				err := s.sale(ctx, w, "", func(tx openTx) error { return tt.then(t, s, cancel, tx) })
				switch {
				case tt.want == nil && err == nil:
				case tt.want == nil || err == nil:
					t.Errorf("the answer is %v, want %v", err, tt.want)
				case !errors.Is(err, tt.want) && !strings.Contains(err.Error(), tt.want.Error()):
					t.Errorf("the answer is %v, want %v", err, tt.want)
				}
				if tt.want == mine && err != mine { //nolint:errorlint // it comes back as it is
					t.Errorf("f's error comes back as %v", err)
				}
				if tt.not != nil && errors.Is(err, tt.not) {
					t.Errorf("the answer is %v", err)
				}
				if rows, jobs := s.orders(t), s.jobs(t)-before; rows != tt.rows || jobs != tt.rows {
					t.Errorf("%d rows and %d jobs, want %d", rows, jobs, tt.rows)
				}
			})
		}
		t.Run(w.name+"/panic", func(t *testing.T) {
			s := openShop(t, url)
			before := s.jobs(t)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic is gone")
					}
				}()
				_ = s.sale(t.Context(), w, "", func(openTx) error { panic("no") })
			}()
			if rows, jobs := s.orders(t), s.jobs(t)-before; rows+jobs != 0 {
				t.Errorf("%d rows and %d jobs", rows, jobs)
			}
		})
	}
}

// TestInTxRings: workers of this process hear of a commit that made work, and of nothing else.
func TestInTxRings(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	rings, stop := s.store.Bell().Listen()
	defer stop()
	ctx := t.Context()
	add := func(tx nexjob.Tx) error {
		_, err := s.client.In(tx).Enqueue(ctx, keyedOrder(""))
		return err
	}
	tests := []struct {
		name string
		in   func() error
		want bool
	}{
		{"InTx", func() error { return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error { return add(postgres.Tx(tx)) }) }, true},
		{"Store.InTx", func() error { return s.store.InTx(ctx, func(tx pgx.Tx) error { return add(postgres.Tx(tx)) }) }, true},
		{"Store.InSQLTx", func() error {
			return s.store.InSQLTx(ctx, s.db, func(tx *sql.Tx) error { return add(postgres.SQLTx(tx)) })
		}, true},
		{"a savepoint", func() error {
			return s.store.InTx(ctx, func(tx pgx.Tx) error {
				return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return add(postgres.Tx(tx)) })
			})
		}, true},
		{"a step that locks", func() error {
			return s.store.InTx(ctx, func(tx pgx.Tx) error {
				parent, err := s.client.In(postgres.Tx(tx)).Enqueue(ctx, keyedOrder(""))
				if err != nil {
					return err
				}
				child := keyedOrder("")
				child.Parents = []nexjob.Parent{{ID: parent.ID}}
				_, err = s.client.In(postgres.Tx(tx)).Enqueue(ctx, child)
				return err
			})
		}, true},
		{"nothing was made", func() error {
			return s.store.InTx(ctx, func(tx pgx.Tx) error {
				_, err := s.client.In(postgres.Tx(tx)).Find(ctx, nexjob.Query{})
				return err
			})
		}, false},
		{"rolled back", func() error {
			_ = s.store.InTx(ctx, func(tx pgx.Tx) error { return errors.Join(add(postgres.Tx(tx)), errors.New("no")) })
			return nil
		}, false},
	}
	for _, tt := range tests {
		if err := tt.in(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		select {
		case <-rings:
			if !tt.want {
				t.Errorf("%s: it rang", tt.name)
			}
		default:
			if tt.want {
				t.Errorf("%s: it did not ring", tt.name)
			}
		}
	}
}

// TestInTxIsMarked: what would wait for the open transaction is refused at once, f cannot
// commit by itself, and the limit is the transaction's own.
func TestInTxIsMarked(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	config := s.pool.Config()
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	limit := func(on interface {
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	},
	) (text string) {
		if err := on.QueryRow(t.Context(), `SHOW idle_in_transaction_session_timeout`).Scan(&text); err != nil {
			t.Error(err)
		}
		return text
	}
	ctx, gate := nexjob.WithOpenTx(t.Context())
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		if got := limit(tx); got != "30s" {
			t.Errorf("the limit is %s", got)
		}
		if err := tx.Commit(ctx); err == nil {
			t.Error("f has committed")
		}
		for name, call := range map[string]func() error{
			"InTx":    func() error { return s.store.InTx(ctx, func(pgx.Tx) error { return nil }) },
			"InSQLTx": func() error { return s.store.InSQLTx(ctx, s.db, func(*sql.Tx) error { return nil }) },
			"Enqueue": func() error { _, err := s.client.Enqueue(ctx, keyedOrder("k")); return err },
		} {
			if err := call(); !errors.Is(err, nexjob.ErrInTransaction) {
				t.Errorf("%s inside the transaction is answered %v", name, err)
			}
		}
		_, err := s.client.In(postgres.Tx(tx)).Enqueue(ctx, keyedOrder("k"))
		return err
	})
	if err != nil || gate.Open() {
		t.Errorf("the answer is %v, and the transaction counts as open: %v", err, gate.Open())
	}
	if got := limit(pool); got != "0" {
		t.Errorf("after the transaction the limit is %s", got)
	}
	err = postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`)
		return err
	})
	if err != nil {
		t.Errorf("another level: %v", err)
	}
	if err := s.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.store.InTx(ctx, func(pgx.Tx) error { return nil }); !errors.Is(err, nexjob.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestEndedTransaction: a transaction that has ended runs nothing on its connection, which
// is somebody else's by then, whichever way the connection runs statements.
func TestEndedTransaction(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			ctx := t.Context()
			config := s.pool.Config()
			config.MaxConns = 1
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(ctx, config)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			begin := func() pgx.Tx {
				tx, err := pool.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return tx
			}
			first := begin()
			in := s.client.In(postgres.Tx(first))
			if _, err := in.Enqueue(ctx, keyedOrder("")); err != nil {
				t.Fatal(err)
			}
			savepoint, err := first.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			inSavepoint := s.client.In(postgres.Tx(savepoint))
			if _, err := inSavepoint.Enqueue(ctx, keyedOrder("")); err != nil {
				t.Fatal(err)
			}
			if err := savepoint.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := inSavepoint.Enqueue(ctx, keyedOrder("")); !errors.Is(err, nexjob.ErrClosed) {
				t.Errorf("a savepoint that was rolled back is answered %v", err)
			}
			before := s.jobs(t)
			if err := first.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			second := begin()
			defer func() { _ = second.Rollback(ctx) }()
			if second.Conn() != first.Conn() {
				t.Fatal("the second transaction has another connection")
			}
			for _, in := range []*nexjob.TxClient{in, inSavepoint} {
				if _, err := in.Enqueue(ctx, keyedOrder("")); !errors.Is(err, nexjob.ErrClosed) {
					t.Errorf("an enqueue in it is answered %v", err)
				}
				if _, err := in.Find(ctx, nexjob.Query{}); !errors.Is(err, nexjob.ErrClosed) {
					t.Errorf("a look in it is answered %v", err)
				}
			}
			if err := second.Commit(ctx); err != nil {
				t.Error(err)
			}
			if n := s.jobs(t) - before; n != 1 {
				t.Errorf("%d jobs, want the first transaction's one", n)
			}
		})
	}
}

// TestNoTransaction: what a Begin that failed has returned is answered, not a panic.
func TestNoTransaction(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	var none *sql.Tx
	for _, tx := range []nexjob.Tx{nil, postgres.Tx(nil), postgres.SQLTx(nil), postgres.SQLTx(none)} {
		if _, err := s.client.In(tx).Enqueue(t.Context(), keyedOrder("")); err == nil || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("%#v is answered %v", tx, err)
		}
	}
}

// TestSwallowedStatement: a commit that comes to nothing because f passed an error over is
// nothing to be repeated.
func TestSwallowedStatement(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	err := s.store.InTx(t.Context(), func(tx pgx.Tx) error {
		_, _ = tx.Exec(t.Context(), `INSERT INTO nowhere VALUES (1)`)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "a statement before has failed") || nexjob.IsTransient(err) {
		t.Errorf("the answer is %v, transient %v", err, nexjob.IsTransient(err))
	}
}

// TestInTxHoldsTheWholePool: what is done in a transaction needs no second connection.
func TestInTxHoldsTheWholePool(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(server(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	// New clients, who have not read the clock yet.
	add := func(ctx context.Context, tx nexjob.Tx) error {
		_, err := nexjob.NewClient(store, nexjob.ClientOptions{}).In(tx).Enqueue(ctx, keyedOrder(""))
		if err != nil {
			return err
		}
		_, err = nexjob.NewClient(store, nexjob.ClientOptions{}).In(tx).Find(ctx, nexjob.Query{})
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := store.InTx(ctx, func(tx pgx.Tx) error { return add(ctx, postgres.Tx(tx)) }); err != nil {
		t.Error(err)
	}
	if err := store.InSQLTx(ctx, db, func(tx *sql.Tx) error { return add(ctx, postgres.SQLTx(tx)) }); err != nil {
		t.Error(err)
	}
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	short, cancelShort := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelShort()
	for name, err := range map[string]error{
		"InTx":    store.InTx(short, func(pgx.Tx) error { return nil }),
		"InSQLTx": store.InSQLTx(short, db, func(*sql.Tx) error { return nil }),
	} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s waits for a connection for too long, and answers %v", name, err)
		}
	}
}
