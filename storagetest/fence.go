package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// loss is one way in which an attempt loses its lease.
type loss struct {
	name   string
	settle nexjob.Ending // that the attempt itself was settled with, if it was
	lose   func(b *bench, c nexjob.Claimed)
}

func losses() []loss {
	finish := func(how nexjob.Ending, then ...nexjob.Act) func(b *bench, c nexjob.Claimed) {
		return func(b *bench, c nexjob.Claimed) {
			b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how, Delay: delayOf(how)})
			for _, act := range then {
				b.actWith(c.Job.ID, nexjob.Action{Act: act, Force: true})
			}
		}
	}
	again := func(lose func(b *bench, c nexjob.Claimed)) func(b *bench, c nexjob.Claimed) {
		return func(b *bench, c nexjob.Claimed) {
			lose(b, c)
			if due := b.job(c.Job.ID).DueAt; due.After(b.now()) {
				b.pass(due.Sub(b.now()))
			}
			b.claimOnly(c.Job.ID)
		}
	}
	crash := func(b *bench, _ nexjob.Claimed) {
		b.pass(over)
		b.upkeep(0)
	}
	return []loss{
		{"expired and put back", 0, crash},
		{"expired and claimed again", 0, again(crash)},
		{"expired and ended as worker lost", 0, func(b *bench, _ nexjob.Claimed) {
			b.pass(over)
			b.upkeep(1)
		}},
		{"cancelled and expired", 0, func(b *bench, c nexjob.Claimed) {
			b.act(c.Job.ID, nexjob.ActCancel)
			crash(b, c)
		}},
		{"succeeded", nexjob.EndSucceeded, finish(nexjob.EndSucceeded)},
		{"failed", nexjob.EndFailed, finish(nexjob.EndFailed)},
		{"handed back", nexjob.EndInterrupted, finish(nexjob.EndInterrupted)},
		{"to be retried", nexjob.EndRetry, finish(nexjob.EndRetry)},
		{"retried", nexjob.EndRetry, again(finish(nexjob.EndRetry))},
		{"requeued", nexjob.EndFailed, finish(nexjob.EndFailed, nexjob.ActRequeue)},
		{"requeued and claimed again", nexjob.EndFailed, again(finish(nexjob.EndFailed, nexjob.ActRequeue))},
		{"requeued after success", nexjob.EndSucceeded, again(finish(nexjob.EndSucceeded, nexjob.ActRequeue))},
		{"deleted", nexjob.EndSucceeded, finish(nexjob.EndSucceeded, nexjob.ActDelete)},
		{"purged", nexjob.EndSucceeded, finish(nexjob.EndSucceeded, nexjob.ActPurge)},
		{"deleted and made anew", nexjob.EndSucceeded, again(func(b *bench, c nexjob.Claimed) {
			finish(nexjob.EndSucceeded, nexjob.ActDelete)(b, c)
			anew := newJob("k")
			anew.ID = c.Job.ID
			b.add(anew)
		})},
	}
}

// delayOf is the delay that an ending is settled with.
func delayOf(how nexjob.Ending) time.Duration {
	if how == nexjob.EndRetry || how == nexjob.EndSnoozed {
		return time.Minute
	}
	return 0
}

// fenceChecks: every write by a lease that was lost is refused and changes nothing,
// whichever way it was lost.
func fenceChecks() []check {
	var checks []check
	for _, l := range losses() {
		checks = append(checks, check{l.name, func(b *bench) { staleChangesNothing(b, l) }})
	}
	return append(checks,
		check{"a lease never handed out", func(b *bench) {
			c := b.run(newJob("k"))
			for _, fence := range []int64{0, -1, c.Job.Fence - 1, c.Job.Fence + 1, c.Job.Fence + 1_000_000} {
				forged := c
				forged.Job.Fence = fence
				staleWrites(b, forged, 0)
			}
			b.finish(c, nexjob.EndSucceeded)
		}},
		check{"the lease of another job", func(b *bench) {
			first, second := b.run(newJob("a")), b.run(newJob("b"))
			forged := first
			forged.Job.Fence = second.Job.Fence
			staleWrites(b, forged, 0)
		}},
		check{"a receipt for another operation", func(b *bench) {
			first, second := b.run(newJob("a")), b.run(newJob("b"))
			r := step(first, "render", "x")
			r.Operation = second.Job.Operation
			b.unchanged("a receipt for an operation that is not the writer's", func() {
				got := b.record(r)[0]
				b.check(got.Err != nil && !got.Ours, "it is answered %+v", got)
			})
		}})
}

func staleChangesNothing(b *bench, l loss) {
	c := b.run(newJob("k"))
	child := newJob("child")
	child.Parents = []nexjob.Parent{{ID: c.Job.ID, Rule: nexjob.OnAnyEnd}}
	child.Delay = 1000 * time.Hour // stays out of the way once it is released
	b.add(child)
	l.lose(b, c)
	staleWrites(b, c, l.settle)
}

// staleWrites tries every write under a lease. The ending that the attempt was
// settled with is left out: asking for it again is no new write.
func staleWrites(b *bench, c nexjob.Claimed, settled nexjob.Ending) {
	b.t.Helper()
	for how := nexjob.EndSucceeded; how <= nexjob.EndCancelled; how++ {
		if how == settled {
			continue
		}
		end := nexjob.Settlement{Lease: c.Job.Lease(), As: how, Delay: delayOf(how), Error: "late", Result: []byte("late")}
		if how != nexjob.EndSucceeded {
			end.Result = nil
		} else {
			end.Followers = []nexjob.NewJob{newJob("follower"), newJob("")}
		}
		b.unchanged("a stale settlement as "+how.String(), func() {
			b.t.Helper()
			got := b.settle(end)[0]
			b.is(got.Err, nexjob.ErrLeaseLost, "Settle as "+how.String()+" by a stale lease")
		})
	}
	intent := b.intent(c, "card")
	for _, r := range []nexjob.Receipt{
		step(c, "render", "late"), intent, outcome(intent, nexjob.Confirmed, "late"),
		outcome(intent, nexjob.Refused, ""), outcome(intent, nexjob.Disproved, ""),
	} {
		b.unchanged("a stale receipt", func() {
			b.t.Helper()
			got := b.record(r)[0]
			b.is(got.Err, nexjob.ErrLeaseLost, "Record of a "+r.Sort.String()+" "+r.State.String()+" by a stale lease")
			b.check(!got.Ours, "a refused receipt is called ours")
		})
	}
	b.unchanged("a stale renewal", func() {
		b.t.Helper()
		b.equal("status of a stale lease", nexjob.Lost, b.renew(c.Job.Lease())[0].Status)
	})
}
