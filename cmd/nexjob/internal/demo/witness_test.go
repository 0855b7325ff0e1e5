package demo

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/sqlite"
)

// A run whose time is up while the witness reads is told so, not what the reading met.
func TestWatchSaysWhyItEnded(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "demo.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := shop.Open(t.Context(), store.DB(), nil); err != nil {
		t.Fatal(err)
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	w := newWitness(client, store.DB(), &arrivals{client: client}, new(harm.Hand), nil)
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errTimeUp)
	if err := w.watch(ctx, make(chan struct{})); !errors.Is(err, errTimeUp) {
		t.Errorf("watch returned %v", err)
	}
}
