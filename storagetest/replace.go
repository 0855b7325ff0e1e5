package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// replaceChecks are the rules of WhileActive Replace: a holder that was never
// claimed since it was last enqueued takes the new args and options; any other
// holder is answered as Existing with Started.
func replaceChecks() []check {
	return []check{
		{"a waiting holder takes everything", replaceTakesAll},
		{"a scheduled holder becomes due", func(b *bench) {
			last := buildScheduled(b, "k")
			b.replaced(last.ID, replacing("k"))
			b.state(last.ID, nexjob.Enqueued, "the new job had no delay")
			b.claimOnly(last.ID)
		}},
		{"a due holder becomes scheduled", func(b *bench) {
			first := b.add(newJob("k"))
			n := replacing("k")
			n.Delay = time.Hour
			b.replaced(first.ID, n)
			b.state(first.ID, nexjob.Scheduled, "the new job has a delay")
			b.claimNone("its due time lies ahead")
		}},
		{"a child keeps its parents and counts from release", replaceChild},
		{"a processing holder has started", func(b *bench) {
			b.hasStarted(b.run(newJob("k")).Job.ID)
		}},
		{"a retrying holder has started", func(b *bench) {
			c := b.run(newJob("k"))
			b.finish(c, nexjob.EndRetry)
			b.hasStarted(c.Job.ID)
		}},
		{"a snoozed holder has started", func(b *bench) {
			c := b.run(newJob("k"))
			b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSnoozed, Delay: time.Hour})
			b.hasStarted(c.Job.ID)
		}},
		{"an interrupted holder has started", func(b *bench) {
			c := b.run(newJob("k"))
			b.finish(c, nexjob.EndInterrupted)
			b.hasStarted(c.Job.ID)
		}},
		{"a crashed holder has started", func(b *bench) {
			c := b.run(newJob("k"))
			b.pass(over)
			b.ask(nexjob.ClaimRequest{Worker: "upkeep", Lease: lease})
			b.hasStarted(c.Job.ID)
		}},
		{"an uncertain holder has started", func(b *bench) {
			b.hasStarted(b.uncertain("k", nexjob.EndUncertain).ID)
		}},
		{"a requeued holder has not started", func(b *bench) {
			c := b.run(newJob("k"))
			b.finish(c, nexjob.EndFailed)
			b.act(c.Job.ID, nexjob.ActRequeue)
			b.replaced(c.Job.ID, replacing("k"))
		}},
		{"StrictArgs never stops a replace", func(b *bench) {
			first := b.add(newJob("k"))
			n := replacing("k")
			n.StrictArgs = true
			b.replaced(first.ID, n)
		}},
		{"after an end the policy decides", func(b *bench) {
			b.finish(b.run(newJob("k")), nexjob.EndSucceeded)
			got := b.enqueue(under(nexjob.RejectAlways, replacing("k")))[0]
			b.is(got.Err, nexjob.ErrDuplicateJob, "Replace of an ended job under RejectAlways")
			b.equal("outcome under AllowAfterFailed", nexjob.Created, b.enqueue(replacing("k"))[0].Outcome)
		}},
		{"under a free key it creates", func(b *bench) { b.add(replacing("k")) }},
		{"twice in one batch", replaceTwiceInBatch},
		{"a replace repeated after a lost answer", func(b *bench) {
			first := b.add(newJob("k"))
			n := replacing("k")
			b.replaced(first.ID, n)
			b.unchanged("the same replace again", func() { b.replaced(first.ID, n) })
		}},
		{"the operation and its receipts stay", replaceKeepsOperation},
		{"the key's fingerprint follows the args", func(b *bench) {
			first := b.add(newJob("k"))
			b.replaced(first.ID, replacing("k"))
			b.check(b.enqueue(newJob("k"))[0].ArgsDiffer, "the former args are not told as different")
			b.check(!b.enqueue(jobWith("k", argsTwo))[0].ArgsDiffer, "the new args are told as different")
		}},
		{"the ID that replaced is not stored", func(b *bench) {
			first := b.add(newJob("k"))
			n := replacing("k")
			b.replaced(first.ID, n)
			_, stored := b.look(n.ID)
			b.check(!stored, "the replacing item became a job of its own")
		}},
	}
}

// replacing is a job with other args that wants to replace.
func replacing(key string) nexjob.NewJob {
	n := jobWith(key, argsTwo)
	n.WhileActive = nexjob.Replace
	return n
}

// replaced enqueues n and requires that it replaced the job.
func (b *bench) replaced(id nexjob.ID, n nexjob.NewJob) nexjob.Answer {
	b.t.Helper()
	got := b.enqueue(n)[0]
	b.must(got.Err, "Replace")
	b.need(got.Outcome == nexjob.Replaced && got.ID == id && !got.Started,
		"Replace is answered %s %s (started: %v), want replaced %s", got.Outcome, got.ID, got.Started, id)
	j := b.job(id)
	b.check(j.Replaced, "the job does not say that it was replaced")
	b.equal("args", string(n.Args), string(j.Args))
	b.equal("fingerprint", n.Fingerprint, j.Fingerprint)
	return got
}

