package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// verdictChecks are about Uncertain jobs: what moves them, and what does not.
func verdictChecks() []check {
	checks := []check{
		{"applied, then the job goes on", func(b *bench) {
			j := b.uncertain("k", nexjob.EndUncertain)
			b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Applied, Value: []byte("paid")})
			got := b.state(j.ID, nexjob.Enqueued, "no end was wished")
			b.check(got.OpenEffects == 0 && got.Wished == 0, "open effects %d, wished %s", got.OpenEffects, got.Wished)
			r := b.card(j.Operation)
			b.check(r.State == nexjob.Confirmed && string(r.Value) == "paid" && r.By == someone, "receipt: %+v", r)
			b.equal("state claimed", nexjob.Confirmed, b.claimOnly(j.ID).Receipts[0].State)
		}},
		{"applied, then the noted end: Succeeded", func(b *bench) { appliedTakes(b, nexjob.EndSucceeded, nexjob.Succeeded) }},
		{"applied, then the noted end: Failed", func(b *bench) { appliedTakes(b, nexjob.EndFailed, nexjob.Failed) }},
		{"applied, then the noted end: Cancelled", func(b *bench) { appliedTakes(b, nexjob.EndCancelled, nexjob.Cancelled) }},
		{"not applied, then sent again", notAppliedSentAgain},
		{"not applied, whatever end was noted", func(b *bench) {
			for _, how := range []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed} {
				j := b.uncertain("k "+how.String(), how)
				b.pass(2 * time.Minute)
				b.resolve(j.ID, nexjob.Action{Verdict: nexjob.NotApplied})
				got := b.state(j.ID, nexjob.Enqueued, "it goes on and the effect is sent again")
				b.check(got.Wished == 0, "the end %s is still noted", got.Wished)
				b.finish(b.claimOnly(j.ID), nexjob.EndSucceeded)
			}
		}},
		{"not applied comes too early", notAppliedTooEarly},
		{"compensate", compensated},
		{"compensate with a follow-up that is refused", compensateRefused},
		{"compensate without a follow-up", func(b *bench) {
			j := b.uncertain("k", nexjob.EndFailed)
			b.unchanged("giving up without a follow-up", func() {
				amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{j.ID}}, nexjob.Action{
					Act: nexjob.ActResolve, By: someone, Reason: "test", Verdict: nexjob.Compensate,
				}, 1)
				b.check(err != nil || amended.Done() == 0, "it is done: %+v", amended)
			})
		}},
		{"still unknown moves nothing", func(b *bench) {
			j := b.uncertain("k", nexjob.EndUncertain)
			b.tryAmend(j.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.StillUnknown})
			b.state(j.ID, nexjob.Uncertain, "nothing is guessed")
			b.equal("state of the effect", nexjob.Intended, b.card(j.Operation).State)
		}},
		{"several open effects", severalOpen},
		{"several open effects, one not applied", severalOneNotApplied},
		{"a verdict on an effect that is not open", func(b *bench) {
			j := b.uncertain("k", nexjob.EndUncertain)
			b.refused(j.ID, nexjob.Action{Act: nexjob.ActResolve, Effect: "other", Verdict: nexjob.Applied})
			b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Applied, Value: []byte("paid")})
			b.refused(j.ID, nexjob.Action{Act: nexjob.ActResolve, Effect: "card", Verdict: nexjob.NotApplied})
		}},
		{"a verdict on a job that is not uncertain", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			b.refused(c.Job.ID, nexjob.Action{Act: nexjob.ActResolve, Effect: "card", Verdict: nexjob.Applied})
		}},
		{"look-up: claimed when it is due", lookupClaimed},
		{"look-up: still unknown spends no try", lookupUnknown},
		{"look-up: not applied too early", lookupTooEarly},
		{"look-up: an early one is not counted", lookupEarly},
		{"look-up: a held-up end is looked up at once, and then when not applied counts", lookupHeldEnd},
		{"look-up: not applied in time", lookupNotApplied},
		{"look-up: a held-up end has a next look-up", lookupAfterEnd},
		{"look-up: a crash after the outcome takes the noted end", lookupCrashTakesEnd},
		{"look-up: still unknown keeps the noted end and its own pace", lookupKeepsEnd},
		{"look-up: a crash at the limit leaves it uncertain", func(b *bench) {
			j := b.askable(nexjob.EndUncertain, time.Minute)
			b.pass(time.Minute)
			b.claimOnly(j.ID)
			b.pass(over)
			b.upkeep(1)
			got := b.state(j.ID, nexjob.Uncertain, "its effect has no outcome, whoever died")
			b.equal("open effects", 1, got.OpenEffects)
			b.equal("tries", 0, got.Tries)
		}},
		{"a stale lease has no verdict", func(b *bench) {
			c := b.run(newJob("k"))
			intent := b.intent(c, "card")
			b.write(intent)
			b.finish(c, nexjob.EndUncertain)
			b.unchanged("an outcome after the end of its attempt", func() {
				b.is(b.record(outcome(intent, nexjob.Confirmed, "late"))[0].Err, nexjob.ErrLeaseLost, "Record by an ended attempt")
			})
		}},
	}
	for _, what := range []nexjob.Action{
		{Act: nexjob.ActCancel},
		{Act: nexjob.ActDelete},
		{Act: nexjob.ActDelete, Force: true},
		{Act: nexjob.ActRequeue},
		{Act: nexjob.ActRequeue, NewOperation: true},
		{Act: nexjob.ActPurge},
		{Act: nexjob.ActExpire},
	} {
		name := "refused while uncertain/" + what.Act.String()
		if what.Force {
			name += " with Force"
		}
		if what.NewOperation {
			name += " as a new operation"
		}
		checks = append(checks, check{name, func(b *bench) {
			j := b.uncertain("k", nexjob.EndUncertain)
			b.pass(1000 * time.Hour)
			b.refused(j.ID, what)
			b.equal("job", j, b.job(j.ID))
		}})
	}
	return checks
}

