package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// amendChecks are about actions on the jobs that a query selects.
func amendChecks() []check {
	return []check{
		{"at most limit, oldest first", amendLimit},
		{"only what the query selects", func(b *bench) {
			first, second := newJob("a"), newJob("b")
			second.Queue = otherQueue
			b.add(first)
			b.add(second)
			amended := b.amend(nexjob.Query{Queues: []string{otherQueue}}, nexjob.Action{Act: nexjob.ActCancel})
			b.equal("changes", []nexjob.Change{{Job: second.ID, Key: "b", State: nexjob.Cancelled, Done: true}}, amended.Changes)
			b.state(first.ID, nexjob.Enqueued, "it was not selected")
		}},
		{"each job has its own answer", func(b *bench) {
			running, waiting := newJob(""), newJob("")
			running.Queue = otherQueue
			b.add(running)
			c := b.claim(1)[0]
			b.add(waiting)
			amended := b.amend(nexjob.Query{}, nexjob.Action{Act: nexjob.ActDelete})
			b.need(len(amended.Changes) == 2 && amended.Done() == 1, "changes: %+v", amended.Changes)
			b.check(amended.Changes[0].Job == running.ID && !amended.Changes[0].Done && amended.Changes[0].Err != nil,
				"a processing job is deleted: %+v", amended.Changes[0])
			b.check(amended.Changes[1].Job == waiting.ID && amended.Changes[1].Done, "a waiting job: %+v", amended.Changes[1])
			b.finish(c, nexjob.EndSucceeded)
		}},
		{"delete with confirmed effects needs Force and a reason", deleteConfirmed},
		{"delete takes the job out of everything", func(b *bench) {
			n := newJob("k")
			n.Tags = []string{"t"}
			b.add(n)
			b.act(n.ID, nexjob.ActDelete)
			all := b.dump()
			b.check(len(all.Jobs)+len(all.Keys)+len(all.Counts) == 0, "a deleted job is still seen: %+v", all)
			b.claimNone("it was deleted")
		}},
		{"purge takes only ended jobs", func(b *bench) {
			for _, p := range pasts() {
				if !p.state.Active() {
					continue
				}
				j := p.build(b, p.name)
				b.refused(j.ID, nexjob.Action{Act: nexjob.ActPurge})
				if j.State == nexjob.Enqueued || j.State == nexjob.Scheduled {
					b.act(j.ID, nexjob.ActDelete)
				}
			}
		}},
		{"purge by age", purgeByAge},
		{"purge never frees what is unresolved", func(b *bench) {
			j := b.uncertain("k", nexjob.EndFailed)
			b.pass(10_000 * time.Hour)
			b.amend(nexjob.Query{}, nexjob.Action{Act: nexjob.ActPurge})
			b.purgeLeftovers()
			b.equal("job", j, b.job(j.ID))
			b.equal("receipts", 1, len(b.receipts(j.Operation)))
		}},
		{"reschedule", reschedule},
		{"prioritise", func(b *bench) {
			first, second := newJob(""), newJob("")
			b.add(first)
			b.add(second)
			b.actWith(second.ID, nexjob.Action{Act: nexjob.ActPrioritise, Priority: nexjob.Critical})
			b.equal("priority", nexjob.Critical, b.job(second.ID).Priority)
			b.finish(b.claimOnly(second.ID), nexjob.EndSucceeded)
			b.refused(second.ID, nexjob.Action{Act: nexjob.ActPrioritise, Priority: nexjob.Low})
			b.claimOnly(first.ID)
		}},
		{"move", func(b *bench) {
			n := newJob("")
			b.add(n)
			b.actWith(n.ID, nexjob.Action{Act: nexjob.ActMove, Queue: "else"})
			b.equal("queue", "else", b.job(n.ID).Queue)
			b.claimNone("it was moved")
			ask := claimAsk(1)
			ask.Queues = []string{"else"}
			b.equal("claimed in the other queue", 1, len(b.ask(ask)))
			b.refused(n.ID, nexjob.Action{Act: nexjob.ActMove, Queue: mainQueue})
		}},
		{"waiting children can be rescheduled, prioritised and moved", func(b *bench) {
			j := buildAwaiting(b, "k")
			b.actWith(j.ID, nexjob.Action{Act: nexjob.ActPrioritise, Priority: nexjob.High})
			b.actWith(j.ID, nexjob.Action{Act: nexjob.ActMove, Queue: "else"})
			got := b.state(j.ID, nexjob.AwaitingContinuation, "it still waits for its parent")
			b.check(got.Priority == nexjob.High && got.Queue == "else", "job: %+v", got)
		}},
		{"wrong actions are refused", wrongActions},
	}
}

