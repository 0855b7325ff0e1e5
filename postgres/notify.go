package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// notifyEvery is the shortest time between two signals of one store. PostgreSQL commits
// transactions that notify one after the other, in the whole cluster, so a signal for each
// commit would hold them all up. A hundred in a second cost nobody a hundredth of that, and
// a job that came while signals flow starts ten milliseconds later at most.
const notifyEvery = 10 * time.Millisecond

// notifyFor bounds a signal. One that is lost costs a poll.
const notifyFor = 2 * time.Second

// notifier tells other processes that there is work, or that jobs have ended: at once where
// it was quiet, and otherwise once for all that happened meanwhile. Its signals are
// transactions of their own, never part of one that enqueues.
type notifier struct {
	store *Store
	name  string // tells a store its own signals from others'

	mu      sync.Mutex
	owed    bool
	sending bool
	closed  bool
}

// note leaves a mark that a signal is owed.
func (n *notifier) note() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed = true
	if n.sending || n.closed {
		return
	}
	n.sending = true
	n.store.workers.Go(n.send)
}

// send sends signals until none is owed.
func (n *notifier) send() {
	for n.take() {
		n.signal()
		pause(n.store.life, notifyEvery)
	}
}

func (n *notifier) take() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sending = n.owed
	n.owed = false
	return n.sending
}

// signal notifies. What keeps it from doing so would keep it again: the others poll.
func (n *notifier) signal() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(n.store.life), notifyFor)
	defer cancel()
	_ = n.store.hot(ctx, "wake", nil, wire.Text(n.store.names.channel()), wire.Text(n.name))
}

// close lets nothing begin any more. What is owed is still sent: a program may end right
// after it has enqueued.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
}

// pause waits for a while, unless ctx ends first.
func pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// channel is what wake-ups of these tables are called, within the 63 bytes that PostgreSQL
// allows.
func (n names) channel() string {
	name := n.schema + "." + n.prefix
	if len(name) > 63 {
		sum := sha256.Sum256([]byte(name))
		name = "nexjob " + hex.EncodeToString(sum[:16])
	}
	return name
}