// resolve gives a verdict, which must be accepted.
func (b *bench) resolve(id nexjob.ID, do nexjob.Action) nexjob.Change {
	b.t.Helper()
	do.Act = nexjob.ActResolve
	return b.actWith(id, do)
}

func appliedTakes(b *bench, how nexjob.Ending, want nexjob.State) {
	j := b.uncertain("k", how)
	b.pass(time.Minute)
	change := b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Applied, Value: []byte("paid")})
	b.equal("state answered", want, change.State)
	got := b.state(j.ID, want, "the verdict lets the noted end come true")
	b.check(got.EndedAt.Equal(b.now()) && got.Wished == 0, "ended at %s, still wished: %s", got.EndedAt, got.Wished)
	if want == nexjob.Succeeded {
		b.is(b.enqueue(under(nexjob.RejectAlways, newJob("k")))[0].Err, nexjob.ErrDuplicateJob, "RejectAlways")
	}
}

func notAppliedSentAgain(b *bench) {
	j := b.uncertain("k", nexjob.EndUncertain)
	before := b.card(j.Operation)
	b.pass(2 * time.Hour) // also past RepeatableFor
	b.resolve(j.ID, nexjob.Action{Verdict: nexjob.NotApplied})
	b.state(j.ID, nexjob.Enqueued, "the effect is sent again")
	r := b.card(j.Operation)
	b.check(r.State == nexjob.Disproved && r.By == someone, "receipt: %+v", r)
	c := b.claimOnly(j.ID)
	got := b.write(b.intent(c, "card"))
	b.equal("outside key", before.OutsideKey, got.OutsideKey)
	b.check(got.FirstSent.Equal(b.now()), "RepeatableFor counts from %s, want anew from %s", got.FirstSent, b.now())
	b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
	b.equal("state", nexjob.Succeeded, b.finish(c, nexjob.EndSucceeded).State)
}

