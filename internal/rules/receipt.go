package rules

import (
	"bytes"
	"time"

	"github.com/nexjob/nexjob"
)

// NoNewEffects reports whether a job must not send anything more: someone asked to
// cancel it, or only its noted end is waiting for a verdict.
func NoNewEffects(j *nexjob.Job) bool {
	return j.Stop || endAsked(j)
}

// Record weighs a receipt against the one that stands in its slot, nil for none,
// under a current lease. It answers, and returns the receipt to be written, nil for
// none. The first outcome stands.
func Record(standing, next *nexjob.Receipt, now time.Time) (*nexjob.Receipt, nexjob.Recorded) {
	if next.Sort == nexjob.StepReceipt {
		return recordStep(standing, next, now)
	}
	if next.State == nexjob.Intended {
		return intend(standing, next, now)
	}
	return conclude(standing, next, now)
}

func recordStep(standing, next *nexjob.Receipt, now time.Time) (*nexjob.Receipt, nexjob.Recorded) {
	if standing == nil {
		return write(next, now)
	}
	return nil, nexjob.Recorded{Standing: *standing, Ours: same(standing, next)}
}

// same is the three-way rule's first way: my own lost answer.
func same(standing, next *nexjob.Receipt) bool {
	return standing.Writer == next.Writer && standing.State == next.State &&
		bytes.Equal(standing.Value, next.Value)
}

func write(next *nexjob.Receipt, now time.Time) (*nexjob.Receipt, nexjob.Recorded) {
	r := *next
	r.Value = bytes.Clone(next.Value)
	r.Error = nexjob.CutText(next.Error, nexjob.MaxError)
	r.At, r.SendBefore, r.FirstSent = Micro(now), Micro(next.SendBefore), Micro(next.FirstSent)
	return &r, nexjob.Recorded{Standing: r, Ours: true}
}

// intend records that an effect is about to be sent, or sent again.
func intend(standing, next *nexjob.Receipt, now time.Time) (*nexjob.Receipt, nexjob.Recorded) {
	first := *next
	first.FirstSent = now
	if standing == nil {
		return write(&first, now)
	}
	if standing.State != nexjob.Refused && standing.Fingerprint != next.Fingerprint {
		return nil, nexjob.Recorded{Standing: *standing, Err: &nexjob.EffectMismatchError{
			Operation: standing.Operation, Name: standing.Name, Item: standing.Item, State: standing.State,
			Standing: standing.Fingerprint, Fingerprint: next.Fingerprint,
		}}
	}
	switch standing.State {
	case nexjob.Disproved:
		return write(&first, now)
	case nexjob.Intended:
		if standing.Writer == next.Writer && standing.SendBefore.Equal(Micro(next.SendBefore)) {
			return nil, nexjob.Recorded{Standing: *standing, Ours: true}
		}
		if !next.SendBefore.After(standing.RepeatBefore()) {
			again := *next
			again.FirstSent = standing.FirstSent
			again.RepeatableFor, again.AtMostOnce = standing.RepeatableFor, standing.AtMostOnce
			if again.SendBefore.Before(standing.SendBefore) {
				again.SendBefore = standing.SendBefore
			}
			return write(&again, now)
		}
		why := "a repeat could be a second effect"
		if standing.AtMostOnce {
			why = "it is sent at most once"
		}
		return nil, nexjob.Recorded{Standing: *standing, Err: &nexjob.StillUnknownError{
			Name: standing.Name, Item: standing.Item, Why: why,
		}}
	case nexjob.Confirmed, nexjob.Refused, nexjob.Compensated:
	}
	return nil, nexjob.Recorded{Standing: *standing}
}

// conclude records the outcome of an intended effect. Disproved, a look-up's word
// that it did not happen, counts only once the newest send can no longer reach the
// outside service.
func conclude(standing, next *nexjob.Receipt, now time.Time) (*nexjob.Receipt, nexjob.Recorded) {
	if standing == nil {
		return nil, nexjob.Recorded{Err: nexjob.ErrNotFound}
	}
	if standing.State != nexjob.Intended {
		return nil, nexjob.Recorded{Standing: *standing, Ours: same(standing, next)}
	}
	if next.State == nexjob.Disproved {
		if err := tooEarly(standing, now); err != nil {
			return nil, nexjob.Recorded{Standing: *standing, Err: err}
		}
	}
	done := *standing
	done.State, done.Value, done.Error = next.State, next.Value, next.Error
	done.Writer, done.By = next.Writer, next.By
	return write(&done, now)
}

func tooEarly(r *nexjob.Receipt, now time.Time) error {
	if from := r.NotAppliedFrom(); now.Before(from) {
		return &nexjob.StillUnknownError{
			Name: r.Name, Item: r.Item, Until: from, Why: "its newest send may still arrive",
		}
	}
	return nil
}