// hasStarted requires that a replace comes too late for the job.
func (b *bench) hasStarted(id nexjob.ID) {
	b.t.Helper()
	b.hasStartedWith(id, argsTwo)
}

// hasStartedWith is hasStarted with args that differ from the job's.
func (b *bench) hasStartedWith(id nexjob.ID, args string) {
	b.t.Helper()
	n := jobWith("k", args)
	n.WhileActive = nexjob.Replace
	b.unchanged("a replace that came too late", func() {
		b.t.Helper()
		got := b.enqueue(n)[0]
		b.must(got.Err, "Replace")
		b.check(got.Outcome == nexjob.Existing && got.ID == id && got.Started && got.ArgsDiffer,
			"a replace that came too late is answered %+v, want existing %s with Started and ArgsDiffer", got, id)
	})
}

func replaceTakesAll(b *bench) {
	first := newJob("k")
	first.Tags, first.Meta = []string{"old"}, map[string]string{"a": "old"}
	b.add(first)
	n := replacing("k")
	n.Priority, n.MaxAttempts, n.Timeout = nexjob.Critical, 3, time.Minute
	n.Tags, n.Meta = []string{"new"}, map[string]string{"b": "new"}
	n.DueAt, n.Deadline = b.now().Add(time.Hour), b.now().Add(2*time.Hour)
	n.KeepKeyFor = time.Hour
	got := b.replaced(first.ID, n)
	b.equal("operation", first.ID, got.Operation)
	j := b.state(first.ID, nexjob.Scheduled, "the new due time lies ahead")
	b.equal("priority", n.Priority, j.Priority)
	b.equal("max attempts", n.MaxAttempts, j.MaxAttempts)
	b.equal("timeout", n.Timeout, j.Timeout)
	b.equal("tags", n.Tags, j.Tags)
	b.equal("metadata", n.Meta, j.Meta)
	b.equal("due time", n.DueAt, j.DueAt)
	b.equal("deadline", n.Deadline, j.Deadline)
	b.equal("key life", n.KeepKeyFor, j.KeepKeyFor)
	b.equal("jobs with the old tag", 0, len(b.find(nexjob.Query{Tags: []string{"old"}}).Jobs))
	b.equal("jobs with the new tag", 1, len(b.find(nexjob.Query{Tags: []string{"new"}}).Jobs))
	b.equal("operation", first.ID, j.Operation)
}

func replaceChild(b *bench) {
	child := buildAwaiting(b, "k")
	parent := child.Parents[0].ID
	stranger := b.add(newJob("stranger"))
	n := replacing("k")
	n.Delay = time.Hour
	n.Parents = []nexjob.Parent{{ID: stranger.ID}}
	b.replaced(child.ID, n)
	j := b.state(child.ID, nexjob.AwaitingContinuation, "its parent has not ended")
	b.equal("parents", child.Parents, j.Parents)
	b.pass(10 * time.Minute)
	ask := claimAsk(1)
	ask.Queues = []string{"parents"}
	claimed := b.ask(ask)
	b.need(len(claimed) == 1 && claimed[0].Job.ID == parent, "the parent cannot be claimed: %+v", claimed)
	b.finish(claimed[0], nexjob.EndSucceeded)
	j = b.state(child.ID, nexjob.Scheduled, "its delay counts from the release")
	b.equal("due time", b.now().Add(time.Hour), j.DueAt)
}

func replaceTwiceInBatch(b *bench) {
	first, second, third := replacing("k"), jobWith("k", `{"n":3}`), newJob("x")
	second.WhileActive = nexjob.Replace
	answers := b.enqueue(first, third, second)
	b.check(answers[0].Outcome == nexjob.Created && answers[1].Outcome == nexjob.Created &&
		answers[2].Outcome == nexjob.Replaced && answers[2].ID == first.ID,
		"answers are %s, %s, %s, want created, created, replaced", answers[0].Outcome, answers[1].Outcome, answers[2].Outcome)
	b.equal("args", `{"n":3}`, string(b.job(first.ID).Args))
}

func replaceKeepsOperation(b *bench) {
	first, second := newJob("k"), newJob("k")
	c := b.run(first)
	b.write(step(c, "render", "page 1"))
	b.finish(c, nexjob.EndFailed)
	b.add(second)
	got := b.replaced(second.ID, replacing("k"))
	b.equal("operation", first.ID, got.Operation)
	claimed := b.claimOnly(second.ID)
	b.equal("operation claimed", first.ID, claimed.Job.Operation)
	b.equal("receipts claimed", 1, len(claimed.Receipts))
}
