package storagetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// parentEnd is one way in which a parent ends, and the rules that it satisfies.
type parentEnd struct {
	name      string
	satisfies []nexjob.Rule
	gone      bool // the record is gone afterwards
	reach     func(b *bench, parent nexjob.NewJob)
}

// parentEnds: "on failure" is Failed or Expired; Cancelled and deleted parents
// satisfy only any end.
func parentEnds() []parentEnd {
	success := []nexjob.Rule{nexjob.OnSuccess, nexjob.OnAnyEnd}
	failure := []nexjob.Rule{nexjob.OnFailure, nexjob.OnAnyEnd}
	neither := []nexjob.Rule{nexjob.OnAnyEnd}
	return []parentEnd{
		{"succeeded", success, false, endParent(nexjob.EndSucceeded)},
		{"failed", failure, false, endParent(nexjob.EndFailed)},
		{"cancelled by its handler", neither, false, endParent(nexjob.EndCancelled)},
		{"cancelled while it waited", neither, false, func(b *bench, n nexjob.NewJob) {
			b.act(n.ID, nexjob.ActCancel)
		}},
		{"worker lost", failure, false, func(b *bench, n nexjob.NewJob) {
			b.claimOnly(n.ID)
			b.pass(over)
			b.upkeep(1)
		}},
		{"expired by a claim", failure, false, func(b *bench, _ nexjob.NewJob) {
			b.pass(parentDeadline + time.Second)
			b.claimParentNone()
		}},
		{"expired by upkeep", failure, false, func(b *bench, n nexjob.NewJob) {
			b.pass(parentDeadline + time.Second)
			b.act(n.ID, nexjob.ActExpire)
		}},
		{"deleted", neither, true, func(b *bench, n nexjob.NewJob) {
			b.act(n.ID, nexjob.ActDelete)
		}},
	}
}

const parentDeadline = time.Hour

func endParent(how nexjob.Ending) func(b *bench, n nexjob.NewJob) {
	return func(b *bench, n nexjob.NewJob) { b.finish(b.claimOnly(n.ID), how) }
}

// claimParentNone claims in the main queue alone, so that a child that was just
// released elsewhere is left where it is.
func (b *bench) claimParentNone() {
	b.t.Helper()
	ask := claimAsk(1)
	ask.Queues = []string{mainQueue}
	b.equal("claimed", 0, len(b.ask(ask)))
}

func parentChecks() []check {
	checks := []check{
		{"an unknown parent is an error", unknownParent},
		{"a parent in the same batch", parentInBatch},
		{"a cascade ends all that cannot run", cascade},
		{"fan-in waits for all", fanIn},
		{"fan-in with one impossible parent", fanInImpossible},
		{"fan-out", fanOut},
		{"an uncertain parent has not ended", uncertainParent},
		{"a retried, snoozed or crashed parent has not ended", parentGoesOn},
		{"the due time counts from release", dueFromRelease},
		{"an absolute due time waits too", dueAtAfterRelease},
		{"a parent requeued after its first end fires no second time", requeuedParent},
		{"a parent requeued in a fan-in was decided by its first end", requeuedInFanIn},
		{"a cancelled child is not revived by its own requeue's parents", requeuedChild},
		{"a child under a held key is answered Existing and gains no parent", heldChild},
		{"children are found by their parent", childrenFound},
		{"a child may be cancelled and deleted while it waits", childAmended},
		{"a child's deadline runs while it waits", childExpires},
		{"a purged parent was decided before", purgedParent},
	}
	for _, e := range parentEnds() {
		for _, rule := range []nexjob.Rule{nexjob.OnSuccess, nexjob.OnFailure, nexjob.OnAnyEnd} {
			checks = append(checks,
				check{fmt.Sprintf("attached before/%s/%s", e.name, rule), func(b *bench) { attachBefore(b, e, rule) }},
				check{fmt.Sprintf("attached after/%s/%s", e.name, rule), func(b *bench) { attachAfter(b, e, rule) }})
		}
	}
	return checks
}

// childOf is a child in the other queue.
func childOf(key string, parents ...nexjob.Parent) nexjob.NewJob {
	n := newJob(key)
	n.Queue, n.Parents = otherQueue, parents
	return n
}

