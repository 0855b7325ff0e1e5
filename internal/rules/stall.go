package rules

import (
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// Pulse is what a one-writer engine remembers of its own writes, so that a lease is
// never taken for dead while nobody could renew it. A gap is a time in which nothing
// was written: the machine slept, a user's transaction held the file, the clock
// jumped, or nobody had anything to write.
type Pulse struct {
	LastWrite time.Time `json:"last"`
	Gaps      []Gap     `json:"gaps,omitempty"` // those that a lease may still stand on, oldest first
}

// Gap is a time without a write.
type Gap struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

const (
	shortGap = 250 * time.Millisecond // shorter ones harm no lease that can be renewed
	gapsKept = 16                     // far more than can matter at once, unless the clock is mad
)

// Beat notes a write at now and reports whether the clock went back since the
// last one.
func (p *Pulse) Beat(now time.Time) (wentBack bool) {
	last := p.LastWrite
	p.LastWrite = Micro(now)
	if last.IsZero() {
		return false
	}
	if now.Before(last.Add(-time.Second)) {
		p.Gaps = nil
		return true
	}
	if now.Sub(last) < shortGap {
		return false
	}
	p.Gaps = append(p.Gaps, Gap{Start: last, End: Micro(now)})
	p.forget(now)
	if len(p.Gaps) > gapsKept {
		shortest := 0
		for i := range p.Gaps {
			if p.Gaps[i].length() < p.Gaps[shortest].length() {
				shortest = i
			}
		}
		p.Gaps = slices.Delete(p.Gaps, shortest, shortest+1)
	}
	return false
}

// forget drops the gaps that no lease stands on any more, however long they were: an
// outage of this morning must not push out the stall of this minute.
func (p *Pulse) forget(now time.Time) {
	kept := p.Gaps[:0]
	for i, g := range p.Gaps {
		matters := g.forgives()
		for range 2 { // a lease that g carried over into the next gap, and that one into another
			reach := matters
			for _, next := range p.Gaps[i+1:] {
				if !next.Start.After(reach) && next.forgives().After(matters) {
					matters = next.forgives()
				}
			}
		}
		if matters.After(now) {
			kept = append(kept, g)
		}
	}
	p.Gaps = kept
}

// forgives returns until when a lease that ended in the gap may be spared; see Dead.
func (g Gap) forgives() time.Time { return g.End.Add(g.length()) }

func (g Gap) length() time.Duration { return g.End.Sub(g.Start) }

// Quiet reports whether the last write lies so far back that an idle engine should
// write now, lest its silence be taken for a stall.
func (p *Pulse) Quiet(now time.Time, lease time.Duration) bool {
	return now.Sub(p.LastWrite) > lease/6
}

// Dead reports whether the lease of a Processing job has run out. A lease that
// ended in a gap gets the time that the gap took from it, and at least a round of
// renewal, from the gap's end; one that a gap left less than a round gets the round.
// Two gaps in which it ends are forgiven, so that no lease lives for ever.
func (p *Pulse) Dead(j *nexjob.Job, now time.Time) bool {
	until, round := p.survived(j), j.LeaseFor/3
	for range 2 {
		i := slices.IndexFunc(p.Gaps, func(g Gap) bool {
			return g.length() >= round && !until.Before(g.Start) && !until.After(g.End)
		})
		if i < 0 {
			break
		}
		until = p.Gaps[i].End.Add(max(until.Sub(p.Gaps[i].Start), round))
	}
	return !until.After(now)
}

// survived returns when a lease ends that has a gap behind it.
func (p *Pulse) survived(j *nexjob.Job) time.Time {
	until, round := j.LeaseUntil, j.LeaseFor/3
	granted := until.Add(-j.LeaseFor)
	for _, g := range p.Gaps {
		within := !granted.After(g.Start) && g.End.Before(j.LeaseUntil)
		if next := g.End.Add(round); within && g.length() >= round && next.After(until) {
			until = next
		}
	}
	return until
}
