package worker

import (
	"math"
	"time"
)

// pace is how many handlers return in a second. It forgets as it goes, so that after
// a moment without returns nothing is left of it. The zero value knows none.
type pace struct {
	rate float64   // at that time
	at   time.Time // the newest return
}

const (
	// paceFor is how long a return counts, about. All slots that return at once after
	// a long time are a rate of slots/paceFor, far below what counts as quick.
	paceFor = 250 * time.Millisecond
	// paceAhead is how soon a job that is claimed ahead starts, at the pace: for longer
	// than that nobody else could have it, were he idle or were it less urgent than
	// one that comes now. A claim over a network takes a few milliseconds.
	paceAhead = 50 * time.Millisecond
)

// returned notes that a handler has returned.
func (p *pace) returned(now time.Time) {
	p.rate, p.at = p.now(now)+1/paceFor.Seconds(), now
}

// now returns the rate as it has become.
func (p *pace) now(now time.Time) float64 {
	if p.rate == 0 {
		return 0
	}
	return p.rate * math.Exp(-now.Sub(p.at).Seconds()/paceFor.Seconds())
}

// ahead returns how many jobs may be claimed ahead of that many slots: what starts
// within paceAhead. If that is less than half of the slots, handlers take longer than
// twice paceAhead. Then the way to the storage is nothing against them, and whoever
// returns together leaves the others waiting for a whole handler: there are none.
func (p *pace) ahead(now time.Time, slots, most int) int {
	soon := p.now(now) * paceAhead.Seconds()
	if 2*soon < float64(slots) {
		return 0
	}
	return int(min(soon, float64(max(most, 0))))
}