func on(rule nexjob.Rule, id nexjob.ID) nexjob.Parent { return nexjob.Parent{ID: id, Rule: rule} }

func (e parentEnd) wants(rule nexjob.Rule) nexjob.State {
	if slices.Contains(e.satisfies, rule) {
		return nexjob.Enqueued
	}
	return nexjob.Cancelled
}

// decided requires that a child runs or was cancelled with a reason.
func (b *bench) decided(id nexjob.ID, want nexjob.State, why string) {
	b.t.Helper()
	j := b.state(id, want, why)
	if want == nexjob.Cancelled {
		b.check(j.Reason != "" && j.EndedAt.Equal(b.now()), "%s: cancelled at %s for the reason %q", why, j.EndedAt, j.Reason)
		return
	}
	b.equal(why+": due time", b.now(), j.DueAt)
}

func newParent() nexjob.NewJob {
	n := newJob("parent")
	n.DeadlineAfter = parentDeadline
	return n
}

func attachBefore(b *bench, e parentEnd, rule nexjob.Rule) {
	parent := newParent()
	b.add(parent)
	child := childOf("child", on(rule, parent.ID))
	b.equal("state answered", nexjob.AwaitingContinuation, b.add(child).State)
	b.state(child.ID, nexjob.AwaitingContinuation, "its parent waits")
	e.reach(b, parent)
	b.decided(child.ID, e.wants(rule), fmt.Sprintf("%s, its parent %s", rule, e.name))
	got := b.enqueue(under(nexjob.RejectAlways, newJob("child")))[0]
	if e.wants(rule) == nexjob.Cancelled {
		b.is(got.Err, nexjob.ErrDuplicateJob, "Enqueue under the key of a child that was cancelled")
		return
	}
	b.check(got.Outcome == nexjob.Existing, "Enqueue under the key of a child that was released: %+v", got)
	b.claimOnly(child.ID)
}

func attachAfter(b *bench, e parentEnd, rule nexjob.Rule) {
	parent := newParent()
	b.add(parent)
	e.reach(b, parent)
	child := childOf("child", on(rule, parent.ID))
	got := b.enqueue(child)[0]
	if e.gone {
		b.is(got.Err, nexjob.ErrUnknownParent, "a child of a parent that is gone")
		_, stored := b.look(child.ID)
		b.check(!stored, "the child of a parent that is gone is stored")
		return
	}
	b.must(got.Err, "Enqueue of a child whose parent has ended")
	b.equal("outcome", nexjob.Created, got.Outcome)
	b.equal("state answered", e.wants(rule), got.State)
	b.decided(child.ID, e.wants(rule), fmt.Sprintf("%s, its parent %s before", rule, e.name))
}

func unknownParent(b *bench) {
	parent := b.add(newJob(""))
	child := childOf("k", on(nexjob.OnSuccess, parent.ID), on(nexjob.OnAnyEnd, nexjob.NewID()))
	b.unchanged("a child of an unknown parent", func() {
		b.is(b.enqueue(child)[0].Err, nexjob.ErrUnknownParent, "Enqueue of a child of an unknown parent")
	})
}

func parentInBatch(b *bench) {
	parent := newJob("p")
	child := childOf("c", on(nexjob.OnSuccess, parent.ID))
	grandchild := childOf("g", on(nexjob.OnSuccess, child.ID))
	answers := b.enqueue(parent, child, grandchild)
	for i, a := range answers {
		b.must(a.Err, fmt.Sprintf("item %d of a family in one batch", i))
	}
	b.state(grandchild.ID, nexjob.AwaitingContinuation, "its parent waits")
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	b.finish(b.claimOnly(child.ID), nexjob.EndSucceeded)
	b.claimOnly(grandchild.ID)
}

