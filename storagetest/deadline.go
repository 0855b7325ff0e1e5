package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// deadlineChecks are about jobs that may not start any more: a claim ends them, and
// upkeep where no claim comes by.
func deadlineChecks() []check {
	return []check{
		{"a claim expires what is late", func(b *bench) {
			n := dated("k")
			b.add(n)
			b.pass(time.Hour + time.Second)
			b.claimNone("its deadline has passed")
			j := b.state(n.ID, nexjob.Expired, "its deadline has passed")
			b.check(j.Reason != "" && j.EndedAt.Equal(b.now()) && j.Tries == 0 && j.Fence == 0, "expired job: %+v", j)
		}},
		{"a claim takes what is behind a late job", func(b *bench) {
			for range 20 {
				b.add(dated(""))
			}
			b.pass(time.Hour + time.Second)
			n := newJob("")
			b.add(n)
			b.claimOnly(n.ID)
		}},
		{"before its deadline a job is claimed", func(b *bench) {
			n := dated("")
			b.add(n)
			b.pass(time.Hour - time.Second)
			c := b.claimOnly(n.ID)
			b.pass(10 * time.Second)
			b.equal("an attempt under way goes on past the deadline", nexjob.Succeeded, b.finish(c, nexjob.EndSucceeded).State)
		}},
		{"a retry beyond the deadline is clamped", func(b *bench) { clamped(b, nexjob.EndRetry) }},
		{"a snooze beyond the deadline is clamped", func(b *bench) { clamped(b, nexjob.EndSnoozed) }},
		{"a crash past the deadline expires", func(b *bench) {
			n := dated("k")
			b.add(n)
			b.pass(time.Hour - time.Second)
			b.claimOnly(n.ID)
			b.pass(over)
			b.claimNone("its deadline has passed")
			j := b.state(n.ID, nexjob.Expired, "the next claim checks the deadline")
			b.equal("crashes", 1, j.Crashes)
		}},
		{"upkeep expires what nobody claims", upkeepExpires},
		{"upkeep spares what is not late or runs", upkeepSpares},
		{"expiry releases the key as the policy says", func(b *bench) {
			n := dated("k")
			b.add(n)
			b.pass(time.Hour + time.Second)
			b.act(n.ID, nexjob.ActExpire)
			b.is(b.enqueue(under(nexjob.RejectAlways, newJob("k")))[0].Err, nexjob.ErrDuplicateJob, "RejectAlways")
			b.add(under(nexjob.RejectIfFailed, newJob("k")))
		}},
		{"a requeue drops a passed deadline", func(b *bench) {
			n := dated("k")
			b.add(n)
			b.pass(time.Hour + time.Second)
			b.act(n.ID, nexjob.ActExpire)
			b.act(n.ID, nexjob.ActRequeue)
			b.check(b.job(n.ID).Deadline.IsZero(), "a requeued job keeps the passed deadline %s", b.job(n.ID).Deadline)
			b.claimOnly(n.ID)
		}},
		{"a requeue keeps a deadline ahead", func(b *bench) {
			n := dated("k")
			b.finish(b.run(n), nexjob.EndFailed)
			b.act(n.ID, nexjob.ActRequeue)
			b.check(!b.job(n.ID).Deadline.IsZero(), "a requeued job lost its deadline")
		}},
		{"a deadline that has passed at the enqueue", func(b *bench) {
			n := newJob("k")
			n.Deadline = b.now().Add(-time.Minute)
			got := b.enqueue(n)[0]
			b.must(got.Err, "Enqueue past the deadline")
			b.claimNone("its deadline has passed")
			b.state(n.ID, nexjob.Expired, "its deadline has passed")
		}},
		{"deadline counted from the enqueue", func(b *bench) {
			n := newJob("")
			n.DeadlineAfter = time.Minute
			b.add(n)
			b.equal("deadline", b.now().Add(time.Minute), b.job(n.ID).Deadline)
		}},
		{"the deadline does not touch an uncertain job", func(b *bench) {
			n := dated("k")
			c := b.run(n)
			b.write(b.intent(c, "card"))
			b.finish(c, nexjob.EndUncertain)
			b.pass(2 * time.Hour)
			b.claimNone("it is uncertain")
			b.refused(n.ID, nexjob.Action{Act: nexjob.ActExpire})
			b.state(n.ID, nexjob.Uncertain, "only a verdict moves it")
		}},
	}
}

// dated is a job with a deadline of an hour.
func dated(key string) nexjob.NewJob {
	n := newJob(key)
	n.DeadlineAfter = time.Hour
	return n
}

func clamped(b *bench, how nexjob.Ending) {
	n := dated("k")
	c := b.run(n)
	deadline := b.now().Add(time.Hour)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how, Delay: 5 * time.Hour})
	j := b.state(n.ID, nexjob.Scheduled, "it waits for its deadline")
	b.equal("due time", deadline, j.DueAt)
	b.pass(time.Hour + time.Millisecond)
	b.claimNone("its deadline has passed")
	b.state(n.ID, nexjob.Expired, "it expires on time, not at the due time that was asked for")
}

// upkeepExpires covers those that no claim comes by: another queue, an unserved
// kind, a child, a job scheduled beyond its deadline, one between two tries.
func upkeepExpires(b *bench) {
	paused, unserved, child, beyond, retrying := dated("paused"), dated("unserved"), dated("child"), dated("beyond"), dated("retrying")
	parent := newJob("")
	parent.Queue = "parents"
	b.add(parent)
	paused.Queue, unserved.Kind, beyond.Delay = "paused", "unheard-of", 3*time.Hour
	child.Parents = []nexjob.Parent{{ID: parent.ID}}
	c := b.run(retrying)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndRetry, Delay: 3 * time.Hour})
	late := []nexjob.NewJob{paused, unserved, child, beyond}
	b.enqueue(late...)
	b.pass(time.Hour + time.Second)
	amended := b.amend(nexjob.Query{DeadlineBefore: b.now()}, nexjob.Action{Act: nexjob.ActExpire})
	b.equal("jobs expired", len(late)+1, amended.Done())
	for _, n := range append(late, retrying) {
		j := b.state(n.ID, nexjob.Expired, "upkeep came by")
		b.check(j.Reason != "" && j.EndedAt.Equal(b.now()), "%s: expired at %s for the reason %q", n.IdempotencyKey, j.EndedAt, j.Reason)
	}
}

func upkeepSpares(b *bench) {
	running := b.run(dated("running"))
	ahead, without := dated("ahead"), newJob("without")
	b.pass(30 * time.Minute)
	b.add(ahead)
	b.add(without)
	b.pass(31 * time.Minute) // running is late and runs; the others are not late
	b.unchanged("upkeep of jobs that are not late", func() {
		for _, id := range []nexjob.ID{running.Job.ID, ahead.ID, without.ID} {
			change := b.tryAmend(id, nexjob.Action{Act: nexjob.ActExpire})
			b.check(!change.Done, "job %s was expired", id)
		}
	})
	b.finish(running, nexjob.EndSucceeded)
}
