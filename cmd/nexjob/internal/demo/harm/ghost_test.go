package harm

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/sqlite"
)

// watched is a storage that tells when its clock is read.
type watched struct {
	nexjob.Storage
	read chan struct{}
}

func (w *watched) Clock(ctx context.Context) (time.Time, error) {
	select {
	case w.read <- struct{}{}:
	default:
	}
	return w.Storage.Clock(ctx)
}

// A stale transaction that waits for the file takes the time once it has it. A time from
// before would be refused for its age, and the fence would not have been tried.
func TestGhostTakesTheTimeInside(t *testing.T) {
	b := newBench(t)
	lease := b.lease(t)
	b.claim(t) // once more: the first lease is over
	store := &watched{b.store, make(chan struct{}, 1)}
	ghost := NewGhost(store, b.client, shop.OnSQLite(b.store))
	refused := make(chan error, 1)
	err := sqlite.InTx(t.Context(), b.store.DB(), func(*sql.Tx) error {
		go func() { refused <- ghost.commit(t.Context(), lease) }()
		select {
		case <-store.read:
			return errors.New("the time was taken while another held the file")
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-refused; !errors.Is(err, nexjob.ErrLeaseLost) {
		t.Errorf("the stale transaction: %v", err)
	}
}