// cascade: nothing waits on a terminal parent, however deep.
func cascade(b *bench) {
	parent := newJob("")
	b.add(parent)
	first := childOf("c1", on(nexjob.OnSuccess, parent.ID))
	second := childOf("c2", on(nexjob.OnSuccess, first.ID))
	third := childOf("c3", on(nexjob.OnSuccess, second.ID))
	failure := childOf("f", on(nexjob.OnFailure, first.ID))
	anyway := childOf("any", on(nexjob.OnAnyEnd, third.ID))
	for _, n := range []nexjob.NewJob{first, second, third, failure, anyway} {
		b.add(n)
	}
	b.finish(b.claimOnly(parent.ID), nexjob.EndFailed)
	for _, n := range []nexjob.NewJob{first, second, third} {
		b.decided(n.ID, nexjob.Cancelled, "a link of the cascade")
	}
	b.decided(failure.ID, nexjob.Cancelled, "a cancelled parent is no failure")
	b.decided(anyway.ID, nexjob.Enqueued, "any end of the last link")
	b.check(len(b.find(nexjob.Query{States: []nexjob.State{nexjob.AwaitingContinuation}}).Jobs) == 0,
		"somebody still waits on a terminal parent")
}

func fanIn(b *bench) {
	var parents []nexjob.Parent
	for range 3 {
		parents = append(parents, on(nexjob.OnSuccess, b.add(newJob("")).ID))
	}
	child := childOf("c", parents...)
	b.add(child)
	for i := range parents {
		b.state(child.ID, nexjob.AwaitingContinuation, fmt.Sprintf("%d of 3 parents have ended", i))
		b.finish(b.claimOnly(parents[i].ID), nexjob.EndSucceeded)
	}
	b.decided(child.ID, nexjob.Enqueued, "all parents have ended")
	for _, p := range b.job(child.ID).Parents {
		b.check(p.Decided, "parent %s of a released child is not decided", p.ID)
	}
}

func fanInImpossible(b *bench) {
	first, second := b.add(newJob("")), b.add(newJob(""))
	child := childOf("c", on(nexjob.OnSuccess, first.ID), on(nexjob.OnFailure, second.ID))
	b.add(child)
	b.finish(b.claimOnly(first.ID), nexjob.EndFailed)
	b.decided(child.ID, nexjob.Cancelled, "one parent can no longer meet its rule")
	before := b.job(child.ID)
	b.finish(b.claimOnly(second.ID), nexjob.EndFailed)
	after := b.job(child.ID)
	after.Parents = before.Parents // may note that the second was weighed too
	b.equal("a cancelled child when its other parent ends", before, after)
}

func fanOut(b *bench) {
	parent := newJob("")
	b.add(parent)
	var children []nexjob.NewJob
	for i := range 60 {
		children = append(children, childOf("", on(nexjob.Rule(i%3), parent.ID)))
	}
	b.enqueue(children...)
	b.finish(b.claimOnly(parent.ID), nexjob.EndSucceeded)
	want := map[nexjob.Rule]nexjob.State{
		nexjob.OnSuccess: nexjob.Enqueued, nexjob.OnFailure: nexjob.Cancelled, nexjob.OnAnyEnd: nexjob.Enqueued,
	}
	for _, n := range children {
		b.decided(n.ID, want[n.Parents[0].Rule], n.Parents[0].Rule.String())
	}
}

func uncertainParent(b *bench) {
	last := b.uncertain("k", nexjob.EndFailed)
	child := childOf("", on(nexjob.OnAnyEnd, last.ID))
	b.equal("state answered", nexjob.AwaitingContinuation, b.add(child).State)
	followUp := newJob("")
	followUp.Queue = "refunds"
	b.resolve(last.ID, nexjob.Action{Verdict: nexjob.Compensate, FollowUp: &followUp})
	b.state(last.ID, nexjob.Cancelled, "compensated")
	b.decided(child.ID, nexjob.Enqueued, "the verdict ended its parent")
}

func parentGoesOn(b *bench) {
	parent := newJob("")
	b.add(parent)
	child := childOf("", on(nexjob.OnAnyEnd, parent.ID))
	b.add(child)
	for _, how := range []nexjob.Ending{nexjob.EndRetry, nexjob.EndSnoozed, nexjob.EndInterrupted} {
		b.finish(b.claimOnly(parent.ID), how)
		b.state(child.ID, nexjob.AwaitingContinuation, "its parent goes on after "+how.String())
	}
	b.claimOnly(parent.ID)
	b.pass(over)
	b.upkeep(0)
	b.state(child.ID, nexjob.AwaitingContinuation, "its parent crashed once")
}
