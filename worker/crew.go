package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// crew runs the handlers. Its goroutines are kept, for a new one would have to grow its
// stack again for every job, which costs more than all else that starting a handler does.
// Whatever a handler leaves behind in its goroutine, such as a locked thread, the next one
// finds. A goroutine that a handler ends is not replaced before it is needed.
type crew struct {
	next       chan func()
	idle, most atomic.Int64
}

func newCrew() *crew { return &crew{next: make(chan func())} }

// keep says how many goroutines may be idle. Those that are too many go.
func (c *crew) keep(most int64) {
	c.most.Store(most)
	for range c.idle.Load() - most {
		select {
		case c.next <- nil:
		default:
			return
		}
	}
}

// run runs f in a goroutine, which is kept afterwards if it may, until ctx ends.
func (c *crew) run(ctx context.Context, f func()) {
	select {
	case c.next <- f:
	default:
		go c.member(ctx, f)
	}
}

func (c *crew) member(ctx context.Context, f func()) {
	for f != nil {
		f()
		if c.idle.Add(1) > c.most.Load() {
			c.idle.Add(-1)
			return
		}
		select {
		case f = <-c.next:
			c.idle.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}

// crowd is the handlers of the newest claim that started many. Most often they take
// about as long as each other. So those that return at once are waited for, a moment at
// most: they are settled and their slots are filled in one transaction, and not in many
// small ones that each cost a flush of the disk.
type crowd struct {
	mu      sync.Mutex
	number  int
	running int           // of the crowd of that number
	until   time.Time     // nobody is waited for any longer
	gone    chan struct{} // closed when all have returned
}

const (
	crowdFrom = 8                // so many handlers are a crowd
	crowdFor  = time.Millisecond // a few flushes of a disk
)

// gather makes attempts that are about to start a crowd, if they are many.
func (c *crowd) gather(attempts []*attempt) {
	if len(attempts) < crowdFrom {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	c.running, c.until, c.gone = len(attempts), time.Now().Add(crowdFor), make(chan struct{})
	for _, a := range attempts {
		a.crowd = c.number
	}
}

// left notes that an attempt's handler has returned, and that whoever waits for it can see
// what follows from it.
func (c *crowd) left(a *attempt) {
	if a.crowd == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.crowd != c.number {
		return
	}
	if c.running--; c.running == 0 {
		close(c.gone)
	}
}

// await waits until the crowd has gone, for a moment at most.
func (c *crowd) await() {
	c.mu.Lock()
	running, until, gone := c.running, c.until, c.gone
	c.mu.Unlock()
	if running > 0 && time.Now().Before(until) {
		waitFor(gone, until)
	}
}
