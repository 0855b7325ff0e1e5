package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// keyLifeChecks are about how long a key refuses: until the record goes, exactly
// KeepKeyFor after the end, until a person clears it, and no longer than the job
// when it is deleted.
func keyLifeChecks() []check {
	checks := []check{
		{"a key's life is counted from the end", lifeCountsFromEnd},
		{"a key outlives its record", keyOutlivesRecord},
		{"a key is shorter than its record", keyShorterThanRecord},
		{"a key goes with its record", keyGoesWithRecord},
		{"no key life runs while the job waits", noLifeWhileActive},
		{"a requeue stops the key's life", requeueStopsLife},
		{"the last enqueue's KeepKeyFor counts", lastKeepCounts},
		{"purge removes keys whose life is over", purgeRemovesDeadKeys},
		{"a repeat of a job does not take back its key", repeatTakesNoKey},
		{"delete frees at once", deleteFrees},
		{"delete again is nothing", deleteTwice},
		{"clear key of a key without a record", clearWithoutRecord},
		{"clear key of an active job lifts nothing", clearActive},
		{"clear key is used up by one enqueue", clearUsedUp},
		{"clear key of a former job does not free the key", clearFormer},
		{"purge of a former job keeps the key's standing", purgeFormer},
	}
	for _, e := range ends() {
		checks = append(checks, check{"clear key/" + e.name, func(b *bench) { clearKey(b, e) }})
	}
	return checks
}

// keeping is a job under key k with a key life of its own.
func keeping(d time.Duration) nexjob.NewJob {
	n := under(nexjob.RejectAlways, newJob("k"))
	n.KeepKeyFor = d
	return n
}

// rejects requires that RejectAlways refuses key k, and returns the refusal.
func (b *bench) rejects(when string) nexjob.DuplicateJobError {
	b.t.Helper()
	got := b.enqueue(under(nexjob.RejectAlways, newJob("k")))[0]
	return *as[*nexjob.DuplicateJobError](b, got.Err, "Enqueue under RejectAlways "+when)
}

// freed requires that RejectAlways creates.
func (b *bench) freed(key, when string) nexjob.Answer {
	b.t.Helper()
	n := under(nexjob.RejectAlways, newJob(key))
	got := b.enqueue(n)[0]
	b.must(got.Err, "Enqueue under RejectAlways "+when)
	b.need(got.Outcome == nexjob.Created && got.ID == n.ID, "Enqueue %s is answered %+v, want created", when, got)
	return got
}

func lifeCountsFromEnd(b *bench) {
	n := keeping(time.Hour)
	c := b.run(n)
	b.pass(20 * time.Second)
	b.finish(c, nexjob.EndSucceeded)
	row, _ := b.key("k")
	b.equal("end of the key's life", b.now().Add(time.Hour), row.Until)
	b.equal("state kept by the key while the record stands", nexjob.State(0), row.Ended)
	b.pass(time.Hour - time.Millisecond)
	b.rejects("just before the key's life is over")
	b.pass(2 * time.Millisecond)
	got := b.freed("k", "just after the key's life is over")
	b.equal("operation of a job under a free key", got.ID, got.Operation)
}

func keyOutlivesRecord(b *bench) {
	n := keeping(time.Hour)
	b.finish(b.run(n), nexjob.EndFailed)
	until := b.now().Add(time.Hour)
	b.act(n.ID, nexjob.ActPurge)
	_, stored := b.look(n.ID)
	b.need(!stored, "the purged record is still stored")
	row, held := b.key("k")
	b.need(held, "the key went with its record although KeepKeyFor is longer")
	b.equal("standing of the key without its record", nexjob.KeyRow{
		Key: "k", Job: n.ID, Kind: charge, Fingerprint: n.Fingerprint, Operation: n.ID,
		Ended: nexjob.Failed, Until: until,
	}, row)
	rejection := b.rejects("within the key's life")
	b.check(rejection.RecordGone && rejection.ExistingJobID == n.ID && rejection.ExistingState == nexjob.Failed,
		"rejection: %+v", rejection)
	strict := jobWith("k", argsTwo)
	strict.Kind = ship
	b.is(b.enqueue(strict)[0].Err, nexjob.ErrKeyMismatch, "another kind under a key that outlived its record")
}

func keyShorterThanRecord(b *bench) {
	n := keeping(time.Minute)
	b.finish(b.run(n), nexjob.EndFailed)
	b.pass(time.Minute + time.Second)
	got := b.freed("k", "after a key life shorter than the record")
	b.equal("operation", got.ID, got.Operation)
	b.state(n.ID, nexjob.Failed, "the record outlives its key")
	change := b.refused(n.ID, nexjob.Action{Act: nexjob.ActRequeue})
	b.equal("holder named by the refused requeue", got.ID,
		as[*nexjob.DuplicateJobError](b, change.Err, "requeue of a job whose key moved on").ExistingJobID)
}

