package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// TestAClaimNeedsOneConnection: a claim that has got a connection answers what it has leased
// and all that belongs to it, also when nobody gets another: a lease whose job nobody hears
// of would be counted as a crash.
func TestAClaimNeedsOneConnection(t *testing.T) {
	t.Parallel()
	var spare atomic.Int64
	spare.Store(1 << 30)
	pool := connect(t, database(t, plain(t, 15)), func(c *pgxpool.Config) {
		c.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
			if spare.Add(-1) < 0 {
				<-ctx.Done()
				return false, ctx.Err()
			}
			return true, nil
		}
	})
	s, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	postgres.HurryPool(s, 100*time.Millisecond)
	enqueue(t, client(s), 1)
	claim := func() ([]nexjob.Claimed, error) {
		return s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
			Worker: "w", N: 10, Lease: time.Hour, Queues: []string{nexjob.DefaultQueue}, Kinds: []string{"numbered"},
		})
	}
	first, err := claim()
	if err != nil || len(first) != 1 {
		t.Fatal(len(first), err)
	}
	receipt := nexjob.Receipt{
		Operation: first[0].Job.Operation, Sort: nexjob.StepReceipt, Name: "step", State: nexjob.Confirmed,
		Writer: first[0].Job.Lease(), Fingerprint: first[0].Job.Fingerprint, Value: []byte("1"),
	}
	recorded, err := s.Record(t.Context(), time.Now(), []nexjob.Receipt{receipt})
	if err != nil || recorded[0].Err != nil {
		t.Fatal(recorded, err)
	}
	settled, err := s.Settle(t.Context(), time.Now(), []nexjob.Settlement{{Lease: first[0].Job.Lease(), As: nexjob.EndInterrupted}})
	if err != nil || settled[0].Err != nil {
		t.Fatal(settled, err)
	}
	for n := int64(1); n <= 2; n++ { // the second time, after a recovery that takes one as well
		spare.Store(n)
		claimed, err := claim()
		spare.Store(1 << 30)
		switch state := ask[int64](t, pool, `SELECT state FROM nexjob_jobs`); {
		case err != nil && state == int64(nexjob.Processing):
			t.Fatalf("with %d connections the job was leased and nobody hears of it: %v", n, err)
		case err != nil || len(claimed) == 0:
			continue
		case len(claimed[0].Job.Attempts) != 1 || len(claimed[0].Receipts) != 1:
			t.Errorf("claimed with %d attempts and %d receipts", len(claimed[0].Job.Attempts), len(claimed[0].Receipts))
		}
		return
	}
	t.Error("nothing was claimed")
}
