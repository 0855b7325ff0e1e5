package storagetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// settleChecks are about the end of attempts: what each ending makes of the job
// and what it costs.
func settleChecks() []check {
	checks := []check{
		{"the result and the attempt are kept", settleKeeps},
		{"an error text is cut with a mark", errorIsCut},
		{"a result too large is refused and the lease stands", resultTooLarge},
		{"mistakes are refused and the lease stands", settleMistakes},
		{"uncertain without an open effect strands nobody", uncertainWithoutEffect},
		{"each settlement has its own answer", settleBatch},
		{"after the lease's end, not claimed again", func(b *bench) {
			c := b.run(newJob(""))
			b.pass(over)
			b.equal("state", nexjob.Succeeded, b.finish(c, nexjob.EndSucceeded).State)
			b.claimNone("it has succeeded")
		}},
		{"the newest attempts are kept", newestAttemptsKept},
		{"an empty batch is nothing", func(b *bench) {
			b.unchanged("an empty settlement", func() { b.settle() })
		}},
	}
	for _, w := range endings() {
		checks = append(checks, check{w.as.String(), func(b *bench) { endingMakes(b, w) }})
	}
	return checks
}

// ended is what one ending must make of a job in its first attempt.
type ended struct {
	as                            nexjob.Ending
	state                         nexjob.State
	delay                         time.Duration
	tries, interruptions, snoozes int
	triesFree                     bool // the rules leave open whether a try is spent
	terminal                      bool
}

func endings() []ended {
	return []ended{
		{as: nexjob.EndSucceeded, state: nexjob.Succeeded, terminal: true},
		{as: nexjob.EndFailed, state: nexjob.Failed, tries: 1, terminal: true},
		{as: nexjob.EndCancelled, state: nexjob.Cancelled, triesFree: true, terminal: true},
		{as: nexjob.EndRetry, state: nexjob.Scheduled, delay: time.Minute, tries: 1},
		{as: nexjob.EndSnoozed, state: nexjob.Scheduled, delay: time.Minute, snoozes: 1},
		{as: nexjob.EndInterrupted, state: nexjob.Enqueued, interruptions: 1},
	}
}

func endingMakes(b *bench, w ended) {
	c := b.run(newJob("k"))
	b.pass(5 * time.Second)
	got := b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: w.as, Delay: w.delay, Error: "why"})
	b.equal("state answered", w.state, got.State)
	j := b.state(c.Job.ID, w.state, "after "+w.as.String())
	if w.triesFree {
		j.Tries = w.tries
	}
	b.equal("tries, crashes, interruptions, snoozes, look-ups",
		[]int{w.tries, 0, w.interruptions, w.snoozes, 0},
		[]int{j.Tries, j.Crashes, j.Interruptions, j.Snoozes, j.Lookups})
	b.check(j.LeaseUntil.IsZero(), "the lease still ends at %s", j.LeaseUntil)
	b.equal("newest settlement", []any{c.Job.Fence, w.as}, []any{j.SettledFence, j.SettledAs})
	b.equal("attempts", []nexjob.Attempt{{
		Fence: c.Job.Fence, Worker: c.Job.Worker, Started: c.Job.StartedAt, Ended: b.now(), Ending: w.as, Error: "why",
	}}, j.Attempts)
	b.equal("key", "k", j.Key)
	if w.terminal {
		b.equal("end", b.now(), j.EndedAt)
		b.claimNone("it has ended")
		return
	}
	b.check(j.EndedAt.IsZero(), "a job that goes on ended at %s", j.EndedAt)
	b.equal("due time", b.now().Add(w.delay), j.DueAt)
	b.pass(w.delay)
	b.claimOnly(c.Job.ID)
}

func settleKeeps(b *bench) {
	c := b.run(newJob(""))
	result := []byte("{\"at\":\"\x00\xff\",\"big\":9007199254740993}")
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: result})
	j := b.job(c.Job.ID)
	b.check(bytes.Equal(result, j.Result), "result is %q, want %q", j.Result, result)
	b.check(j.Started, "an ended job was never claimed")
}

func errorIsCut(b *bench) {
	c := b.run(newJob(""))
	long := strings.Repeat("é", nexjob.MaxError)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndFailed, Error: long})
	got := b.job(c.Job.ID).Attempts[0].Error
	b.equal("error text", nexjob.CutText(long, nexjob.MaxError), got)
}

