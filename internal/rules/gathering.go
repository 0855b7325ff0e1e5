package rules

import (
	"runtime"
	"time"
)

const (
	// worthIt is what letting others run may cost for each of them that comes: about what
	// a flush of the disk costs, which it then shares.
	worthIt = time.Millisecond
	// few is how many are always waited for: on a busy host anything takes a few
	// milliseconds now and then, while who computes does so for 10 ms.
	few = 5
	// restFor is for how many times what it has cost in vain others are not let run.
	restFor = 100
)

// Gathering decides whether who is about to write a batch should let others run first,
// so that they join it. Where the machine is busy with those who compute and join
// nothing, each turn of theirs takes 10 ms, and a batch would wait for seconds, renewals
// of leases with it: after a try that was too dear there is none for a hundred times as
// long. The zero value is ready. It belongs to one goroutine.
type Gathering struct{ rests time.Time }

// Gather lets others run as long as that makes more of what is counted, up to enough, and
// returns how many there are then. It waits for nobody who is not ready to run. The clock
// is that of the host, which alone tells what the others took.
func (g *Gathering) Gather(clock func() time.Time, count func() int, enough int) int {
	n := count()
	for n > 0 && n < enough {
		before, since := n, clock()
		if !g.pays(since) {
			break
		}
		runtime.Gosched()
		n = count()
		if now := clock(); !g.took(now, now.Sub(since), n-before) {
			break
		}
	}
	return n
}

// pays reports whether to let others run now.
func (g *Gathering) pays(now time.Time) bool { return !now.Before(g.rests) }

// took notes at now what it took to let others run, and how many came; it reports
// whether more may come.
func (g *Gathering) took(now time.Time, took time.Duration, came int) bool {
	if took > worthIt*time.Duration(max(came, few)) {
		g.rests = now.Add(restFor * took)
		return false
	}
	return came > 0
}