func amendLimit(b *bench) {
	var jobs []nexjob.NewJob
	for i := range 5 {
		jobs = append(jobs, newJob(fmt.Sprintf("k%d", i)))
	}
	b.enqueue(jobs...)
	q := nexjob.Query{States: []nexjob.State{nexjob.Enqueued}}
	for round, want := range [][]nexjob.NewJob{jobs[:2], jobs[2:4], jobs[4:]} {
		amended, err := b.s.Amend(b.ctx, b.now(), q, nexjob.Action{Act: nexjob.ActCancel, By: someone, Reason: "test"}, 2)
		b.must(err, "Amend")
		var got, expected []nexjob.ID
		for _, c := range amended.Changes {
			got = append(got, c.Job)
		}
		for _, n := range want {
			expected = append(expected, n.ID)
		}
		b.equal(fmt.Sprintf("jobs of round %d", round), expected, got)
		b.equal(fmt.Sprintf("more after round %d", round), round < 2, amended.More)
	}
}

func deleteConfirmed(b *bench) {
	c := b.run(newJob("k"))
	b.write(b.intent(c, "card"))
	b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
	b.finish(c, nexjob.EndSucceeded)
	for _, do := range []nexjob.Action{
		{Act: nexjob.ActDelete, By: someone, Reason: "because"},
		{Act: nexjob.ActDelete, By: someone, Force: true},
	} {
		b.unchanged("a delete that hides an effect", func() {
			amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{c.Job.ID}}, do, 1)
			b.must(err, "Amend")
			b.check(len(amended.Changes) == 1 && !amended.Changes[0].Done && amended.Changes[0].Err != nil,
				"delete with Force %v and reason %q: %+v", do.Force, do.Reason, amended.Changes)
		})
	}
	b.actWith(c.Job.ID, nexjob.Action{Act: nexjob.ActDelete, Force: true})
	got := b.add(under(nexjob.RejectAlways, newJob("k")))
	b.equal("operation after a delete", got.ID, got.Operation)
	b.check(len(b.claimOnly(got.ID).Receipts) == 0, "the deleted job's receipts are claimed")
}

func purgeByAge(b *bench) {
	old, young := newJob("old"), newJob("young")
	b.finish(b.run(old), nexjob.EndSucceeded)
	b.pass(time.Hour)
	b.finish(b.run(young), nexjob.EndSucceeded)
	amended := b.amend(nexjob.Query{
		States: []nexjob.State{nexjob.Succeeded}, EndedBefore: b.now().Add(-time.Minute),
	}, nexjob.Action{Act: nexjob.ActPurge})
	b.equal("changes", []nexjob.Change{{Job: old.ID, Key: "old", Done: true}}, amended.Changes)
	_, stored := b.look(old.ID)
	b.check(!stored, "the old job was not purged")
	b.state(young.ID, nexjob.Succeeded, "it is younger than asked for")
}

func reschedule(b *bench) {
	n := newJob("k")
	b.add(n)
	due := b.now().Add(time.Hour)
	change := b.actWith(n.ID, nexjob.Action{Act: nexjob.ActReschedule, DueAt: due})
	b.equal("state answered", nexjob.Scheduled, change.State)
	b.equal("due time", due, b.state(n.ID, nexjob.Scheduled, "rescheduled").DueAt)
	b.claimNone("it was put off")
	b.actWith(n.ID, nexjob.Action{Act: nexjob.ActReschedule, DueAt: b.now()})
	c := b.claimOnly(n.ID)
	b.refused(n.ID, nexjob.Action{Act: nexjob.ActReschedule, DueAt: due})
	b.finish(c, nexjob.EndSucceeded)
	b.refused(n.ID, nexjob.Action{Act: nexjob.ActReschedule, DueAt: due})
}

// wrongActions: a mistake is an error for the step or for each job, and changes
// nothing either way.
func wrongActions(b *bench) {
	n := newJob("k")
	b.add(n)
	for name, do := range map[string]nexjob.Action{
		"no act":                {},
		"an unknown act":        {Act: nexjob.ActMove + 1},
		"prioritise to nothing": {Act: nexjob.ActPrioritise},
		"prioritise too low":    {Act: nexjob.ActPrioritise, Priority: nexjob.Low + 1},
		"move to nowhere":       {Act: nexjob.ActMove},
		"move to an odd queue":  {Act: nexjob.ActMove, Queue: "a\x00b"},
		"reschedule to no time": {Act: nexjob.ActReschedule},
	} {
		b.unchanged(name, func() {
			amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{n.ID}}, do, 10)
			b.check(err != nil || amended.Done() == 0, "%s was done: %+v", name, amended)
		})
	}
}
