package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// repeatChecks: a caller that lost our answer asks again, and nothing happens twice.
func repeatChecks() []check {
	checks := []check{
		{"enqueue: the first answer, whatever has become of the job", repeatEnqueue},
		{"enqueue: with other options the ID still decides", func(b *bench) {
			n := newJob("k")
			b.add(n)
			n.Queue, n.Priority, n.Tags, n.Delay = otherQueue, nexjob.Low, []string{"x"}, time.Hour
			n.DuplicatePolicy, n.WhileActive, n.StrictArgs = nexjob.RejectAlways, nexjob.Reject, true
			b.unchanged("a repeat", func() { b.repeated(n) })
		}},
		{"enqueue: without a key", func(b *bench) {
			n := newJob("")
			b.finish(b.run(n), nexjob.EndSucceeded)
			b.unchanged("a repeat", func() { b.repeated(n) })
		}},
		{"enqueue: after the key moved on", repeatAfterKeyMoved},
		{"enqueue: a whole batch", func(b *bench) {
			batch := []nexjob.NewJob{newJob("a"), newJob("b"), newJob("a"), newJob("")}
			first := b.enqueue(batch...)
			b.unchanged("a repeated batch", func() { b.equal("answers", first, b.enqueue(batch...)) })
		}},
		{"enqueue: a job that was renamed is the same", func(b *bench) {
			n := newJob("k")
			b.add(n)
			n.Kind, n.Aliases = "charge-card", []string{charge}
			b.unchanged("a repeat under the kind's new name", func() { b.repeated(n) })
		}},
		{"enqueue: the same ID for another job", reusedID},
		{"enqueue: after a requeue", func(b *bench) {
			n := newJob("k")
			b.finish(b.run(n), nexjob.EndFailed)
			b.act(n.ID, nexjob.ActRequeue)
			b.unchanged("a repeat", func() { b.repeated(n) })
		}},
		{"settle: followers are added once", repeatFollowers},
		{"settle: children are freed once", func(b *bench) {
			c := b.run(newJob("k"))
			child := childOf("c", on(nexjob.OnSuccess, c.Job.ID))
			b.add(child)
			b.finish(c, nexjob.EndSucceeded)
			b.finish(b.claimOnly(child.ID), nexjob.EndSucceeded)
			b.unchanged("a repeated settlement", func() { b.finish(c, nexjob.EndSucceeded) })
		}},
		{"settle: after the next claim nothing happens", func(b *bench) {
			c := b.run(newJob("k"))
			b.finish(c, nexjob.EndRetry)
			b.claimOnly(c.Job.ID)
			b.unchanged("a settlement repeated after the next claim", func() {
				b.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndRetry})
			})
		}},
		{"settle: after requeue, delete and purge nothing happens", repeatAfterGone},
		{"settle: twice in one batch", func(b *bench) {
			c := b.run(newJob("k"))
			end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndRetry}
			for i, got := range b.settle(end, end) {
				b.check(got.Err == nil && got.State == nexjob.Enqueued, "settlement %d: %+v", i, got)
			}
			b.equal("tries", 1, b.job(c.Job.ID).Tries)
		}},
		{"record", repeatRecord},
		{"claim: a lost answer is recovered", func(b *bench) {
			b.add(newJob("k"))
			lost := b.claim(1)[0]
			b.claimNone("the lost answer holds the lease")
			b.pass(over)
			b.claimOnly(lost.Job.ID)
		}},
		{"renew", func(b *bench) {
			c := b.run(newJob("k"))
			first := b.renew(c.Job.Lease())
			b.unchanged("a repeated renewal", func() { b.equal("answers", first, b.renew(c.Job.Lease())) })
		}},
		{"put", repeatPut},
	}
	for _, w := range endings() {
		checks = append(checks, check{"settle: " + w.as.String(), func(b *bench) {
			c := b.run(newJob("k"))
			end := nexjob.Settlement{Lease: c.Job.Lease(), As: w.as, Delay: w.delay, Error: "why"}
			first := b.finishWith(end)
			b.unchanged("a repeated settlement", func() { b.equal("answer", first, b.finishWith(end)) })
			b.pass(time.Second)
			b.unchanged("a settlement repeated later", func() { b.equal("state", first.State, b.finishWith(end).State) })
		}})
	}
	return append(checks, repeatAmends()...)
}

