package nexjob

import "sync"

// Bell wakes those of this process who wait for work: engines ring it after a commit that
// made jobs claimable or ended some, here or, where the engine reaches them, in another
// process. A ring carries no data and may be lost with the process; polls alone keep
// everything correct.
type Bell struct {
	relay     BellRelay // nil: rings stay in this process
	mu        sync.Mutex
	listeners map[chan struct{}]bool
}

// BellRelay carries rings to other processes and theirs to this one, for an engine whose
// storage processes share. Its methods are called often, by many goroutines, and must not
// wait.
type BellRelay interface {
	// Listening says that somebody has begun to listen: other processes are to be heard
	// from now on. What they ring goes to Bell.Relayed.
	Listening()
	// Rang says that this process rang, so that others are to hear of it.
	Rang()
}

// NewBell returns a bell that nobody listens to.
func NewBell() *Bell { return NewRelayedBell(nil) }

// NewRelayedBell returns a bell whose rings a relay carries to other processes; nil: none.
func NewRelayedBell(relay BellRelay) *Bell {
	return &Bell{relay: relay, listeners: make(map[chan struct{}]bool)}
}

// Ring wakes every listener, those of other processes too where the engine reaches them.
// It never waits; rings that nobody took yet are one.
func (b *Bell) Ring() {
	b.Relayed()
	if b.relay != nil {
		b.relay.Rang()
	}
}

// Relayed wakes every listener of this process: another one rang.
func (b *Bell) Relayed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Listen returns a channel that receives after each ring, and a function that
// ends it.
func (b *Bell) Listen() (rings <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	b.listeners[c] = true
	b.mu.Unlock()
	if b.relay != nil {
		b.relay.Listening()
	}
	return c, func() {
		b.mu.Lock()
		delete(b.listeners, c)
		b.mu.Unlock()
	}
}
