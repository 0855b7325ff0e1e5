package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// effectChecks are about outside effects: intended before, confirmed or refused
// after, and no end of a job while an outcome is missing.
func effectChecks() []check {
	checks := []check{
		{"confirmed", effectConfirmed},
		{"a confirmed effect stands", confirmedStands},
		{"refused, then the next turn", refusedNextTurn},
		{"an outcome without an intent", outcomeWithoutIntent},
		{"another request is refused while the outcome is unknown", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			b.mismatched(c, nexjob.Intended)
		}},
		{"another request is refused after it was confirmed", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
			b.mismatched(c, nexjob.Confirmed)
		}},
		{"another request is refused in the job that continues", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
			b.finish(c, nexjob.EndFailed)
			b.mismatched(b.run(jobWith("k", argsTwo)), nexjob.Confirmed)
		}},
		{"sent again within RepeatableFor", repeatWithin},
		{"not sent again after RepeatableFor", repeatAfter},
		{"not sent again when the send may end too late", repeatTooLate},
		{"AtMostOnce is never sent twice", atMostOnce},
		{"an intent repeated after a lost answer", func(b *bench) {
			c := b.run(newJob("k"))
			intent := b.intent(c, "card")
			intent.AtMostOnce, intent.RepeatableFor = true, 0
			first := b.write(intent)
			b.unchanged("the same intent by the same lease", func() { b.equal("standing", first, b.write(intent)) })
		}},
		{"an intent that chooses nothing", func(b *bench) {
			c := b.run(newJob("k"))
			plain := b.intent(c, "plain")
			plain.RepeatableFor = 0
			b.write(plain)
			b.finish(c, nexjob.EndRetry)
			again := b.claimOnly(c.Job.ID)
			r := b.intent(again, "plain")
			r.RepeatableFor = 0
			b.stillUnknown(again, r, "a second send that nothing says is repeatable")
		}},
		{"the wish is noted once and a retry goes on", openRetryGoesOn},
		{"an outcome before the end frees the end", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			b.write(outcome(b.intent(c, "card"), nexjob.Refused, ""))
			b.equal("open effects", 0, b.job(c.Job.ID).OpenEffects)
			b.finish(c, nexjob.EndFailed)
			b.state(c.Job.ID, nexjob.Failed, "its effect was refused")
		}},
	}
	for _, w := range openEnds() {
		checks = append(checks, check{"no end while an effect is open/" + w.name, func(b *bench) { heldUp(b, w) }})
	}
	return checks
}

// openEnd is one thing that would end a job; with an open effect it must make the
// job Uncertain instead and note the end that was wished.
type openEnd struct {
	name    string
	wished  nexjob.State // 0: any
	waiting bool         // the attempt failed before, and the job waits
	try     func(b *bench, c nexjob.Claimed)
}

func openEnds() []openEnd {
	finish := func(how nexjob.Ending) func(b *bench, c nexjob.Claimed) {
		return func(b *bench, c nexjob.Claimed) {
			got := b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how, Error: "the connection broke"})
			b.equal("state answered", nexjob.Uncertain, got.State)
		}
	}
	amend := func(do nexjob.Action) func(b *bench, c nexjob.Claimed) {
		return func(b *bench, c nexjob.Claimed) {
			change := b.tryAmend(c.Job.ID, do)
			b.equal("state answered", nexjob.Uncertain, change.State)
		}
	}
	return []openEnd{
		{"success", nexjob.Succeeded, false, finish(nexjob.EndSucceeded)},
		{"last try", nexjob.Failed, false, finish(nexjob.EndFailed)},
		{"cancelled by the handler", nexjob.Cancelled, false, finish(nexjob.EndCancelled)},
		{"asked to stop, then an error", nexjob.Cancelled, false, func(b *bench, c nexjob.Claimed) {
			b.act(c.Job.ID, nexjob.ActCancel)
			finish(nexjob.EndRetry)(b, c)
		}},
		{"asked to stop, then a crash", nexjob.Cancelled, false, func(b *bench, c nexjob.Claimed) {
			b.act(c.Job.ID, nexjob.ActCancel)
			b.pass(over)
			b.upkeep(0)
		}},
		{"crash limit", nexjob.Failed, false, func(b *bench, _ nexjob.Claimed) {
			b.pass(over)
			b.upkeep(1)
		}},
		{"deadline at a crash", nexjob.Expired, false, func(b *bench, _ nexjob.Claimed) {
			b.pass(2 * time.Hour)
			b.claimNone("its deadline has passed")
		}},
		{"deadline at a claim", nexjob.Expired, true, func(b *bench, _ nexjob.Claimed) {
			b.pass(2 * time.Hour)
			b.claimNone("its deadline has passed")
		}},
		{"deadline by upkeep", nexjob.Expired, true, func(b *bench, c nexjob.Claimed) {
			b.pass(2 * time.Hour)
			amend(nexjob.Action{Act: nexjob.ActExpire})(b, c)
		}},
		{"cancel", nexjob.Cancelled, true, amend(nexjob.Action{Act: nexjob.ActCancel})},
		{"delete", 0, true, amend(nexjob.Action{Act: nexjob.ActDelete})},
		{"delete with Force", 0, true, amend(nexjob.Action{Act: nexjob.ActDelete, Force: true})},
	}
}