// repeated enqueues a job whose ID is stored: it gets its first answer.
func (b *bench) repeated(n nexjob.NewJob) {
	b.t.Helper()
	stored := b.job(n.ID)
	got := b.enqueue(n)[0]
	b.must(got.Err, "repeated enqueue")
	b.check(got.Outcome == nexjob.Created && got.ID == n.ID && got.Operation == stored.Operation && !got.RecordGone,
		"a repeated enqueue is answered %+v, want created %s of operation %s", got, n.ID, stored.Operation)
}

func repeatEnqueue(b *bench) {
	for _, p := range pasts() {
		if p.state == 0 || p.recordGone {
			continue
		}
		b := open(b.t, b.h)
		last := p.build(b, "k")
		for _, policy := range nexjob.Policies() {
			n := under(policy, newJob("k"))
			n.ID = last.ID
			b.unchanged("a repeat while the job is "+p.name, func() { b.repeated(n) })
		}
	}
}

func repeatAfterKeyMoved(b *bench) {
	first, second := newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndSucceeded)
	b.add(second)
	b.unchanged("a repeat while another job holds the key", func() { b.repeated(first) })
	b.finish(b.claimOnly(second.ID), nexjob.EndFailed)
	b.unchanged("a repeat after another job failed under the key", func() {
		b.repeated(under(nexjob.RejectIfFailed, first))
		b.repeated(under(nexjob.RejectAlways, second))
	})
}

func reusedID(b *bench) {
	n := newJob("k")
	b.finish(b.run(n), nexjob.EndSucceeded)
	for differ, change := range map[string]func(n *nexjob.NewJob){
		"kind": func(n *nexjob.NewJob) { n.Kind = ship },
		"key":  func(n *nexjob.NewJob) { n.IdempotencyKey = "another" },
		"args": func(n *nexjob.NewJob) { n.Args, n.Fingerprint = []byte(argsTwo), nexjob.FingerprintOf([]byte(argsTwo)) },
	} {
		reused := n
		change(&reused)
		b.unchanged("an ID used again", func() {
			answers := b.enqueue(reused)
			b.is(answers[0].Err, nexjob.ErrIDReused, "the same ID with another "+differ)
			b.equal("error", nexjob.IDReusedError{ID: n.ID, Differ: differ},
				*as[*nexjob.IDReusedError](b, answers[0].Err, "the same ID with another "+differ))
		})
	}
	keyless := n
	keyless.IdempotencyKey = ""
	b.is(b.enqueue(keyless)[0].Err, nexjob.ErrIDReused, "the same ID without its key")
}

func repeatFollowers(b *bench) {
	held := newJob("held")
	held.Delay = time.Hour
	b.add(held)
	c := b.run(newJob("k"))
	end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{
		newJob("f"), newJob(""), newJob("held"),
	}}
	first := b.finishWith(end)
	b.unchanged("a repeated settlement", func() {
		again := b.finishWith(end)
		b.equal("state", first.State, again.State)
		if len(again.Followers) > 0 { // they may be left out of a repeat: their IDs find them
			for i := range first.Followers {
				b.equal("ID of a follower", first.Followers[i].ID, again.Followers[i].ID)
			}
		}
	})
}

func repeatAfterGone(b *bench) {
	for _, act := range []nexjob.Act{nexjob.ActRequeue, nexjob.ActDelete, nexjob.ActPurge} {
		c := b.run(newJob("k " + act.String()))
		end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{newJob("f " + act.String())}}
		b.finishWith(end)
		b.finish(b.claimOnly(end.Followers[0].ID), nexjob.EndSucceeded)
		b.act(c.Job.ID, act)
		b.unchanged("a settlement repeated after "+act.String(), func() { b.settle(end) })
		if act == nexjob.ActRequeue {
			b.finish(b.claimOnly(c.Job.ID), nexjob.EndCancelled)
		}
	}
}