func notAppliedTooEarly(b *bench) {
	j := b.uncertain("k", nexjob.EndUncertain)
	from := notAppliedFrom(b.card(j.Operation))
	b.pass(from.Sub(b.now()) - time.Millisecond)
	change := b.refused(j.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.NotApplied})
	unknown := as[*nexjob.StillUnknownError](b, change.Err, "a verdict before SendBefore + LookupAfter")
	b.check(unknown.Until.Equal(from), "until %s, want %s", unknown.Until, from)
	b.pass(2 * time.Millisecond)
	b.resolve(j.ID, nexjob.Action{Verdict: nexjob.NotApplied})
}

func compensated(b *bench) {
	j := b.uncertain("k", nexjob.EndFailed)
	followUp := newJob("refund-42")
	change := b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Compensate, FollowUp: &followUp})
	b.equal("state answered", nexjob.Cancelled, change.State)
	b.need(change.FollowUp != nil, "the follow-up has no answer")
	b.check(change.FollowUp.Err == nil && change.FollowUp.Outcome == nexjob.Created && change.FollowUp.ID == followUp.ID,
		"follow-up: %+v", change.FollowUp)
	b.state(j.ID, nexjob.Cancelled, "compensated")
	r := b.card(j.Operation)
	b.check(r.State == nexjob.Compensated && r.By == someone, "receipt: %+v", r)
	b.claimOnly(followUp.ID)
}

func severalOpen(b *bench) {
	c := b.run(newJob("k"))
	card, mail := b.intent(c, "card"), b.intent(c, "mail")
	mail.Item = "7"
	b.write(card)
	b.write(mail)
	b.finish(c, nexjob.EndSucceeded)
	b.equal("open effects", 2, b.state(c.Job.ID, nexjob.Uncertain, "two effects have no outcome").OpenEffects)
	b.refused(c.Job.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.Applied})
	b.resolve(c.Job.ID, nexjob.Action{Effect: "mail", Item: "7", Verdict: nexjob.Applied, Value: []byte("sent")})
	j := b.state(c.Job.ID, nexjob.Uncertain, "one effect has no outcome")
	b.check(j.OpenEffects == 1 && j.Wished == nexjob.Succeeded, "open effects %d, wished %s", j.OpenEffects, j.Wished)
	b.resolve(c.Job.ID, nexjob.Action{Verdict: nexjob.Applied, Value: []byte("paid")})
	b.state(c.Job.ID, nexjob.Succeeded, "all outcomes are known")
}

// severalOneNotApplied: the end of a handler that had done its work is not true any
// more once one of its effects did not happen, whatever the other verdicts are.
func severalOneNotApplied(b *bench) {
	for _, how := range []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed} {
		c := b.run(newJob("k " + how.String()))
		b.write(b.intent(c, "card"))
		b.write(b.intent(c, "mail"))
		b.finish(c, how)
		b.pass(2 * time.Minute)
		b.resolve(c.Job.ID, nexjob.Action{Effect: "mail", Verdict: nexjob.NotApplied})
		b.state(c.Job.ID, nexjob.Uncertain, "one effect has no outcome")
		b.resolve(c.Job.ID, nexjob.Action{Effect: "card", Verdict: nexjob.Applied, Value: []byte("paid")})
		j := b.state(c.Job.ID, nexjob.Enqueued, "the effect that did not happen is sent again")
		b.check(j.Wished == 0, "the end %s is still noted", j.Wished)
		b.finish(b.claimOnly(j.ID), nexjob.EndSucceeded)
	}
}

// compensateRefused: a person who gives up must not be told "done" while nothing
// makes up for the effect.
func compensateRefused(b *bench) {
	b.finish(b.run(newJob("refund-42")), nexjob.EndFailed)
	j := b.uncertain("k", nexjob.EndUncertain)
	rejected := under(nexjob.RejectIfFailed, newJob("refund-42"))
	other := newJob("k")
	other.Kind = ship // another kind under the job's own key
	orphan := newJob("")
	orphan.Parents = []nexjob.Parent{on(nexjob.OnAnyEnd, nexjob.NewID())}
	for what, followUp := range map[string]nexjob.NewJob{
		"that is rejected": rejected, "that mismatches": other, "without its parent": orphan,
	} {
		b.unchanged("a follow-up "+what, func() {
			change := b.refused(j.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.Compensate, FollowUp: &followUp})
			b.equal("state answered to a follow-up "+what, nexjob.Uncertain, change.State)
		})
	}
	own := newJob("k")
	b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Compensate, FollowUp: &own})
	b.claimOnly(own.ID)
}

