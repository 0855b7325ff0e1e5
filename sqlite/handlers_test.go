package sqlite_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

// A handler keeps its transaction open for two leases while others run. Nobody can
// renew meanwhile, and yet no lease is lost: nobody could have claimed either.
func TestALongTransactionCostsNobodyTheLease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	kind := nexjob.KindOf[struct{ Hold bool }]("hold", nexjob.Defaults{})
	held := make(chan struct{}) // closed when the transaction is over
	var told atomic.Int32
	w := worker.New(store, worker.Options{Slots: 5, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	worker.Handle(w, kind, func(ctx context.Context, run *worker.Run, in struct{ Hold bool }) error {
		if !in.Hold {
			select {
			case <-held:
				return nil
			case <-ctx.Done():
				told.Add(1)
				return context.Cause(ctx)
			}
		}
		defer close(held)
		return sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error {
			time.Sleep(2 * lease) // what is under test
			return run.CompleteIn(ctx, sqlite.Tx(tx))
		})
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()

	var jobs []nexjob.ID
	for _, hold := range []bool{false, false, false, true} {
		answer, err := client.Enqueue(t.Context(), kind.New(struct{ Hold bool }{hold}, nexjob.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, answer.ID)
	}
	for _, id := range jobs {
		job, err := client.Wait(t.Context(), id)
		if err != nil || job.State != nexjob.Succeeded || job.Crashes+job.Tries != 0 || len(job.Attempts) != 1 {
			t.Errorf("job %s after %d attempts, %d crashes, %d tries: %v", job.State, len(job.Attempts), job.Crashes, job.Tries, err)
		}
	}
	if h := w.Health(); h.LeasesLost != 0 || h.LetGo != 0 || told.Load() != 0 {
		t.Errorf("%d handlers were told of the loss of their lease, health %+v", told.Load(), h)
	}
	stop()
	for _, end := range []func() error{func() error { return <-done }, func() error { return client.Close(context.WithoutCancel(ctx)) }, store.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