func keyGoesWithRecord(b *bench) {
	n := under(nexjob.RejectAlways, newJob("k"))
	b.finish(b.run(n), nexjob.EndSucceeded)
	b.pass(1000 * time.Hour)
	b.rejects("long after the end, the record still there")
	b.act(n.ID, nexjob.ActPurge)
	_, held := b.key("k")
	b.check(!held, "the key stays although its record is gone and it has no life of its own")
	b.freed("k", "after the purge")
}

func noLifeWhileActive(b *bench) {
	n := keeping(time.Second)
	n.Delay = time.Hour
	b.add(n)
	b.pass(time.Hour)
	got := b.enqueue(newJob("k"))[0]
	b.check(got.Outcome == nexjob.Existing && got.ID == n.ID, "while it waits: %+v", got)
	c := b.claimOnly(n.ID)
	b.pass(5 * time.Second)
	got = b.enqueue(newJob("k"))[0]
	b.check(got.Outcome == nexjob.Existing && got.ID == n.ID, "while it runs: %+v", got)
	row, _ := b.key("k")
	b.check(row.Until.IsZero(), "the key's life has an end, %s, while its job is active", row.Until)
	b.finish(c, nexjob.EndSucceeded)
}

func requeueStopsLife(b *bench) {
	n := keeping(time.Minute)
	b.finish(b.run(n), nexjob.EndFailed)
	b.pass(30 * time.Second)
	b.act(n.ID, nexjob.ActRequeue)
	b.pass(time.Hour)
	got := b.enqueue(newJob("k"))[0]
	b.check(got.Outcome == nexjob.Existing && got.ID == n.ID, "long after the requeue: %+v", got)
	b.finish(b.claimOnly(n.ID), nexjob.EndSucceeded)
	row, _ := b.key("k")
	b.equal("end of the key's life after the second end", b.now().Add(time.Minute), row.Until)
}

func lastKeepCounts(b *bench) {
	first := newJob("k")
	first.KeepKeyFor = 10 * time.Hour
	b.finish(b.run(first), nexjob.EndSucceeded)
	second := newJob("k")
	second.KeepKeyFor = time.Minute
	b.finish(b.run(second), nexjob.EndSucceeded)
	b.act(first.ID, nexjob.ActPurge)
	b.act(second.ID, nexjob.ActPurge)
	b.rejects("within the second life")
	b.pass(time.Minute + time.Second)
	b.freed("k", "after the second life")
}

// everythingEnded is how retention asks: it selects nothing here, and the purge
// still removes what nobody holds.
func (b *bench) purgeLeftovers() {
	b.t.Helper()
	b.amend(nexjob.Query{States: []nexjob.State{nexjob.Succeeded}, EndedBefore: b.now().Add(-10_000 * time.Hour)},
		nexjob.Action{Act: nexjob.ActPurge})
}

func purgeRemovesDeadKeys(b *bench) {
	n := keeping(time.Minute)
	b.finish(b.run(n), nexjob.EndSucceeded)
	b.act(n.ID, nexjob.ActPurge)
	b.purgeLeftovers()
	_, held := b.key("k")
	b.check(held, "a purge removed a key within its life")
	b.pass(time.Minute + time.Second)
	b.purgeLeftovers()
	if rows := b.dump().Keys; len(rows) > 0 {
		b.t.Errorf("a purge left keys whose life is over: %+v", rows)
	}
}

// repeatTakesNoKey: an enqueue that is repeated after the key's life is answered by the job
// that it made then, and the key stays as free as it was.
func repeatTakesNoKey(b *bench) {
	for _, alone := range []bool{true, false} {
		n := keeping(time.Minute)
		b.finish(b.run(n), nexjob.EndSucceeded)
		b.pass(time.Minute + time.Second)
		b.purgeLeftovers()
		again := []nexjob.NewJob{n}
		if !alone {
			again = append(again, newJob(""))
		}
		got := b.enqueue(again...)[0]
		b.must(got.Err, "the same enqueue after its key's life")
		b.need(got.ID == n.ID && got.State == nexjob.Succeeded, "a repeated enqueue is answered %+v", got)
		row, held := b.key("k")
		b.check(!held, "a repeated enqueue took back its key: %+v", row)
		b.act(b.freed("k", "after a repeat of its former job").ID, nexjob.ActDelete)
	}
}

