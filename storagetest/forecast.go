package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// forecastChecks are those of engines that forecast; of others there is nothing to check.
func forecastChecks() []check {
	return []check{
		{"the next due time is that of the next claim", nextDue},
	}
}

// nextDue lets jobs of several queues, priorities and kinds fall due one after the
// other. At each moment the forecast is the first time at which a claim finds more.
func nextDue(b *bench) {
	engine, ok := b.s.(nexjob.Forecaster)
	if !ok {
		b.t.Log("NOT OFFERED: the engine does not forecast (nexjob.Forecaster)")
		return
	}
	const none = time.Duration(-1)
	began := b.now()
	queues := []string{otherQueue, mainQueue}
	next := func(kinds ...string) time.Duration {
		b.t.Helper()
		due, err := engine.NextDue(b.ctx, b.now(), queues, kinds)
		b.must(err, "NextDue")
		if due.IsZero() {
			return none
		}
		return due.Sub(began)
	}
	b.equal("next due of nothing", none, next(charge))

	foreign := newJob("")
	foreign.Queue, foreign.Delay = "else", time.Millisecond
	b.add(foreign)
	unserved := newJob("")
	unserved.Kind, unserved.Delay = ship, 7*time.Microsecond
	b.add(unserved)
	b.add(newJob("")) // due at once, so it is no forecast
	delays := []time.Duration{1337 * time.Microsecond, 2 * time.Millisecond, 3 * time.Second, 4 * time.Second}
	for i, at := range []int{2, 0, 3, 1} {
		n := newJob("")
		n.Delay, n.Priority, n.Queue = delays[at], nexjob.Priorities()[i], queues[i%2]
		b.add(n)
	}
	b.equal("next due of another kind", 7*time.Microsecond, next(ship))
	b.equal("next due of both kinds", 7*time.Microsecond, next(charge, ship))
	b.equal("next due of no kind", none, next())

	ask := claimAsk(10)
	ask.Queues, ask.Kinds = queues, []string{charge}
	b.equal("claimed at once", 1, len(b.ask(ask)))
	for _, delay := range delays {
		b.equal("next due", delay, next(charge))
		b.clock.Pass(delay - b.now().Sub(began) - time.Microsecond)
		b.equal("claimed too early", 0, len(b.ask(ask)))
		b.equal("next due a moment before", delay, next(charge))
		b.clock.Pass(time.Microsecond)
		b.equal("claimed on time", 1, len(b.ask(ask)))
	}
	b.equal("next due after all", none, next(charge))
}