func heldUp(b *bench, w openEnd) {
	c := b.run(dated("k"))
	b.write(b.intent(c, "card"))
	child := newJob("")
	child.Queue, child.Parents = "children", []nexjob.Parent{on(nexjob.OnAnyEnd, c.Job.ID)}
	b.add(child)
	if w.waiting {
		b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndRetry, Delay: time.Minute})
	}
	w.try(b, c)
	j := b.state(c.Job.ID, nexjob.Uncertain, "an effect has no outcome")
	if w.wished == 0 {
		b.check(j.Wished != 0, "the end that was wished is not noted")
	} else {
		b.equal("the end that was wished", w.wished, j.Wished)
	}
	b.check(j.DueAt.IsZero(), "without a look-up it is due at %s", j.DueAt)
	b.check(j.EndedAt.IsZero(), "it ended at %s", j.EndedAt)
	b.check(j.Reason != "", "it does not say why it waits")
	b.equal("open effects", 1, j.OpenEffects)
	b.state(child.ID, nexjob.AwaitingContinuation, "an uncertain parent has not ended")
	for _, policy := range nexjob.Policies() {
		got := b.enqueue(under(policy, newJob("k")))[0]
		b.check(got.Outcome == nexjob.Existing && got.ID == j.ID && got.State == nexjob.Uncertain, "Enqueue under its key: %+v", got)
	}
	b.pass(100 * time.Hour)
	b.claimNone("only a verdict moves it")
	b.equal("the job long after", j, b.job(j.ID))
}

func effectConfirmed(b *bench) {
	c := b.run(newJob("k"))
	intent := b.intent(c, "card")
	b.write(intent)
	b.equal("open effects", 1, b.job(c.Job.ID).OpenEffects)
	sent := b.now()
	b.pass(2 * time.Second)
	got := b.write(outcome(intent, nexjob.Confirmed, `{"id":"ch_1"}`))
	b.check(got.State == nexjob.Confirmed && string(got.Value) == `{"id":"ch_1"}` && got.At.Equal(b.now()) && got.FirstSent.Equal(sent),
		"standing: %+v", got)
	b.equal("open effects", 0, b.job(c.Job.ID).OpenEffects)
	b.finish(c, nexjob.EndSucceeded)
	b.state(c.Job.ID, nexjob.Succeeded, "its effect is confirmed")
}

func confirmedStands(b *bench) {
	c := b.run(newJob("k"))
	intent := b.intent(c, "card")
	b.write(intent)
	b.write(outcome(intent, nexjob.Confirmed, "paid"))
	b.finish(c, nexjob.EndRetry)
	again := b.claimOnly(c.Job.ID)
	b.equal("receipts claimed", b.receipts(c.Job.Operation), again.Receipts)
	for _, r := range []nexjob.Receipt{
		b.intent(again, "card"), outcome(b.intent(again, "card"), nexjob.Confirmed, "paid twice"),
		outcome(b.intent(again, "card"), nexjob.Refused, ""), outcome(b.intent(again, "card"), nexjob.Disproved, ""),
	} {
		b.unchanged("a write after the confirmation", func() {
			got := b.record(r)[0]
			b.check(!got.Ours, "Record as %s after the confirmation is ours", r.State)
			if got.Err == nil {
				b.check(got.Standing.State == nexjob.Confirmed && string(got.Standing.Value) == "paid", "standing: %+v", got.Standing)
			}
		})
	}
}

func refusedNextTurn(b *bench) {
	c := b.run(newJob("k"))
	intent := b.intent(c, "card")
	b.write(intent)
	refusal := outcome(intent, nexjob.Refused, "")
	refusal.Error = "card declined"
	b.equal("error kept", "card declined", b.write(refusal).Error)
	b.finish(c, nexjob.EndRetry)
	again := b.claimOnly(c.Job.ID)
	got := b.record(b.intent(again, "card"))[0]
	b.check(!got.Ours && (got.Err != nil || got.Standing.State == nexjob.Refused), "a key that was refused is used again: %+v", got)
	next := b.intent(again, "card")
	next.Turn, next.OutsideKey = 1, nexjob.OutsideKey(c.Job.Operation, "card", "", 1)
	next.Fingerprint = nexjob.FingerprintOf([]byte("another card")) // a refused effect binds nobody
	b.write(next)
	b.equal("state of the first turn", nexjob.Refused, b.card(c.Job.Operation).State)
	b.write(outcome(next, nexjob.Confirmed, "paid"))
	b.finish(again, nexjob.EndSucceeded)
	b.state(c.Job.ID, nexjob.Succeeded, "the second turn is confirmed")
}

