package storagetest

import (
	"fmt"

	"github.com/nexjob/nexjob"
)

// requeuePathChecks are the policy table on the path of the requeue: a job that had
// the key before it came to each past wants it back, and then every policy meets
// what came of that.
func requeuePathChecks() []check {
	var checks []check
	for _, p := range pasts() {
		checks = append(checks, check{"a former job/" + p.name, func(b *bench) { requeueFormer(b, p) }})
		if p.state != 0 && !p.recordGone {
			checks = append(checks, check{"the last job/" + p.name, func(b *bench) { requeueLast(b, p) }})
		}
	}
	return checks
}

// requeueFormer: who had the key before gets it back only if nobody holds it now.
func requeueFormer(b *bench, p past) {
	former := newJob("order-42")
	b.finish(b.run(former), nexjob.EndSucceeded)
	last := p.build(b, "order-42")
	row, held := b.key("order-42")
	if held && row.Job != former.ID {
		change := b.refused(former.ID, nexjob.Action{Act: nexjob.ActRequeue})
		b.is(change.Err, nexjob.ErrDuplicateJob, "requeue of a former job")
		duplicate := as[*nexjob.DuplicateJobError](b, change.Err, "requeue of a former job")
		b.equal("holder named", last.ID, duplicate.ExistingJobID)
		after, _ := b.key("order-42")
		b.equal("the key's standing after a refused requeue", row, after)
		return
	}
	b.check(p.state == 0, "a key whose last job is %s has no row of it", p.state)
	b.act(former.ID, nexjob.ActRequeue)
	b.holdsAgain(former.ID, "order-42")
}

// requeueLast: a key's last job may be put back once it has ended, whatever policy
// rejects a new one.
func requeueLast(b *bench, p past) {
	last := p.build(b, "order-42")
	if p.state.Active() {
		b.refused(last.ID, nexjob.Action{Act: nexjob.ActRequeue})
		return
	}
	b.act(last.ID, nexjob.ActRequeue)
	b.holdsAgain(last.ID, "order-42")
}

// holdsAgain requires that a requeued job is the key's active holder for all.
func (b *bench) holdsAgain(id nexjob.ID, key string) {
	b.t.Helper()
	holder := b.job(id)
	b.check(holder.State.Active(), "the requeued job is %s", holder.State)
	for _, policy := range nexjob.Policies() {
		got := b.enqueue(under(policy, newJob(key)))[0]
		b.must(got.Err, fmt.Sprintf("Enqueue under %s while the requeued job is active", policy))
		b.equal(fmt.Sprintf("answer under %s", policy), nexjob.Answer{
			ID: id, Outcome: nexjob.Existing, State: holder.State, Operation: holder.Operation,
		}, got)
		b.equal("ruling of the table", nexjob.RuleExisting, ruling(policy, holder.State))
	}
}
