package demo

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/sqlite"
)

// A run whose time is up while the witness reads is told so, not what the reading met.
func TestWatchSaysWhyItEnded(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "demo.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := shop.Open(t.Context(), shop.OnSQLite(store), nil); err != nil {
		t.Fatal(err)
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	w := newWitness(client, shop.OnSQLite(store), &arrivals{client: client}, new(harm.Hand), nil)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errTimeUp)
	if err := w.watch(ctx, make(chan struct{})); !errors.Is(err, errTimeUp) {
		t.Errorf("watch returned %v", err)
	}
}

// relay is a storage whose one job changes its state after every look at it.
type relay struct {
	nexjob.Storage
	job    nexjob.Job
	states []nexjob.State
}

func (r *relay) Find(_ context.Context, _ time.Time, q nexjob.Query) (nexjob.Page, error) {
	r.job.State, r.states = r.states[0], append(r.states[1:], r.states[0])
	if !slices.Contains(q.States, r.job.State) {
		return nexjob.Page{}, nil
	}
	return nexjob.Page{Jobs: []nexjob.Job{r.job}}, nil
}

// A job that goes from Uncertain to its look-up and back is never taken for ended,
// whenever the witness looks.
func TestWorkingSeesALookUp(t *testing.T) {
	states := []nexjob.State{nexjob.Uncertain, nexjob.Processing}
	for range states {
		store := &relay{memory.New(memory.Options{}), nexjob.Job{ID: nexjob.NewID(), DueAt: time.Now()}, slices.Clone(states)}
		w := &witness{client: nexjob.NewClient(store, nexjob.ClientOptions{})}
		left, err := w.working(t.Context(), 1)
		if err != nil || len(left) != 1 {
			t.Errorf("from %s on: %d jobs are being worked, %v", states[0], len(left), err)
		}
		slices.Reverse(states)
	}
}