func resultTooLarge(b *bench) {
	c := b.run(newJob(""))
	b.unchanged("a refused settlement", func() {
		got := b.settle(nexjob.Settlement{
			Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: make([]byte, nexjob.MaxResult+1),
		})[0]
		b.is(got.Err, nexjob.ErrInvalid, "a result of more than MaxResult")
	})
	b.finishWith(nexjob.Settlement{
		Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: make([]byte, nexjob.MaxResult),
	})
}

func settleMistakes(b *bench) {
	c := b.run(newJob("k"))
	bad := map[string]nexjob.Settlement{
		"no ending":                    {},
		"EndCrashed":                   {As: nexjob.EndCrashed},
		"an unknown ending":            {As: nexjob.EndCrashed + 1},
		"followers of a failed try":    {As: nexjob.EndRetry, Followers: []nexjob.NewJob{newJob("f")}},
		"followers of a failed job":    {As: nexjob.EndFailed, Followers: []nexjob.NewJob{newJob("f")}},
		"followers of a cancelled job": {As: nexjob.EndCancelled, Followers: []nexjob.NewJob{newJob("f")}},
		"a negative delay":             {As: nexjob.EndRetry, Delay: -time.Second},
	}
	for name, end := range bad {
		end.Lease = c.Job.Lease()
		b.unchanged(name, func() {
			got := b.settle(end)[0]
			b.is(got.Err, nexjob.ErrInvalid, name)
		})
	}
	b.equal("renewal of the lease that stands", nexjob.Renewed, b.renew(c.Job.Lease())[0].Status)
	b.finish(c, nexjob.EndSucceeded)
}

// uncertainWithoutEffect: a job may not wait for a verdict that nobody can give.
func uncertainWithoutEffect(b *bench) {
	c := b.run(newJob("k"))
	got := b.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndUncertain})[0]
	j := b.job(c.Job.ID)
	b.check(got.Err != nil || j.State != nexjob.Uncertain || !j.DueAt.IsZero(),
		"the job is Uncertain for ever: no effect is open, so no verdict can move it, and it is never due")
}

func settleBatch(b *bench) {
	first, second, third := b.run(newJob("")), b.run(newJob("")), b.run(newJob(""))
	b.finish(first, nexjob.EndSucceeded)
	got := b.settle(
		nexjob.Settlement{Lease: second.Job.Lease(), As: nexjob.EndSucceeded},
		nexjob.Settlement{Lease: first.Job.Lease(), As: nexjob.EndFailed},
		nexjob.Settlement{Lease: nexjob.Lease{Job: nexjob.NewID(), Fence: 1}, As: nexjob.EndSucceeded},
		nexjob.Settlement{Lease: third.Job.Lease(), As: nexjob.EndCrashed},
		nexjob.Settlement{Lease: third.Job.Lease(), As: nexjob.EndRetry},
	)
	b.check(got[0].Err == nil && got[0].State == nexjob.Succeeded, "a current lease is answered %+v", got[0])
	b.is(got[1].Err, nexjob.ErrLeaseLost, "another ending of an ended attempt")
	b.is(got[2].Err, nexjob.ErrLeaseLost, "an unknown job")
	b.is(got[3].Err, nexjob.ErrInvalid, "EndCrashed")
	b.check(got[4].Err == nil && got[4].State == nexjob.Enqueued, "a try that failed is answered %+v", got[4])
	b.state(first.Job.ID, nexjob.Succeeded, "a terminal state is never overwritten")
}

func newestAttemptsKept(b *bench) {
	n := newJob("")
	n.MaxAttempts = 1000
	b.add(n)
	var fences []int64
	for range nexjob.MaxAttemptsKept + 3 {
		c := b.claimOnly(n.ID)
		fences = append(fences, c.Job.Fence)
		b.finish(c, nexjob.EndRetry)
	}
	var kept []int64
	for _, a := range b.job(n.ID).Attempts {
		kept = append(kept, a.Fence)
	}
	b.equal("fences of the attempts kept", fences[3:], kept)
	b.equal("tries", nexjob.MaxAttemptsKept+3, b.job(n.ID).Tries)
}
