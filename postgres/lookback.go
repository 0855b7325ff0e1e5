package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// lookback says how far back claims look. As long as somebody holds an old snapshot, nothing
// that was claimed since is vacuumed, and a claim that looks at all there is walks over it.
// There are two memories against that: bounds, of claims that filled up, while there is a
// backlog; and horizons, of those that did not, for workers that have caught up. A claim is
// bounded by one of them.
type lookback struct {
	exact    bool // nothing may be found late: there are no horizons
	bounds   bounds
	horizons horizons
}

// since is from which due times on a claim looks, in the order in which it wants them.
type since struct {
	arg wire.Arg
	by  basis
}

// basis is what a claim is bounded by.
type basis uint8

const (
	byNone basis = iota
	byBounds
	byHorizon
)

// list answers from when on a claim is to look.
func (l *lookback) list(now time.Time, lanes []claimLane, kinds []string) since {
	if arg, ok := l.bounds.list(now, lanes, kinds); ok {
		return since{arg, byBounds}
	}
	if !l.exact {
		if from, ok := l.horizons.from(now, lanes, kinds); ok {
			return since{sameSince(from, lanes, kinds), byHorizon}
		}
	}
	return since{sameSince(0, lanes, kinds), byNone}
}

// sameSince is one time for all ranges and kinds.
func sameSince(from int64, lanes []claimLane, kinds []string) wire.Arg {
	list := wire.Bigints(len(lanes) * len(kinds))
	for range len(lanes) * len(kinds) {
		list.Int(from)
	}
	return list.Arg()
}

// learn notes what a claim found, by what it was bounded, and what it cost.
func (l *lookback) learn(
	now time.Time, lanes []claimLane, kinds []string, by basis, found []nexjob.Claimed, full bool, cost time.Duration,
) {
	l.bounds.learn(now, found, full)
	if !full && by != byBounds && !l.exact {
		l.horizons.learn(now, lanes, kinds, cost, by == byHorizon)
	}
}

// bounds remember, for each range and kind, before which due time everything was claimed.
// They only serve while there is a backlog, and are forgotten every second: late commits, and
// rows that somebody held while claims passed by, lie below them.
type bounds struct {
	mu    sync.Mutex
	since time.Time
	of    map[boundOf]int64
}

type boundOf struct {
	claimLane
	kind string
}

const boundsFor = time.Second

// list is the bounds in the order in which a claim wants them, if there are any.
func (b *bounds) list(now time.Time, lanes []claimLane, kinds []string) (wire.Arg, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := now.Sub(b.since); age < 0 || age > boundsFor {
		b.of = nil
	}
	if len(b.of) == 0 {
		return wire.Arg{}, false
	}
	list := wire.Bigints(len(lanes) * len(kinds))
	for _, l := range lanes {
		for _, kind := range kinds {
			list.Int(b.of[boundOf{l, kind}])
		}
	}
	return list.Arg(), true
}

// learn notes what a claim found. One that did not fill up forgets all: it has come to the
// end of what is due, and whatever comes next may lie below.
func (b *bounds) learn(now time.Time, found []nexjob.Claimed, full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !full {
		b.of = nil
		return
	}
	if b.of == nil {
		b.of, b.since = make(map[boundOf]int64), now
	}
	for i := range found {
		j := &found[i].Job
		at := boundOf{claimLane{j.Queue, j.Priority}, j.Kind}
		b.of[at] = max(b.of[at], j.DueAt.UnixMicro())
	}
}

// horizons bound the claims of workers that have caught up: the longer a snapshot lives, the
// slower is a claim that finds nothing due. So where such a claim was dear, the next ones
// look no further back than a little before it, until the dear one has cost a small share of
// the time or a second is over. Whatever came in below, such as a commit that was late by
// more than the slack, is found by the next whole claim, for which workers are woken if
// nobody else does.
type horizons struct {
	again func(after time.Duration) // wakes who waits for work
	dear  time.Duration             // cheaper claims need no bounds

	mu sync.Mutex
	of map[string]horizon
}

// horizon is the latest claim without bounds of some ranges that found all there was.
type horizon struct {
	at   time.Time // in the storage's time
	cost time.Duration
}

const (
	dearClaim    = 5 * time.Millisecond
	claimShare   = 20              // a twentieth of the time goes into dear ones
	horizonSlack = 3 * time.Second // clocks differ by a second, and commits take time
	maxHorizons  = 64              // workers of a store that ask for different things
)

// rest is how long a horizon serves.
func (h horizon) rest() time.Duration { return min(claimShare*h.cost, boundsFor) }

// from answers from when on a claim is to look, if there is a horizon for it.
func (h *horizons) from(now time.Time, lanes []claimLane, kinds []string) (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) == 0 {
		return 0, false
	}
	seen, ok := h.of[askedFor(lanes, kinds)]
	if age := now.Sub(seen.at); !ok || age < 0 || age >= seen.rest() {
		return 0, false
	}
	return seen.at.Add(-horizonSlack).UnixMicro(), true
}

// learn notes what a claim cost that found all there was, or, where it was bounded itself,
// that one without bounds is owed.
func (h *horizons) learn(now time.Time, lanes []claimLane, kinds []string, cost time.Duration, partly bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := askedFor(lanes, kinds)
	switch seen := h.of[asked]; {
	case partly:
		h.again(max(seen.at.Add(seen.rest()).Sub(now), 0))
	case cost <= h.dear:
		delete(h.of, asked)
	default:
		if h.of == nil || len(h.of) >= maxHorizons {
			h.of = make(map[string]horizon)
		}
		h.of[asked] = horizon{now, cost}
	}
}

// askedFor tells claims of the same ranges, in whichever order, from others.
func askedFor(lanes []claimLane, kinds []string) string {
	names := make([]string, 0, len(lanes)+len(kinds))
	for i := range lanes {
		names = append(names, lanes[i].queue)
	}
	slices.Sort(names)
	names = slices.Compact(names) // each queue is asked for in all its priorities
	return strings.Join(names, "\x00") + "\x00\x00" + strings.Join(kinds, "\x00")
}

// lookAgain wakes those of this process who wait for work, after a while. Several such
// wishes are one.
func (s *Store) lookAgain(after time.Duration) {
	if s.looking.Swap(true) {
		return
	}
	time.AfterFunc(after, func() {
		s.looking.Store(false)
		if !s.closed.Load() {
			s.bell.Relayed()
		}
	})
}