func deleteFrees(b *bench) {
	for _, p := range pasts() {
		if p.state == 0 || p.recordGone || p.state == nexjob.Processing || p.state == nexjob.Uncertain {
			continue
		}
		key := "delete " + p.name
		last := p.build(b, key)
		change := b.act(last.ID, nexjob.ActDelete)
		b.check(change.State == 0 && change.Key == key, "delete of %s answers %+v", p.name, change)
		_, stored := b.look(last.ID)
		_, held := b.key(key)
		b.check(!stored && !held, "%s, deleted: record stored: %v, key held: %v", p.name, stored, held)
		got := b.freed(key, "after the delete of a job that was "+p.name)
		b.check(got.Operation == got.ID && !got.Continues, "a deleted job's operation goes on: %+v", got)
		b.act(got.ID, nexjob.ActDelete)
	}
}

func deleteTwice(b *bench) {
	n := newJob("k")
	b.add(n)
	b.act(n.ID, nexjob.ActDelete)
	second := b.add(newJob("k"))
	b.unchanged("deleting a deleted job again", func() {
		amended := b.amend(nexjob.Query{IDs: []nexjob.ID{n.ID}}, nexjob.Action{Act: nexjob.ActDelete})
		b.check(len(amended.Changes) == 0, "changes: %+v", amended.Changes)
	})
	b.state(second.ID, nexjob.Enqueued, "the next job under the key is untouched")
}

func clearKey(b *bench, e end) {
	for _, policy := range nexjob.Policies() {
		key := "clear under " + policy.String()
		last := e.reach(b, newJob(key))
		b.act(last.ID, nexjob.ActClearKey)
		kept := b.job(last.ID)
		kept.Reason = last.Reason // may tell of the review
		b.equal("the record of a cleared key", last, kept)
		row, held := b.key(key)
		b.check(held && row.Cleared && row.Job == last.ID, "standing of a cleared key: %+v", row)
		next := under(policy, newJob(key))
		got := b.enqueue(next)[0]
		b.created(past{continues: e.state != nexjob.Succeeded}, last, next, got)
		b.act(next.ID, nexjob.ActDelete)
	}
}

func clearWithoutRecord(b *bench) {
	n := keeping(time.Hour)
	b.finish(b.run(n), nexjob.EndFailed)
	b.act(n.ID, nexjob.ActPurge)
	b.rejects("before the key is cleared")
	amended := b.amend(nexjob.Query{Of: nexjob.Keys, Key: "k"}, nexjob.Action{Act: nexjob.ActClearKey})
	b.need(len(amended.Changes) == 1 && amended.Changes[0].Done && amended.Changes[0].Key == "k",
		"clear key by a query of keys answers %+v", amended.Changes)
	got := b.freed("k", "after the key was cleared")
	b.check(got.Operation == n.ID && got.Continues, "the operation %s is not continued: %+v", n.ID, got)
}

func clearActive(b *bench) {
	for _, p := range pasts() {
		if !p.state.Active() {
			continue
		}
		last := p.build(b, p.name)
		b.tryAmend(last.ID, nexjob.Action{Act: nexjob.ActClearKey})
		for _, policy := range nexjob.Policies() {
			got := b.enqueue(under(policy, newJob(p.name)))[0]
			b.check(got.Err == nil && got.Outcome == nexjob.Existing && got.ID == last.ID,
				"clear key of a job that is %s, then %s: answer is %+v, want existing", p.name, policy, got)
		}
		if p.state == nexjob.Enqueued || p.state == nexjob.Scheduled {
			b.act(last.ID, nexjob.ActDelete) // out of the next claim's way
		}
	}
}

func clearUsedUp(b *bench) {
	n := newJob("k")
	b.finish(b.run(n), nexjob.EndFailed)
	b.act(n.ID, nexjob.ActClearKey)
	second := b.freed("k", "after the key was cleared")
	b.finish(b.claimOnly(second.ID), nexjob.EndFailed)
	b.rejects("after the job that used the clearing failed too")
}

func clearFormer(b *bench) {
	first, second := newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndSucceeded)
	b.finish(b.run(second), nexjob.EndSucceeded)
	b.tryAmend(first.ID, nexjob.Action{Act: nexjob.ActClearKey})
	rejection := b.rejects("after clear key of a job that is not the key's last")
	b.equal("job named by the rejection", second.ID, rejection.ExistingJobID)
}

func purgeFormer(b *bench) {
	first, second := newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndSucceeded)
	b.finish(b.run(second), nexjob.EndSucceeded)
	b.act(first.ID, nexjob.ActPurge)
	b.equal("job named by the rejection", second.ID, b.rejects("after the purge of a former job").ExistingJobID)
	third := newJob("k")
	b.finish(b.run(third), nexjob.EndSucceeded)
	b.act(second.ID, nexjob.ActDelete)
	b.equal("job named by the rejection", third.ID, b.rejects("after the delete of a former job").ExistingJobID)
}
