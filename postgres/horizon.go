package postgres

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// horizons bound the claims of workers that have caught up. As long as somebody holds an
// old snapshot, nothing that was claimed since is vacuumed, and a claim walks over all of
// it to find that nothing is due: the longer the snapshot lives, the slower. So where such
// a claim was dear, the next ones look no further back than a little before it, until the
// dear one has cost a small share of the time or a second is over. Whatever came in below,
// such as a commit that was late by more than the slack, is found by the next whole claim,
// for which workers are woken if nobody else does.
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

// list answers bounds for a claim, if there is a horizon for it.
func (h *horizons) list(now time.Time, lanes []claimLane, kinds []string) (wire.Arg, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) == 0 {
		return wire.Arg{}, false
	}
	seen, ok := h.of[askedFor(lanes, kinds)]
	if age := now.Sub(seen.at); !ok || age < 0 || age >= seen.rest() {
		return wire.Arg{}, false
	}
	list := wire.Bigints(len(lanes) * len(kinds))
	for range len(lanes) * len(kinds) {
		list.Int(seen.at.Add(-horizonSlack).UnixMicro())
	}
	return list.Arg(), true
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
