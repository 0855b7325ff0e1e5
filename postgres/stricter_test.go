package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// stricter makes the sessions of a pool begin their transactions at a level.
func stricter(level pgx.TxIsoLevel) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = string(level) }
}

// TestStricterSessions: where sessions begin their transactions at a stricter level, as an
// administrator may have chosen for a whole database, the engine's own steps run at READ
// COMMITTED all the same. Else whoever claims, renews or settles beside others would be
// refused again and again.
func TestStricterSessions(t *testing.T) {
	t.Parallel()
	for _, level := range levels() {
		s, err := postgres.Wrap(t.Context(), connect(t, database(t, plain(t, 15)), stricter(level)),
			postgres.Options{Migrate: true, ListenURL: "none"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		// What the steps write tells the level at which it was written.
		do(t, s.Pool(), `CREATE TABLE seen (what text, level text);
			CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO seen VALUES (tg_table_name || ' ' || tg_op, current_setting('transaction_isolation'));
				RETURN NULL;
			END $$;
			CREATE TRIGGER see AFTER INSERT OR UPDATE ON nexjob_jobs FOR EACH STATEMENT EXECUTE FUNCTION see();
			CREATE TRIGGER see AFTER INSERT OR UPDATE ON nexjob_leases FOR EACH STATEMENT EXECUTE FUNCTION see()`)
		manyWork(t, s)
		for _, what := range []string{"nexjob_jobs INSERT", "nexjob_jobs UPDATE", "nexjob_leases INSERT"} {
			seen := ask[string](t, s.Pool(), `SELECT string_agg(DISTINCT level, ', ') FROM seen WHERE what = '`+what+`'`)
			if seen != "read committed" {
				t.Errorf("sessions at %s: %s at %s", level, what, seen)
			}
		}
		if now := ask[string](t, s.Pool(), `SHOW transaction_isolation`); now != string(level) {
			t.Errorf("a session of %s is left at %s", level, now)
		}
	}
}

// manyWork lets several callers enqueue, claim, renew and settle beside each other. None of
// them meets trouble.
func manyWork(t *testing.T, s *postgres.Store) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 10 {
				if err := work(t.Context(), s, fmt.Sprint(i, " ", n)); err != nil {
					t.Errorf("%d, round %d: %v", i, n, err)
				}
			}
		})
	}
	all.Wait()
}

func work(ctx context.Context, s *postgres.Store, key string) error {
	now := time.Now()
	if _, err := s.Enqueue(ctx, now, []nexjob.NewJob{job(key)}); err != nil {
		return err
	}
	claimed, err := s.Claim(ctx, now, nexjob.ClaimRequest{
		Worker: "w", N: 2, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
	})
	if err != nil {
		return err
	}
	leases, ends := make([]nexjob.Lease, len(claimed)), make([]nexjob.Settlement, len(claimed))
	for i := range claimed {
		leases[i] = claimed[i].Job.Lease()
		ends[i] = nexjob.Settlement{Lease: leases[i], As: nexjob.EndSucceeded}
	}
	if _, err := s.Renew(ctx, now, now.Add(2*time.Minute), leases); err != nil {
		return err
	}
	_, err = s.Settle(ctx, now, ends)
	return err
}

// TestMigrateAtOnceInStricterSessions: those who waited for another's migration see it.
func TestMigrateAtOnceInStricterSessions(t *testing.T) {
	t.Parallel()
	for _, level := range levels() {
		pool := connect(t, database(t, plain(t, 15)), stricter(level))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true, ListenURL: "none"})
				if err != nil {
					t.Errorf("%s: %v", level, err)
					return
				}
				_ = s.Close()
			})
		}
		all.Wait()
	}
}