// lookupCrashTakesEnd: once a look-up has told, nothing holds up the end that was
// wished: what was cancelled is not run again because a worker died.
func lookupCrashTakesEnd(b *bench) {
	j := b.askable(nexjob.EndCancelled, 0)
	b.pass(j.DueAt.Sub(b.now()))
	c := b.claimOnly(j.ID)
	b.write(outcome(b.lookupIntent(c), nexjob.Confirmed, "paid"))
	b.pass(over)
	b.upkeep(0)
	got := b.state(j.ID, nexjob.Cancelled, "the outcome is known, and the end was noted")
	b.check(got.Wished == 0, "the end %s is still noted", got.Wished)
}

// lookupKeepsEnd: a look-up that could not tell comes again after the delay that the
// worker asked for, and is counted once, if it could have said "not applied".
func lookupKeepsEnd(b *bench) {
	j := b.askable(nexjob.EndCancelled, 0)
	b.pass(notAppliedFrom(b.card(j.Operation)).Sub(b.now()))
	c := b.claimOnly(j.ID)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndUncertain, Delay: time.Hour, Error: "no answer"})
	got := b.state(j.ID, nexjob.Uncertain, "the look-up did not tell")
	b.equal("the end that was wished", nexjob.Cancelled, got.Wished)
	b.equal("due time of the next look-up", b.now().Add(time.Hour), got.DueAt)
	b.equal("look-ups", j.Lookups+1, got.Lookups)
	b.resolve(j.ID, nexjob.Action{Verdict: nexjob.Applied, Value: []byte("paid")})
	b.state(j.ID, nexjob.Cancelled, "the verdict lets the noted end come true")
}

// askable makes a job whose effect can be looked up and whose outcome is unknown.
func (b *bench) askable(how nexjob.Ending, delay time.Duration) nexjob.Job {
	b.t.Helper()
	c := b.run(newJob("k"))
	b.write(b.lookupIntent(c))
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how, Delay: delay})
	return b.state(c.Job.ID, nexjob.Uncertain, "an effect has no outcome")
}

func (b *bench) lookupIntent(c nexjob.Claimed) nexjob.Receipt {
	r := b.intent(c, "card")
	r.Lookup, r.RepeatableFor = true, 0
	return r
}

func lookupClaimed(b *bench) {
	j := b.askable(nexjob.EndUncertain, 10*time.Minute)
	b.equal("due time of the look-up", b.now().Add(10*time.Minute), j.DueAt)
	b.pass(10*time.Minute - time.Second)
	b.claimNone("its look-up is due later")
	b.pass(time.Second)
	c := b.claimOnly(j.ID)
	b.check(c.Lookup && c.Job.State == nexjob.Processing, "claimed for a look-up: %v, state %s", c.Lookup, c.Job.State)
	b.equal("receipts claimed", 1, len(c.Receipts))
	b.write(outcome(b.lookupIntent(c), nexjob.Confirmed, "paid"))
	b.equal("state", nexjob.Succeeded, b.finish(c, nexjob.EndSucceeded).State)
}

func lookupUnknown(b *bench) {
	j := b.askable(nexjob.EndUncertain, time.Minute)
	b.pass(notAppliedFrom(b.card(j.Operation)).Sub(b.now()))
	c := b.claimOnly(j.ID)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndUncertain, Delay: time.Hour})
	got := b.state(j.ID, nexjob.Uncertain, "the look-up did not tell")
	b.equal("tries, crashes, look-ups", []int{0, 0, j.Lookups + 1}, []int{got.Tries, got.Crashes, got.Lookups})
	b.check(got.DueAt.After(b.now()), "the next look-up is due at %s", got.DueAt)
}