func repeatRecord(b *bench) {
	c := b.run(newJob("k"))
	intent := b.intent(c, "card")
	b.write(intent)
	refused := b.intent(c, "mail")
	b.write(refused)
	for _, r := range []nexjob.Receipt{
		step(c, "render", "page"), step(c, "empty", ""), intent,
		outcome(intent, nexjob.Confirmed, "paid"), outcome(refused, nexjob.Refused, ""),
	} {
		first := b.write(r)
		b.unchanged("a repeated receipt", func() { b.equal("standing", first, b.write(r)) })
	}
	twice := step(c, "twice", "x")
	for i, got := range b.record(twice, twice) {
		b.check(got.Err == nil && got.Ours, "receipt %d of two equal ones: %+v", i, got)
	}
}

// repeatPut: the second answer may know its own write or refuse it; the entry is
// written once either way.
func repeatPut(b *bench) {
	create := nexjob.Put{Entry: entry("a", "1")}
	swap := nexjob.Put{Entry: entry("a", "2"), If: 1}
	for i, p := range []nexjob.Put{create, swap} {
		b.check(b.put(p).Done, "Put %d is not done", i)
		before := b.entries()
		got := b.put(p)
		b.check(got.Err == nil && got.Version == int64(i+1), "repeated Put %d: %+v", i, got)
		b.equal("entries after a repeat", before, b.entries())
	}
	remove := nexjob.Put{Entry: entry("a", ""), If: 2, Delete: true}
	b.check(b.put(remove).Done, "the delete is not done")
	got := b.put(remove)
	b.check(got.Err == nil && got.Version == 0 && len(b.entries()) == 0, "repeated delete: %+v", got)
}

// repeatAmends: each action asked for twice leaves what it left the first time.
func repeatAmends() []check {
	type setting struct {
		do    nexjob.Action
		build func(b *bench) nexjob.ID
	}
	waiting := func(b *bench) nexjob.ID { return buildScheduled(b, "k").ID }
	failed := func(b *bench) nexjob.ID {
		n := newJob("k")
		b.finish(b.run(n), nexjob.EndFailed)
		return n.ID
	}
	due := newClock().Now().Add(5 * time.Hour)
	var checks []check
	for _, s := range []setting{
		{nexjob.Action{Act: nexjob.ActCancel}, waiting},
		{nexjob.Action{Act: nexjob.ActCancel}, func(b *bench) nexjob.ID { return b.run(newJob("k")).Job.ID }},
		{nexjob.Action{Act: nexjob.ActRequeue}, failed},
		{nexjob.Action{Act: nexjob.ActRequeue, NewOperation: true}, failed},
		{nexjob.Action{Act: nexjob.ActDelete}, waiting},
		{nexjob.Action{Act: nexjob.ActPurge}, failed},
		{nexjob.Action{Act: nexjob.ActClearKey}, failed},
		{nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.Applied, Value: []byte("x")}, func(b *bench) nexjob.ID {
			return b.uncertain("k", nexjob.EndFailed).ID
		}},
		{nexjob.Action{Act: nexjob.ActExpire}, func(b *bench) nexjob.ID {
			n := dated("k")
			b.add(n)
			b.pass(2 * time.Hour)
			return n.ID
		}},
		{nexjob.Action{Act: nexjob.ActReschedule, DueAt: due}, waiting},
		{nexjob.Action{Act: nexjob.ActPrioritise, Priority: nexjob.Low}, waiting},
		{nexjob.Action{Act: nexjob.ActMove, Queue: otherQueue}, waiting},
	} {
		checks = append(checks, check{fmt.Sprintf("amend: %s %d", s.do.Act, len(checks)), func(b *bench) {
			id := s.build(b)
			b.actWith(id, s.do)
			b.unchanged("a repeated "+s.do.Act.String(), func() {
				b.amend(nexjob.Query{IDs: []nexjob.ID{id}}, s.do)
			})
		}})
	}
	return checks
}
