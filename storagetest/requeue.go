package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// requeueChecks are about putting an ended job back: a fresh budget under the key
// rule, the same operation unless asked for another.
func requeueChecks() []check {
	checks := []check{
		{"only the key's last job", requeueOnlyLast},
		{"item by item", requeueItems},
		{"a job without a key", func(b *bench) {
			n := newJob("")
			b.finish(b.run(n), nexjob.EndSucceeded)
			b.act(n.ID, nexjob.ActRequeue)
			b.claimOnly(n.ID)
		}},
		{"after the key's life, nobody else on it", requeueAfterLife},
		{"after the delete of the last job", func(b *bench) {
			first, second := newJob("k"), newJob("k")
			b.finish(b.run(first), nexjob.EndFailed)
			b.finish(b.run(second), nexjob.EndFailed)
			b.act(second.ID, nexjob.ActDelete)
			b.tryAmend(first.ID, nexjob.Action{Act: nexjob.ActRequeue})
			third := b.enqueue(newJob("k"))[0]
			b.must(third.Err, "Enqueue after the requeue")
			b.oneActivePerKey()
		}},
		{"what later jobs of the operation recorded", requeueAfterLater},
		{"a cleared key", func(b *bench) {
			n := newJob("k")
			b.finish(b.run(n), nexjob.EndFailed)
			b.act(n.ID, nexjob.ActClearKey)
			b.act(n.ID, nexjob.ActRequeue)
			got := b.enqueue(under(nexjob.RejectAlways, newJob("k")))[0]
			b.check(got.Outcome == nexjob.Existing && got.ID == n.ID, "while the requeued job is active: %+v", got)
		}},
		{"of an active job", func(b *bench) {
			for _, p := range pasts() {
				if p.state.Active() {
					j := p.build(b, p.name)
					b.refused(j.ID, nexjob.Action{Act: nexjob.ActRequeue})
					if j.State == nexjob.Enqueued || j.State == nexjob.Scheduled {
						b.act(j.ID, nexjob.ActDelete)
					}
				}
			}
		}},
		{"history is kept", func(b *bench) {
			c := b.run(newJob("k"))
			b.finish(c, nexjob.EndFailed)
			b.act(c.Job.ID, nexjob.ActRequeue)
			b.equal("attempts kept", 1, len(b.job(c.Job.ID).Attempts))
		}},
	}
	for _, e := range ends() {
		for _, fresh := range []bool{false, true} {
			checks = append(checks, check{
				fmt.Sprintf("%s/new operation %v", e.name, fresh), func(b *bench) { requeued(b, e, fresh) },
			})
		}
	}
	return checks
}

// requeueAfterLater: the receipts are the operation's, so a former job that is put
// back sees what the job that continued it has done, and guards it.
func requeueAfterLater(b *bench) {
	first, second := newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndFailed)
	c := b.run(second)
	b.write(b.intent(c, "card"))
	b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
	b.write(step(c, "render", "page"))
	b.finish(c, nexjob.EndSucceeded)
	b.act(second.ID, nexjob.ActPurge)
	b.refused(first.ID, nexjob.Action{Act: nexjob.ActDelete})
	b.act(first.ID, nexjob.ActRequeue)
	again := b.claimOnly(first.ID)
	b.equal("receipts claimed", b.receipts(first.ID), again.Receipts)
	b.equal("receipts claimed", 2, len(again.Receipts))
	b.equal("receipts and bytes counted", []int{2, len("paid") + len("page")},
		[]int{again.Job.ReceiptCount, again.Job.ReceiptBytes})
}