func lookupTooEarly(b *bench) {
	j := b.askable(nexjob.EndUncertain, time.Second)
	from := notAppliedFrom(b.card(j.Operation))
	b.pass(time.Second)
	c := b.claimOnly(j.ID)
	err := b.stillUnknown(c, outcome(b.lookupIntent(c), nexjob.Disproved, ""), "a look-up's verdict before SendBefore + LookupAfter")
	b.check(err.Until.Equal(from), "until %s, want %s", err.Until, from)
}

// lookupEarly: a look-up that cannot say "not applied" yet is one more chance to hear
// "applied". It spends nothing of the limit, and the next one comes when it was planned.
func lookupEarly(b *bench) {
	j := b.askable(nexjob.EndUncertain, time.Second)
	from := notAppliedFrom(b.card(j.Operation))
	b.equal("look-ups before the first", 0, j.Lookups)
	b.pass(time.Second)
	c := b.claimOnly(j.ID)
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndUncertain, Delay: from.Sub(b.now())})
	got := b.state(j.ID, nexjob.Uncertain, "the look-up came too early to tell")
	b.equal("look-ups", 0, got.Lookups)
	b.equal("due time of the next look-up", from, got.DueAt)
	b.pass(from.Sub(b.now()))
	c = b.claimOnly(j.ID)
	b.equal("state", nexjob.Disproved, b.write(outcome(b.lookupIntent(c), nexjob.Disproved, "")).State)
}

// lookupHeldEnd: that an effect was applied counts at once, so an end that is held up
// is not kept waiting for the time from which "not applied" counts. A look-up that dies
// is not repeated before that time.
func lookupHeldEnd(b *bench) {
	for _, how := range []nexjob.Ending{nexjob.EndFailed, nexjob.EndSucceeded, nexjob.EndCancelled} {
		j := b.askable(how, 0)
		from := notAppliedFrom(b.card(j.Operation))
		b.check(j.DueAt.Before(from.Add(-time.Minute)), "held up at %s, it is due at %s, not before %s", how, j.DueAt, from)
		b.equal("look-ups before the first", 0, j.Lookups)
		b.pass(j.DueAt.Sub(b.now()))
		b.claimOnly(j.ID)
		b.pass(over)
		b.upkeep(0)
		got := b.state(j.ID, nexjob.Uncertain, "whoever looked it up died")
		b.check(!got.DueAt.Before(from), "after a look-up that died it is due at %s, before %s", got.DueAt, from)
		b.pass(max(got.DueAt.Sub(b.now()), 0))
		c := b.claimOnly(j.ID)
		b.write(outcome(b.lookupIntent(c), nexjob.Confirmed, "paid"))
		b.finish(c, nexjob.EndSucceeded)
	}
}

func lookupNotApplied(b *bench) {
	j := b.askable(nexjob.EndUncertain, 2*time.Hour)
	b.pass(2 * time.Hour)
	c := b.claimOnly(j.ID)
	before := b.card(j.Operation)
	b.equal("state", nexjob.Disproved, b.write(outcome(b.lookupIntent(c), nexjob.Disproved, "")).State)
	b.equal("open effects", 0, b.job(j.ID).OpenEffects)
	got := b.write(b.lookupIntent(c))
	b.check(got.State == nexjob.Intended && got.OutsideKey == before.OutsideKey && got.FirstSent.Equal(b.now()), "sent again: %+v", got)
	b.equal("open effects", 1, b.job(j.ID).OpenEffects)
}

func lookupAfterEnd(b *bench) {
	for _, how := range []nexjob.Ending{nexjob.EndFailed, nexjob.EndSucceeded} {
		j := b.askable(how, 0)
		b.need(!j.DueAt.IsZero(), "held up at %s, the job could be looked up and is never due", how)
		b.pass(max(j.DueAt.Sub(b.now()), 0))
		c := b.claimOnly(j.ID)
		b.check(c.Lookup, "it is not claimed for a look-up")
		b.write(outcome(b.lookupIntent(c), nexjob.Confirmed, "paid"))
		b.finish(c, nexjob.EndSucceeded)
	}
}

// notAppliedFrom is when a verdict NotApplied may first count.
func notAppliedFrom(r nexjob.Receipt) time.Time { return r.SendBefore.Add(r.LookupAfter) }
