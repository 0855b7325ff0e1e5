package storagetest

import (
	"fmt"

	"github.com/nexjob/nexjob"
)

const (
	argsOne = `{"n":1}` // what newJob carries
	argsTwo = `{"n":2}`
)

// keyChecks are the rules of one key besides the policy table: a live holder, other
// args, another kind.
func keyChecks() []check {
	checks := []check{
		{"other args are told", otherArgsAreTold},
		{"equal args are not told as different", func(b *bench) {
			b.add(newJob("k"))
			b.check(!b.enqueue(newJob("k"))[0].ArgsDiffer, "ArgsDiffer is set for equal args")
		}},
		{"StrictArgs refuses other args", strictArgsRefuses},
		{"StrictArgs refuses other args after the end", strictArgsOutlast},
		{"StrictArgs lets equal args pass", func(b *bench) {
			first := b.add(newJob("k"))
			n := newJob("k")
			n.StrictArgs = true
			got := b.enqueue(n)[0]
			b.check(got.Err == nil && got.Outcome == nexjob.Existing && got.ID == first.ID, "answer: %+v", got)
		}},
		{"the mismatch in a batch leaves its neighbours alone", mismatchInBatch},
		{"a former name is the same kind", formerNameIsSameKind},
		{"StrictArgs and another kind within one batch", batchMismatchWithin},
		{"keys are global over queues", func(b *bench) {
			first := b.add(newJob("k"))
			n := newJob("k")
			n.Queue = otherQueue
			got := b.enqueue(n)[0]
			b.check(got.Outcome == nexjob.Existing && got.ID == first.ID, "answer: %+v", got)
		}},
		{"jobs without a key never meet", func(b *bench) {
			for range 3 {
				b.add(under(nexjob.RejectAlways, newJob("")))
			}
			b.check(len(b.dump().Keys) == 0, "jobs without a key made key rows: %+v", b.dump().Keys)
		}},
		{"a key holds through retry, crash and interruption", keyHoldsThroughLife},
	}
	for _, p := range pasts() {
		if p.state.Active() {
			checks = append(checks, check{"WhileActive Reject/" + p.name, func(b *bench) { rejectWhileActive(b, p) }})
		}
		if p.state != 0 {
			checks = append(checks, check{"another kind/" + p.name, func(b *bench) { anotherKind(b, p) }})
		}
	}
	return checks
}

func rejectWhileActive(b *bench, p past) {
	last := p.build(b, "k")
	for _, policy := range nexjob.Policies() {
		n := under(policy, newJob("k"))
		n.WhileActive = nexjob.Reject
		b.unchanged("a rejected enqueue", func() {
			got := b.enqueue(n)[0]
			b.equal("outcome", nexjob.Rejected, got.Outcome)
			b.is(got.Err, nexjob.ErrDuplicateJob, "Enqueue while active")
			b.equal("rejection", nexjob.DuplicateJobError{
				IdempotencyKey: "k", ExistingJobID: last.ID, ExistingState: p.state, Policy: policy,
			}, *as[*nexjob.DuplicateJobError](b, got.Err, "Enqueue while active"))
		})
	}
}

// anotherKind: equal key, different kind is always *KeyMismatchError, whatever the
// last job's state, the policy and the settings, as it is a bug in the caller.
func anotherKind(b *bench, p past) {
	last := p.build(b, "k")
	for _, policy := range nexjob.Policies() {
		for _, active := range []nexjob.WhileActive{nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace} {
			n := under(policy, newJob("k"))
			n.Kind, n.WhileActive = ship, active
			b.unchanged("a mismatch", func() {
				got := b.enqueue(n)[0]
				what := fmt.Sprintf("another kind under %s and %s", policy, active)
				b.check(got.Outcome == nexjob.Mismatched, "%s: outcome is %s, want mismatched", what, got.Outcome)
				b.is(got.Err, nexjob.ErrKeyMismatch, what)
				b.equal(what, nexjob.KeyMismatchError{
					IdempotencyKey: "k", ExistingJobID: last.ID, Kind: ship, ExistingKind: charge,
					Fingerprint: n.Fingerprint, ExistingFingerprint: last.Fingerprint,
				}, *as[*nexjob.KeyMismatchError](b, got.Err, what))
			})
		}
	}
}

func otherArgsAreTold(b *bench) {
	first := b.add(newJob("k"))
	got := b.enqueue(jobWith("k", argsTwo))[0]
	b.must(got.Err, "Enqueue with other args")
	b.check(got.Outcome == nexjob.Existing && got.ID == first.ID && got.ArgsDiffer,
		"answer is %+v, want existing %s with ArgsDiffer", got, first.ID)
	b.equal("args of the holder", argsOne, string(b.job(first.ID).Args))
}

