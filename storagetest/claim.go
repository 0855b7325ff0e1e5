package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// claimChecks are about which jobs are claimed, in what order, and what a claimed
// job tells.
func claimChecks() []check {
	return []check{
		{"a claimed job tells all", claimTellsAll},
		{"order: queue as asked, priority, due time, ID", claimOrder},
		{"one at a time gives the same order", claimOrderSingly},
		{"at most n", func(b *bench) {
			for range 5 {
				b.add(newJob(""))
			}
			b.equal("claimed", 2, len(b.claim(2)))
			b.equal("claimed then", 3, len(b.claim(10)))
			b.claimNone("all are claimed")
		}},
		{"queues that are not asked for are not claimed", func(b *bench) {
			n := newJob("")
			n.Queue = otherQueue
			b.add(n)
			ask := claimAsk(1)
			ask.Queues = []string{mainQueue, "else"}
			b.equal("claimed", 0, len(b.ask(ask)))
			b.state(n.ID, nexjob.Enqueued, "nobody asked for its queue")
		}},
		{"unserved kinds are not claimed and not lost", unservedKinds},
		{"unserved kinds at the head do not hide the rest", unservedHead},
		{"what is due later is not claimed", notBeforeDue},
		{"a child that waits is not claimed", func(b *bench) {
			buildAwaiting(b, "k")
			b.claimNone("its parent has not ended")
		}},
		{"an uncertain job without a look-up is never claimed", func(b *bench) {
			b.uncertain("k", nexjob.EndUncertain)
			b.pass(10_000 * time.Hour)
			b.claimNone("only a verdict moves it")
		}},
		{"an ended job is never claimed", func(b *bench) {
			for _, e := range ends() {
				e.reach(b, newJob(""))
			}
			b.pass(10_000 * time.Hour)
			b.claimNone("all have ended")
		}},
		{"throttles are refused by engines without them", func(b *bench) {
			if b.h.Throttles {
				return
			}
			n := newJob("")
			b.add(n)
			ask := claimAsk(1)
			ask.Throttles = []string{"mail"}
			claimed, err := b.s.Claim(b.ctx, b.now(), ask)
			b.is(err, nexjob.ErrUnsupported, "Claim with throttles")
			b.check(len(claimed) == 0, "a refused Claim gives %+v", claimed)
			b.state(n.ID, nexjob.Enqueued, "the claim was refused")
		}},
		{"claim with nothing to serve", func(b *bench) {
			n := newJob("")
			b.add(n)
			for _, ask := range []nexjob.ClaimRequest{
				{Worker: "w", N: 1, Lease: lease, Queues: []string{mainQueue}},
				{Worker: "w", N: 1, Lease: lease, Kinds: []string{charge}},
				{Worker: "w", N: 0, Lease: lease, Queues: []string{mainQueue}, Kinds: []string{charge}},
			} {
				b.equal("claimed", 0, len(b.ask(ask)))
			}
			b.state(n.ID, nexjob.Enqueued, "nobody could serve it")
		}},
		{"fences strictly grow", fencesGrow},
	}
}

func claimTellsAll(b *bench) {
	n := newJob("k")
	n.Tags, n.Meta = []string{"t"}, map[string]string{"m": "v"}
	b.add(n)
	before := b.job(n.ID)
	b.pass(time.Second)
	ask := claimAsk(1)
	ask.Worker = "host-7"
	claimed := b.ask(ask)
	b.need(len(claimed) == 1, "Claim gives %d jobs", len(claimed))
	got := claimed[0]
	b.check(got.Job.Fence > 0, "the fence is %d", got.Job.Fence)
	b.check(!got.Job.LeaseUntil.Before(b.now().Add(lease)) && got.Job.LeaseUntil.Before(b.now().Add(lease+5*time.Second)),
		"the lease ends at %s, want %s or, after waiting, a little later", got.Job.LeaseUntil, b.now().Add(lease))
	b.check(!got.Lookup && len(got.Receipts) == 0, "a first claim has Lookup %v and receipts %+v", got.Lookup, got.Receipts)
	want := before
	want.State, want.StartedAt, want.Started, want.Worker = nexjob.Processing, b.now(), true, "host-7"
	want.Fence, want.LeaseUntil, want.LeaseFor = got.Job.Fence, got.Job.LeaseUntil, lease
	b.equal("claimed job", want, got.Job)
	b.equal("stored job", want, b.job(n.ID))
}