func requeued(b *bench, e end, fresh bool) {
	n := newJob("k")
	n.MaxAttempts = 2
	last := e.reach(b, n)
	b.pass(time.Second)
	change := b.actWith(n.ID, nexjob.Action{Act: nexjob.ActRequeue, NewOperation: fresh})
	b.equal("state answered", nexjob.Enqueued, change.State)
	j := b.state(n.ID, nexjob.Enqueued, "requeued")
	b.equal("tries, crashes", []int{0, 0}, []int{j.Tries, j.Crashes})
	b.equal("due time", b.now(), j.DueAt)
	b.check(j.EndedAt.IsZero() && !j.Started && j.Deadline.IsZero() && j.Wished == 0,
		"ended %s, started %v, deadline %s, wished %s", j.EndedAt, j.Started, j.Deadline, j.Wished)
	b.check(j.Fence == last.Fence, "the fence went from %d to %d", last.Fence, j.Fence)
	b.check((j.Operation != last.Operation) == fresh, "operation %s, before %s", j.Operation, last.Operation)
	row, held := b.key("k")
	b.check(held && row.Job == n.ID && row.Operation == j.Operation && row.Until.IsZero(), "standing of the key: %+v", row)
	for _, policy := range nexjob.Policies() {
		got := b.enqueue(under(policy, newJob("k")))[0]
		b.check(got.Err == nil && got.Outcome == nexjob.Existing && got.ID == n.ID, "under %s: %+v", policy, got)
	}
	c := b.claimOnly(n.ID)
	b.check(c.Job.Fence > last.Fence, "fence %d after %d", c.Job.Fence, last.Fence)
	b.finish(c, nexjob.EndRetry) // the budget is fresh
	b.finish(b.claimOnly(n.ID), nexjob.EndSucceeded)
}

func requeueOnlyLast(b *bench) {
	first, second := newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndFailed)
	c := b.run(second)
	holder := func(when string) {
		b.t.Helper()
		change := b.refused(first.ID, nexjob.Action{Act: nexjob.ActRequeue})
		b.is(change.Err, nexjob.ErrDuplicateJob, "requeue "+when)
		duplicate := as[*nexjob.DuplicateJobError](b, change.Err, "requeue "+when)
		b.check(duplicate.ExistingJobID == second.ID && duplicate.IdempotencyKey == "k", "holder named %s: %+v", when, duplicate)
	}
	holder("while the key's last job runs")
	b.finish(c, nexjob.EndSucceeded)
	holder("after the key's last job has ended")
	b.act(second.ID, nexjob.ActRequeue)
}

func requeueItems(b *bench) {
	var jobs []nexjob.NewJob
	for i := range 6 {
		n := newJob(fmt.Sprintf("k%d", i/2)) // two of each key
		jobs = append(jobs, n)
		b.finish(b.run(n), nexjob.EndFailed)
	}
	amended := b.amend(nexjob.Query{States: []nexjob.State{nexjob.Failed}}, nexjob.Action{Act: nexjob.ActRequeue})
	b.need(len(amended.Changes) == 6 && amended.Done() == 3, "changes: %+v", amended.Changes)
	for i, change := range amended.Changes {
		b.check(change.Job == jobs[i].ID && change.Done == (i%2 == 1), "change %d: %+v", i, change)
		if i%2 == 0 {
			holder := as[*nexjob.DuplicateJobError](b, change.Err, "requeue of a former job").ExistingJobID
			b.equal("holder named", jobs[i+1].ID, holder)
		}
	}
}

// requeueAfterLife: two records stand and their key's life is over. Whatever the
// answers, the key has one active job.
func requeueAfterLife(b *bench) {
	first, second := keeping(time.Minute), newJob("k")
	first.DuplicatePolicy = nexjob.AllowAfterFailed
	second.KeepKeyFor = time.Minute
	b.finish(b.run(first), nexjob.EndFailed)
	b.finish(b.run(second), nexjob.EndFailed)
	b.pass(time.Hour)
	amended := b.amend(nexjob.Query{States: []nexjob.State{nexjob.Failed}}, nexjob.Action{Act: nexjob.ActRequeue})
	b.check(amended.Done() <= 1, "both jobs of a key were requeued: %+v", amended.Changes)
	b.oneActivePerKey()
	if amended.Done() == 1 {
		got := b.enqueue(newJob("k"))[0]
		b.check(got.Outcome == nexjob.Existing, "the requeued job does not hold its key: %+v", got)
	}
}