// strictArgsOutlast: a strict caller is told as long as the key lives, whatever the
// policy would do, until a person has cleared the key.
func strictArgsOutlast(b *bench) {
	for _, how := range []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndCancelled} {
		key := "k " + how.String()
		first := newJob(key)
		b.finish(b.run(first), how)
		n := jobWith(key, argsTwo)
		n.StrictArgs = true
		b.unchanged("a mismatch after the end", func() {
			b.is(b.enqueue(n)[0].Err, nexjob.ErrKeyMismatch, "other args after "+how.String())
		})
		b.act(first.ID, nexjob.ActClearKey)
		got := b.enqueue(n)[0]
		b.check(got.Err == nil && got.Outcome == nexjob.Created, "after clear key: %+v", got)
		b.act(n.ID, nexjob.ActDelete)
	}
}

func strictArgsRefuses(b *bench) {
	first := b.add(newJob("k"))
	n := jobWith("k", argsTwo)
	n.StrictArgs = true
	b.unchanged("a mismatch", func() {
		got := b.enqueue(n)[0]
		b.equal("outcome", nexjob.Mismatched, got.Outcome)
		b.equal("mismatch", nexjob.KeyMismatchError{
			IdempotencyKey: "k", ExistingJobID: first.ID, Kind: charge, ExistingKind: charge,
			Fingerprint: n.Fingerprint, ExistingFingerprint: newJob("k").Fingerprint,
		}, *as[*nexjob.KeyMismatchError](b, got.Err, "other args under StrictArgs"))
	})
}

func mismatchInBatch(b *bench) {
	b.add(newJob("k"))
	before, strict, after := newJob("a"), jobWith("k", argsTwo), newJob("z")
	strict.StrictArgs = true
	answers := b.enqueue(before, strict, after)
	b.check(answers[0].Outcome == nexjob.Created && answers[2].Outcome == nexjob.Created,
		"neighbours of a mismatch are answered %+v and %+v", answers[0], answers[2])
	b.is(answers[1].Err, nexjob.ErrKeyMismatch, "the mismatch")
}

func batchMismatchWithin(b *bench) {
	first, strict, kind := newJob("k"), jobWith("k", argsTwo), newJob("k")
	strict.StrictArgs = true
	kind.Kind = ship
	answers := b.enqueue(first, strict, kind)
	b.must(answers[0].Err, "Enqueue")
	for _, a := range answers[1:] {
		mismatch := as[*nexjob.KeyMismatchError](b, a.Err, "a later item of the batch")
		b.equal("holder named by the mismatch", first.ID, mismatch.ExistingJobID)
	}
}

func formerNameIsSameKind(b *bench) {
	first := b.add(newJob("k"))
	n := newJob("k")
	n.Kind, n.Aliases = "charge-card", []string{"bill", charge}
	got := b.enqueue(n)[0]
	b.must(got.Err, "Enqueue of a renamed kind")
	b.check(got.Outcome == nexjob.Existing && got.ID == first.ID, "answer: %+v", got)
	b.finish(b.claimOnly(first.ID), nexjob.EndFailed)
	got = b.enqueue(n)[0]
	b.must(got.Err, "Enqueue of a renamed kind after a failure")
	b.check(got.Outcome == nexjob.Created && got.Operation == first.ID,
		"a renamed kind does not continue the operation %s: %+v", first.ID, got)
}

// keyHoldsThroughLife: between attempts the job keeps its key, and its own key
// never stands in its way.
func keyHoldsThroughLife(b *bench) {
	c := b.run(newJob("k"))
	held := func(when string) {
		b.t.Helper()
		for _, policy := range nexjob.Policies() {
			got := b.enqueue(under(policy, newJob("k")))[0]
			b.check(got.Err == nil && got.Outcome == nexjob.Existing && got.ID == c.Job.ID,
				"%s, under %s: answer is %+v, want existing %s", when, policy, got, c.Job.ID)
		}
	}
	held("processing")
	b.finish(c, nexjob.EndRetry)
	held("waiting for its retry")
	c = b.claimOnly(c.Job.ID)
	b.pass(over)
	held("after its lease ran out")
	c = b.claimOnly(c.Job.ID)
	held("recovered")
	b.finish(c, nexjob.EndInterrupted)
	held("interrupted")
	c = b.claimOnly(c.Job.ID)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSnoozed, Delay: lease})
	held("snoozed")
	b.pass(over)
	b.finish(b.claimOnly(c.Job.ID), nexjob.EndSucceeded)
}
