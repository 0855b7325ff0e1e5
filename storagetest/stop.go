package storagetest

import (
	"github.com/nexjob/nexjob"
)

// stopChecks are about cancelling: a waiting job at once, a processing one by a
// flag that its attempt may answer.
func stopChecks() []check {
	checks := []check{
		{"a waiting job is cancelled at once", func(b *bench) {
			for _, build := range []func(b *bench, key string) nexjob.Job{
				func(b *bench, key string) nexjob.Job { return b.job(b.add(newJob(key)).ID) }, buildScheduled, buildAwaiting,
			} {
				j := build(b, "k")
				change := b.actWith(j.ID, nexjob.Action{Act: nexjob.ActCancel, Reason: "not wanted"})
				b.equal("state answered", nexjob.Cancelled, change.State)
				got := b.state(j.ID, nexjob.Cancelled, "cancelled while it waited")
				b.check(got.EndedAt.Equal(b.now()) && got.Reason != "", "cancelled at %s for the reason %q", got.EndedAt, got.Reason)
			}
			b.claimNone("all are cancelled")
		}},
		{"a processing job is asked to stop", func(b *bench) {
			c := b.run(newJob("k"))
			change := b.actWith(c.Job.ID, nexjob.Action{Act: nexjob.ActCancel, Reason: "not wanted"})
			b.equal("state answered", nexjob.Processing, change.State)
			j := b.state(c.Job.ID, nexjob.Processing, "it is only asked")
			b.check(j.Stop && j.StopReason != "", "stop: %v, reason %q", j.Stop, j.StopReason)
			got := b.enqueue(newJob("k"))[0]
			b.check(got.Outcome == nexjob.Existing, "while it stops it holds its key: %+v", got)
		}},
		{"an ended job cannot be cancelled", func(b *bench) {
			for _, e := range ends() {
				j := e.reach(b, newJob(e.name))
				b.unchanged("cancelling a job that has ended", func() {
					b.tryAmend(j.ID, nexjob.Action{Act: nexjob.ActCancel})
				})
			}
		}},
		{"the worker dies: cancelled by the claim, never rerun", workerDeadAfterCancel},
		{"handed back: not rerun", func(b *bench) {
			c := b.run(newJob("k"))
			b.act(c.Job.ID, nexjob.ActCancel)
			b.finish(c, nexjob.EndInterrupted)
			b.claimNone("somebody asked to cancel it")
			b.state(c.Job.ID, nexjob.Cancelled, "handed back after the cancel")
		}},
		{"a requeue forgets the stop", func(b *bench) {
			c := b.run(newJob("k"))
			b.act(c.Job.ID, nexjob.ActCancel)
			b.finish(c, nexjob.EndCancelled)
			b.act(c.Job.ID, nexjob.ActRequeue)
			j := b.state(c.Job.ID, nexjob.Enqueued, "requeued")
			b.check(!j.Stop && j.StopReason == "", "a requeued job is still asked to stop: %q", j.StopReason)
			c = b.claimOnly(c.Job.ID)
			b.check(!b.renew(c.Job.Lease())[0].Stop, "the new attempt is asked to stop")
			b.equal("state", nexjob.Enqueued, b.finish(c, nexjob.EndRetry).State)
		}},
	}
	for _, how := range []nexjob.Ending{
		nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndRetry, nexjob.EndSnoozed, nexjob.EndCancelled,
	} {
		want := nexjob.Cancelled
		if how == nexjob.EndSucceeded {
			want = nexjob.Succeeded // the work is done
		}
		checks = append(checks, check{"then " + how.String(), func(b *bench) { cancelledThen(b, how, want) }})
	}
	return checks
}
