package storagetest

import (
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// recoveryChecks are about leases that ran out: a crash is not a try, the first is
// run at once, later ones back off, and a job that keeps killing its workers ends.
func recoveryChecks() []check {
	return []check{
		{"the first crash is run at once", firstCrash},
		{"a later crash backs off", laterCrash},
		{"the back-off is jittered", crashJitter},
		{"the crash limit ends the job", crashLimit},
		{"the default limit", defaultCrashLimit},
		{"a live lease is left alone", liveLease},
		{"a renewed lease is left alone", renewedLease},
		{"n = 0 recovers and claims nothing", recoverOnly},
		{"Recover bounds the work", recoverBounded},
		{"a crash is recovered once", crashOnce},
		{"a recovered job is not given to whom it is not for", recoveredForOthers},
		{"the attempt is kept", crashKept},
		{"a requeue resets the crashes", func(b *bench) {
			id := crashToDeath(b, 2)
			b.act(id, nexjob.ActRequeue)
			j := b.state(id, nexjob.Enqueued, "requeued")
			b.check(j.Crashes == 0 && j.Tries == 0, "a requeued job has %d crashes and %d tries", j.Crashes, j.Tries)
			b.claimOnly(id)
		}},
		{"the receipts of the crashed attempt are there", func(b *bench) {
			c := b.run(newJob(""))
			b.write(step(c, "render", "page 1"))
			b.pass(over)
			b.equal("receipts claimed", 1, len(b.claimOnly(c.Job.ID).Receipts))
		}},
	}
}

// upkeep claims nothing and recovers.
func (b *bench) upkeep(limit int) {
	b.t.Helper()
	claimed := b.ask(nexjob.ClaimRequest{Worker: "upkeep", Lease: lease, CrashLimit: limit})
	b.need(len(claimed) == 0, "Claim of 0 jobs gives %d", len(claimed))
}

func firstCrash(b *bench) {
	first := b.run(newJob("k"))
	b.pass(over)
	second := b.claimOnly(first.Job.ID)
	b.check(second.Job.Fence > first.Job.Fence, "fence %d after %d", second.Job.Fence, first.Job.Fence)
	b.check(second.Job.Crashes == 1 && second.Job.Tries == 0 && second.Job.Interruptions == 0,
		"after a crash: %d crashes, %d tries, %d interruptions", second.Job.Crashes, second.Job.Tries, second.Job.Interruptions)
	b.check(second.Job.StartedAt.Equal(b.now()), "the new attempt started at %s", second.Job.StartedAt)
}

func laterCrash(b *bench) {
	c := b.run(newJob("k"))
	b.pass(over)
	b.claimOnly(c.Job.ID)
	b.pass(over)
	b.claimNone("a second crash is not run in the same step")
	j := b.state(c.Job.ID, nexjob.Scheduled, "it backs off")
	b.check(j.Crashes == 2 && j.Tries == 0, "after two crashes: %d crashes, %d tries", j.Crashes, j.Tries)
	b.check(j.DueAt.After(b.now()), "due at %s, now %s", j.DueAt, b.now())
	b.pass(j.DueAt.Sub(b.now()))
	b.claimOnly(c.Job.ID)
}

func crashJitter(b *bench) {
	const n = 30
	for range n {
		b.add(newJob(""))
	}
	b.equal("claimed", n, len(b.claim(n)))
	b.pass(over)
	b.equal("claimed after the first crash", n, len(b.claim(n)))
	b.pass(over)
	b.equal("claimed after the second crash", 0, len(b.claim(n)))
	dues := make(map[time.Time]bool)
	for _, j := range b.dump().Jobs {
		b.check(j.Crashes == 2 && j.DueAt.After(b.now()), "job %s: %d crashes, due at %s", j.ID, j.Crashes, j.DueAt)
		dues[j.DueAt] = true
	}
	b.check(len(dues) > n/2, "%d jobs that crashed together are due at only %d instants: they run in lock-step", n, len(dues))
}

// crashToDeath lets leases run out until the limit ends the job.
func crashToDeath(b *bench, limit int) nexjob.ID {
	n := newJob("k")
	b.add(n)
	ask := claimAsk(1)
	ask.CrashLimit = limit
	for crashes := range limit {
		claimed := b.ask(ask)
		b.need(len(claimed) == 1 && claimed[0].Job.Crashes == crashes, "after %d crashes of %d Claim gives %+v, and the job is %+v",
			crashes, limit, claimed, b.job(n.ID))
		b.pass(over)
		b.upkeep(limit)
		if due := b.job(n.ID).DueAt; due.After(b.now()) {
			b.pass(due.Sub(b.now()))
		}
	}
	j := b.state(n.ID, nexjob.Failed, "the crash limit is reached")
	b.check(j.Crashes == limit && j.Tries == 0, "at the limit of %d: %d crashes, %d tries", limit, j.Crashes, j.Tries)
	b.check(strings.Contains(j.Reason, "worker lost"), "the reason is %q, want one that says worker lost", j.Reason)
	return n.ID
}

func crashLimit(b *bench) {
	crashToDeath(b, 1)
	crashToDeath(b, 3)
	got := b.enqueue(under(nexjob.RejectIfFailed, newJob("k")))[0]
	b.is(got.Err, nexjob.ErrDuplicateJob, "Enqueue under RejectIfFailed after worker lost")
}

func defaultCrashLimit(b *bench) {
	n := newJob("k")
	b.add(n)
	for crashes := range nexjob.DefaultCrashLimit {
		b.need(len(b.claim(1)) == 1, "after %d crashes the job is %+v", crashes, b.job(n.ID))
		b.pass(over)
		b.upkeep(0)
		if due := b.job(n.ID).DueAt; due.After(b.now()) {
			b.pass(due.Sub(b.now()))
		}
	}
	b.state(n.ID, nexjob.Failed, "the default crash limit is reached")
}

func liveLease(b *bench) {
	c := b.run(newJob(""))
	b.pass(lease - time.Millisecond)
	b.unchanged("recovery of live leases", func() {
		b.upkeep(0)
		b.claimNone("its lease runs")
	})
	b.finish(c, nexjob.EndSucceeded)
}

func renewedLease(b *bench) {
	c := b.run(newJob(""))
	for range 5 {
		b.pass(lease - time.Second)
		renewal := b.renew(c.Job.Lease())[0]
		b.need(renewal.Status == nexjob.Renewed, "Renew of a current lease is answered %+v", renewal)
		b.upkeep(0)
	}
	j := b.state(c.Job.ID, nexjob.Processing, "it was renewed")
	b.check(j.Crashes == 0 && j.Fence == c.Job.Fence, "a renewed job was recovered: %+v", j)
	b.finish(c, nexjob.EndSucceeded)
}

func recoverOnly(b *bench) {
	c := b.run(newJob(""))
	waiting := b.add(newJob(""))
	b.pass(over)
	b.upkeep(0)
	j := b.state(c.Job.ID, nexjob.Enqueued, "the first crash is due at once")
	b.check(j.Crashes == 1, "crashes: %d", j.Crashes)
	b.state(waiting.ID, nexjob.Enqueued, "n = 0 claims nothing")
}

func recoverBounded(b *bench) {
	for range 5 {
		b.add(newJob(""))
	}
	b.equal("claimed", 5, len(b.claim(5)))
	b.pass(over)
	recovered := 0
	for range 5 {
		b.ask(nexjob.ClaimRequest{Worker: "upkeep", Lease: lease, Recover: 2})
		now := len(b.find(nexjob.Query{States: []nexjob.State{nexjob.Enqueued}}).Jobs)
		b.check(now-recovered <= 2, "one claim with Recover 2 recovered %d leases", now-recovered)
		recovered = now
	}
	b.equal("recovered in the end", 5, recovered)
}

func crashOnce(b *bench) {
	c := b.run(newJob(""))
	b.pass(over)
	for range 3 {
		b.upkeep(0)
	}
	b.equal("crashes", 1, b.job(c.Job.ID).Crashes)
}

func recoveredForOthers(b *bench) {
	c := b.run(newJob(""))
	b.pass(over)
	ask := nexjob.ClaimRequest{Worker: "w2", N: 5, Lease: lease, Queues: []string{otherQueue}, Kinds: []string{ship}}
	b.equal("claimed by a worker of other queues and kinds", 0, len(b.ask(ask)))
	b.upkeep(0)
	b.claimOnly(c.Job.ID)
}

func crashKept(b *bench) {
	c := b.run(newJob(""))
	started := b.now()
	b.pass(over)
	b.upkeep(0)
	attempts := b.job(c.Job.ID).Attempts
	b.need(len(attempts) == 1, "a crashed job keeps %d attempts, want 1", len(attempts))
	got := attempts[0]
	b.check(got.Fence == c.Job.Fence && got.Ending == nexjob.EndCrashed && got.Worker == c.Job.Worker && got.Started.Equal(started),
		"attempt kept: %+v", got)
}
