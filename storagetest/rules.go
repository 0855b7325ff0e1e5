package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// ruleChecks name the written rules of the corner cases one by one, as far as an
// engine has to keep them, and point to what tries them. The rules that only a
// caller's transaction shows stand in ruleTxChecks.
func ruleChecks() []check {
	return []check{
		{"Replace: has not started", replaceOnlyUnstarted},
		{"Replace × args × StrictArgs × operation", func(b *bench) {
			first := b.add(newJob("k"))
			n := replacing("k")
			n.StrictArgs = true
			b.replaced(first.ID, n)
			n = replacing("k")
			n.Kind = ship
			b.is(b.enqueue(n)[0].Err, nexjob.ErrKeyMismatch, "Replace with another kind")
		}},
		{"Replace × parents", replaceChild},
		{"Replace × a claim at the same moment", replaceOrClaim},
		{"child enqueued under a held key", heldChild},
		{"follower in a settlement rejected or mismatched", followerRefused},
		{"on failure: Failed or Expired, never Cancelled or deleted", onFailure},
		{"an unknown parent is an error for that item", unknownParent},
		{"continuation × requeue of the parent", requeuedParent},
		{"snooze or retry beyond the deadline", func(b *bench) {
			clamped(b, nexjob.EndSnoozed)
		}},
		{"deadline of a job nobody claims", upkeepExpires},
		{"deadline while Processing", func(b *bench) {
			n := dated("k")
			c := b.run(n)
			b.pass(lease / 2)
			b.renew(c.Job.Lease())
			b.pass(2 * time.Hour)
			b.unchanged("upkeep while the attempt goes on", func() { b.tryAmend(n.ID, nexjob.Action{Act: nexjob.ActExpire}) })
			b.finish(c, nexjob.EndRetry)
			b.claimNone("the next claim checks the deadline")
			b.state(n.ID, nexjob.Expired, "the next claim checks the deadline")
		}},
		{"cancel while Processing: nil", func(b *bench) { cancelledThen(b, nexjob.EndSucceeded, nexjob.Succeeded) }},
		{"cancel while Processing: error", func(b *bench) { cancelledThen(b, nexjob.EndRetry, nexjob.Cancelled) }},
		{"cancel while Processing: worker dead", workerDeadAfterCancel},
		{"equal keys in one batch", equalKeysInOrder},
		{"repeated settlement after purge or requeue", repeatAfterGone},
		{"Find and Count take now; Amend answers per job", requeueItems},
		{"one bad item is isolated", badItems},
		{"fences grow over attempts, requeues, re-enqueues and re-creations", fencesGrow},
	}
}

// ruleTxChecks are the written rules that a caller's transaction shows.
func ruleTxChecks() []check {
	return []check{
		{"CompleteIn × stop flag", func(b *bench) {
			c := b.run(newJob("k"))
			b.act(c.Job.ID, nexjob.ActCancel)
			tx := b.begin()
			b.equal("state", nexjob.Succeeded, tx.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}).State)
			tx.commit()
			b.state(c.Job.ID, nexjob.Succeeded, "the transaction that completes it has committed")
		}},
		{"a now that is off is refused inside too", func(b *bench) {
			tx := b.begin()
			_, err := tx.joined.Enqueue(b.ctx, b.now().Add(time.Minute), []nexjob.NewJob{newJob("k")})
			b.is(err, nexjob.ErrClock, "Enqueue in the transaction with a now that is off by a minute")
			tx.rollback()
		}},
	}
}

// replaceOnlyUnstarted follows one holder: it is replaced until it is claimed, and
// again after a requeue.
func replaceOnlyUnstarted(b *bench) {
	first := b.add(newJob("k"))
	b.replaced(first.ID, replacing("k"))
	c := b.claimOnly(first.ID)
	b.hasStartedWith(first.ID, argsOne)
	b.finish(c, nexjob.EndRetry)
	b.hasStartedWith(first.ID, argsOne)
	b.finish(b.claimOnly(first.ID), nexjob.EndFailed)
	b.act(first.ID, nexjob.ActRequeue)
	b.replaced(first.ID, replacing("k"))
}

func followerRefused(b *bench) {
	ended := under(nexjob.RejectAlways, newJob("ended"))
	b.finish(b.run(ended), nexjob.EndSucceeded)
	active := newJob("active")
	active.Delay = time.Hour
	b.add(active)
	c := b.run(newJob("k"))
	other := newJob("active")
	other.Kind = ship
	rejected := under(nexjob.RejectAlways, newJob("ended"))
	got := b.succeedWith(c, rejected, other, newJob("fresh"))
	b.is(got[0].Err, nexjob.ErrDuplicateJob, "the rejected follower")
	b.is(got[1].Err, nexjob.ErrKeyMismatch, "the mismatched follower")
	b.check(got[2].Outcome == nexjob.Created, "their neighbour: %+v", got[2])
	var kept []nexjob.Outcome
	for _, f := range b.state(c.Job.ID, nexjob.Succeeded, "the settlement stands").Followers {
		kept = append(kept, f.Outcome)
	}
	b.equal("outcomes kept on the job", []nexjob.Outcome{nexjob.Rejected, nexjob.Mismatched}, kept)
}

func onFailure(b *bench) {
	for _, e := range parentEnds() {
		attachBefore(open(b.t, b.h), e, nexjob.OnFailure)
	}
}

func cancelledThen(b *bench, how nexjob.Ending, want nexjob.State) {
	c := b.run(newJob("k"))
	b.act(c.Job.ID, nexjob.ActCancel)
	got := b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how, Delay: delayOf(how), Error: "gave way"})
	b.equal("state answered", want, got.State)
	j := b.state(c.Job.ID, want, "cancelled while processing, then "+how.String())
	b.check(j.EndedAt.Equal(b.now()), "ended at %s", j.EndedAt)
	b.check(want == nexjob.Succeeded || j.Reason != "", "cancelled without a reason")
	b.claimNone("it has ended")
}

func workerDeadAfterCancel(b *bench) {
	c := b.run(newJob("k"))
	b.act(c.Job.ID, nexjob.ActCancel)
	b.pass(over)
	b.claimNone("somebody asked to cancel it")
	j := b.state(c.Job.ID, nexjob.Cancelled, "its worker died after the cancel")
	b.equal("crashes", 1, j.Crashes)
}
