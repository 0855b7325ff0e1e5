package nexjob

import "sync"

// Bell wakes those who wait for work of this process: engines ring it after a
// commit that made jobs claimable or ended some. A ring carries no data and may be
// lost with the process; polls alone keep everything correct.
type Bell struct {
	mu        sync.Mutex
	listeners map[chan struct{}]bool
}

// NewBell returns a bell that nobody listens to.
func NewBell() *Bell { return &Bell{listeners: make(map[chan struct{}]bool)} }

// Ring wakes every listener. It never waits; rings that nobody took yet are one.
func (b *Bell) Ring() {
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
	return c, func() {
		b.mu.Lock()
		delete(b.listeners, c)
		b.mu.Unlock()
	}
}
