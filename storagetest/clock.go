package storagetest

import (
	"sync"
	"time"
)

// clock is the time of one storage under test. It stands still until the suite
// moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)}
}

// Now is the clock that an engine is opened with.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass moves the clock on.
func (c *clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// advance moves the clock to t if that lies ahead.
func (c *clock) advance(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.now) {
		c.now = t
	}
}
