package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// What follows are the rules of parents over time: when a child is due, what a
// requeue revives, and what happens to children that wait.

func dueFromRelease(b *bench) {
	parent := newJob("")
	b.add(parent)
	child := childOf("", on(nexjob.OnSuccess, parent.ID))
	child.Delay = time.Hour
	b.add(child)
	b.pass(50 * time.Minute)
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	released := b.now()
	b.equal("due time", released.Add(time.Hour), b.state(child.ID, nexjob.Scheduled, "its delay counts from release").DueAt)
	late := childOf("", on(nexjob.OnSuccess, parent.ID))
	late.Delay = time.Hour
	b.pass(time.Minute)
	b.equal("state answered", nexjob.Scheduled, b.add(late).State)
	b.equal("due time of a child attached after the end", b.now().Add(time.Hour), b.job(late.ID).DueAt)
}

func dueAtAfterRelease(b *bench) {
	parent := newJob("")
	b.add(parent)
	child := childOf("", on(nexjob.OnSuccess, parent.ID))
	child.DueAt = b.now().Add(2 * time.Hour)
	b.add(child)
	b.pass(time.Hour)
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	b.equal("due time", child.DueAt, b.state(child.ID, nexjob.Scheduled, "its due time lies ahead").DueAt)
}

func requeuedParent(b *bench) {
	parent := newJob("")
	b.add(parent)
	success, failure := childOf("s", on(nexjob.OnSuccess, parent.ID)), childOf("f", on(nexjob.OnFailure, parent.ID))
	b.add(success)
	b.add(failure)
	b.finish(b.claimOnly(parent.ID), nexjob.EndFailed)
	b.decided(success.ID, nexjob.Cancelled, "its parent failed")
	b.finish(b.claimOnly(failure.ID), nexjob.EndSucceeded)
	b.act(parent.ID, nexjob.ActRequeue)
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	b.state(success.ID, nexjob.Cancelled, "a requeue revives no children")
	b.act(parent.ID, nexjob.ActRequeue)
	b.finish(b.claimOnly(parent.ID), nexjob.EndFailed)
	b.state(failure.ID, nexjob.Succeeded, "the parent's second failure fires nothing")
	b.claimNone("nothing was fired a second time")
}

func requeuedInFanIn(b *bench) {
	first, second := newJob(""), newJob("")
	b.add(first)
	b.add(second)
	child := childOf("", on(nexjob.OnFailure, first.ID), on(nexjob.OnSuccess, second.ID))
	b.add(child)
	b.finish(b.claimOnly(first.ID), nexjob.EndFailed)
	b.act(first.ID, nexjob.ActRequeue)
	ask := claimAsk(2)
	claimed := b.ask(ask)
	b.need(len(claimed) == 2, "both parents can be claimed: %+v", claimed)
	for _, c := range claimed {
		b.finish(c, nexjob.EndSucceeded)
	}
	b.decided(child.ID, nexjob.Enqueued, "the first parent was decided by its first end, a failure")
}

func requeuedChild(b *bench) {
	parent := newJob("")
	b.add(parent)
	child := childOf("c", on(nexjob.OnSuccess, parent.ID))
	b.add(child)
	b.finish(b.claimOnly(parent.ID), nexjob.EndFailed)
	b.decided(child.ID, nexjob.Cancelled, "its parent failed")
	b.act(child.ID, nexjob.ActRequeue)
	b.claimOnly(child.ID) // a person's requeue runs it: its parents are decided
}

func heldChild(b *bench) {
	parent := b.add(newJob("p"))
	holder := newJob("k")
	holder.Delay = time.Hour
	b.add(holder)
	before := b.job(holder.ID)
	got := b.enqueue(childOf("k", on(nexjob.OnSuccess, parent.ID)))[0]
	b.check(got.Err == nil && got.Outcome == nexjob.Existing && got.ID == holder.ID, "a child under a held key: %+v", got)
	b.equal("the holder", before, b.job(holder.ID))
	kept := b.job(parent.ID).Followers
	b.check(len(kept) == 1 && kept[0].ID == holder.ID && kept[0].Key == "k" && kept[0].Outcome == nexjob.Existing,
		"the answer is recorded on the parent as %+v", kept)
	b.finish(b.claimOnly(parent.ID), nexjob.EndFailed)
	b.equal("the holder after the parent's end", before, b.job(holder.ID))
}

func childrenFound(b *bench) {
	first, second := b.add(newJob("")), b.add(newJob(""))
	one, both := childOf("", on(nexjob.OnSuccess, first.ID)), childOf("", on(nexjob.OnSuccess, second.ID), on(nexjob.OnAnyEnd, first.ID))
	b.add(one)
	b.add(both)
	b.equal("children of the first", []nexjob.ID{one.ID, both.ID}, ids(b.find(nexjob.Query{Parent: first.ID}).Jobs))
	b.equal("children of the second", []nexjob.ID{both.ID}, ids(b.find(nexjob.Query{Parent: second.ID}).Jobs))
	b.equal("children of a child", 0, len(b.find(nexjob.Query{Parent: one.ID}).Jobs))
}

func childAmended(b *bench) {
	parent := newJob("")
	b.add(parent)
	cancelled, deleted := childOf("a", on(nexjob.OnSuccess, parent.ID)), childOf("b", on(nexjob.OnSuccess, parent.ID))
	b.add(cancelled)
	b.add(deleted)
	b.act(cancelled.ID, nexjob.ActCancel)
	b.act(deleted.ID, nexjob.ActDelete)
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	b.state(cancelled.ID, nexjob.Cancelled, "the release comes after the cancel")
	_, stored := b.look(deleted.ID)
	b.check(!stored, "the release brought a deleted child back")
	b.claimNone("neither child may run")
}

func childExpires(b *bench) {
	parent := newJob("")
	b.add(parent)
	child := childOf("c", on(nexjob.OnSuccess, parent.ID))
	child.DeadlineAfter = time.Minute
	b.add(child)
	b.pass(time.Minute + time.Second)
	b.act(child.ID, nexjob.ActExpire)
	b.state(child.ID, nexjob.Expired, "its deadline passed while it waited")
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	b.state(child.ID, nexjob.Expired, "the release comes after the deadline")
	late := childOf("d", on(nexjob.OnSuccess, parent.ID))
	b.equal("state answered", nexjob.Enqueued, b.add(late).State)
}

func purgedParent(b *bench) {
	first, second := newJob(""), newJob("")
	b.add(first)
	b.add(second)
	child := childOf("", on(nexjob.OnSuccess, first.ID), on(nexjob.OnSuccess, second.ID))
	b.add(child)
	b.finish(b.claimOnly(first.ID), nexjob.EndSucceeded)
	b.act(first.ID, nexjob.ActPurge)
	b.state(child.ID, nexjob.AwaitingContinuation, "one parent has not ended")
	b.finish(b.claimOnly(second.ID), nexjob.EndSucceeded)
	b.decided(child.ID, nexjob.Enqueued, "both parents succeeded, though one record is gone")
}