// orderedJobs returns jobs in the order in which they must be claimed, enqueued in
// another one.
func orderedJobs(b *bench) []nexjob.ID {
	var want []nexjob.ID
	var jobs []nexjob.NewJob
	for _, queue := range []string{otherQueue, mainQueue} { // the order of the request
		for _, priority := range nexjob.Priorities() {
			for _, due := range []time.Duration{0, time.Minute} {
				for range 2 {
					n := newJob("")
					n.Queue, n.Priority, n.Delay = queue, priority, due
					jobs = append(jobs, n)
					want = append(want, n.ID)
				}
			}
		}
	}
	for i := range jobs { // enqueued in a mixed order
		b.add(jobs[(i*7+3)%len(jobs)])
	}
	b.pass(2 * time.Minute)
	return want
}

func orderAsk(n int) nexjob.ClaimRequest {
	ask := claimAsk(n)
	ask.Queues = []string{otherQueue, mainQueue}
	return ask
}

func claimOrder(b *bench) {
	want := orderedJobs(b)
	var got []nexjob.ID
	for _, c := range b.ask(orderAsk(len(want))) {
		got = append(got, c.Job.ID)
	}
	b.equal("order of a claim", want, got)
}

func claimOrderSingly(b *bench) {
	want := orderedJobs(b)
	var got []nexjob.ID
	for range want {
		for _, c := range b.ask(orderAsk(1)) {
			got = append(got, c.Job.ID)
		}
	}
	b.equal("order of claims", want, got)
}

func unservedKinds(b *bench) {
	n := newJob("k")
	n.Kind = "unheard-of"
	b.add(n)
	b.claimNone("nobody serves its kind")
	b.pass(24 * time.Hour)
	b.claimNone("nobody serves its kind")
	j := b.state(n.ID, nexjob.Enqueued, "it waits for a worker that serves it")
	b.check(j.Tries == 0 && j.Crashes == 0 && j.Fence == 0, "waiting cost it something: %+v", j)
	ask := claimAsk(1)
	ask.Kinds = append(ask.Kinds, "unheard-of")
	claimed := b.ask(ask)
	b.check(len(claimed) == 1 && claimed[0].Job.ID == n.ID, "a worker that serves it claims %+v", claimed)
}

func unservedHead(b *bench) {
	var head []nexjob.NewJob
	for i := range 300 {
		n := newJob("")
		n.Kind, n.Priority = fmt.Sprintf("unheard-of-%d", i%3), nexjob.Critical
		head = append(head, n)
	}
	b.enqueue(head...)
	n := newJob("")
	n.Priority = nexjob.Low
	b.add(n)
	b.claimOnly(n.ID)
}

func notBeforeDue(b *bench) {
	n := newJob("")
	n.Delay = time.Hour
	b.add(n)
	b.pass(time.Hour - time.Millisecond)
	b.claimNone("it is due a millisecond later")
	b.state(n.ID, nexjob.Scheduled, "its due time lies ahead")
	b.pass(time.Millisecond)
	b.state(n.ID, nexjob.Enqueued, "its due time has come")
	b.claimOnly(n.ID)
}

// fencesGrow follows one key over attempts, requeue, crash, re-enqueue, delete and
// re-creation: every claim draws a higher fence than all before.
func fencesGrow(b *bench) {
	highest := int64(0)
	claimed := func(id nexjob.ID, when string) nexjob.Claimed {
		b.t.Helper()
		c := b.claimOnly(id)
		b.check(c.Job.Fence > highest, "%s the fence is %d, after %d", when, c.Job.Fence, highest)
		highest = max(highest, c.Job.Fence)
		return c
	}
	n := newJob("k")
	b.add(n)
	b.finish(claimed(n.ID, "at first"), nexjob.EndRetry)
	claimed(n.ID, "after a try")
	b.pass(over)
	b.finish(claimed(n.ID, "after a crash"), nexjob.EndFailed)
	b.act(n.ID, nexjob.ActRequeue)
	b.finish(claimed(n.ID, "after a requeue"), nexjob.EndFailed)
	next := newJob("k")
	b.add(next)
	b.finish(claimed(next.ID, "after a re-enqueue"), nexjob.EndFailed)
	b.act(next.ID, nexjob.ActDelete)
	b.act(n.ID, nexjob.ActPurge)
	b.add(next) // the same ID once more, as after a delete
	claimed(next.ID, "after a delete and a re-creation")
}