func outcomeWithoutIntent(b *bench) {
	c := b.run(newJob("k"))
	for _, state := range []nexjob.EffectState{nexjob.Confirmed, nexjob.Refused, nexjob.Disproved} {
		b.unchanged("an outcome of an effect never intended", func() {
			b.is(b.record(outcome(b.intent(c, "card"), state, ""))[0].Err, nexjob.ErrNotFound, "Record as "+state.String())
		})
	}
}

// mismatched requires that the effect "card" is refused under another request.
func (b *bench) mismatched(c nexjob.Claimed, state nexjob.EffectState) {
	b.t.Helper()
	other := b.intent(c, "card")
	other.Fingerprint = nexjob.FingerprintOf([]byte("another request"))
	standing := b.card(c.Job.Operation)
	b.unchanged("an effect under another request", func() {
		b.t.Helper()
		got := b.record(other)[0]
		b.check(!got.Ours, "it is called ours")
		b.is(got.Err, nexjob.ErrEffectMismatch, "an effect under another request")
		b.equal("mismatch", nexjob.EffectMismatchError{
			Operation: c.Job.Operation, Name: "card", State: state,
			Standing: standing.Fingerprint, Fingerprint: other.Fingerprint,
		}, *as[*nexjob.EffectMismatchError](b, got.Err, "an effect under another request"))
	})
}

func repeatWithin(b *bench) {
	c := b.run(newJob("k"))
	first := b.write(b.intent(c, "card"))
	b.pass(over)
	again := b.claimOnly(c.Job.ID)
	b.pass(time.Hour - over - 21*time.Second)
	intent := b.intent(again, "card")
	got := b.write(intent)
	b.check(got.FirstSent.Equal(first.FirstSent), "FirstSent moved from %s to %s", first.FirstSent, got.FirstSent)
	b.check(got.SendBefore.Equal(intent.SendBefore), "SendBefore is %s, want the newest, %s", got.SendBefore, intent.SendBefore)
	b.equal("writer", again.Job.Lease(), got.Writer)
	b.equal("outside key", first.OutsideKey, got.OutsideKey)
	b.equal("open effects", 1, b.job(c.Job.ID).OpenEffects)
}

// stillUnknown requires that a receipt is refused because the outcome of its effect,
// the only open one, is not known.
func (b *bench) stillUnknown(c nexjob.Claimed, r nexjob.Receipt, what string) nexjob.StillUnknownError {
	b.t.Helper()
	var err nexjob.StillUnknownError
	b.unchanged(what, func() {
		b.t.Helper()
		got := b.record(r)[0]
		b.check(!got.Ours, "%s is called ours", what)
		err = *as[*nexjob.StillUnknownError](b, got.Err, what)
	})
	b.equal(what+": effect named", r.Name, err.Name)
	b.equal("open effects", 1, b.job(c.Job.ID).OpenEffects)
	return err
}

func repeatAfter(b *bench) {
	c := b.run(newJob("k"))
	b.write(b.intent(c, "card"))
	b.pass(over)
	again := b.claimOnly(c.Job.ID)
	b.pass(time.Hour)
	b.stillUnknown(again, b.intent(again, "card"), "a send after RepeatableFor")
	longer := b.intent(again, "card")
	longer.RepeatableFor = 100 * time.Hour
	got := b.record(longer)[0]
	b.check(!got.Ours, "a repeat prolonged the time within which it may be repeated: %+v", got)
}

func repeatTooLate(b *bench) {
	c := b.run(newJob("k"))
	b.write(b.intent(c, "card"))
	b.pass(over)
	again := b.claimOnly(c.Job.ID)
	b.pass(time.Hour - over - 5*time.Second)
	b.stillUnknown(again, b.intent(again, "card"), "a send that may end after RepeatableFor")
}

func atMostOnce(b *bench) {
	c := b.run(newJob("k"))
	intent := b.intent(c, "card")
	intent.AtMostOnce, intent.RepeatableFor = true, 0
	b.write(intent)
	b.pass(over)
	again := b.claimOnly(c.Job.ID)
	for _, repeatable := range []time.Duration{0, time.Hour} {
		r := b.intent(again, "card")
		r.AtMostOnce, r.RepeatableFor = repeatable == 0, repeatable
		err := b.stillUnknown(again, r, fmt.Sprintf("a second send of AtMostOnce, repeatable for %s", repeatable))
		b.check(err.Until.IsZero(), "time alone will help at %s", err.Until)
	}
}

func openRetryGoesOn(b *bench) {
	c := b.run(newJob("k"))
	b.write(b.intent(c, "card"))
	for _, how := range []nexjob.Ending{nexjob.EndRetry, nexjob.EndSnoozed, nexjob.EndInterrupted} {
		b.equal("state", nexjob.Enqueued, b.finish(c, how).State)
		j := b.job(c.Job.ID)
		b.check(j.Wished == 0 && j.OpenEffects == 1, "wished %s, open effects %d", j.Wished, j.OpenEffects)
		c = b.claimOnly(c.Job.ID)
		b.equal("receipts claimed", 1, len(c.Receipts))
	}
	b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
	b.finish(c, nexjob.EndSucceeded)
	b.state(c.Job.ID, nexjob.Succeeded, "the effect is confirmed")
}
