package rules

import (
	"time"

	"github.com/nexjob/nexjob"
)

// Standing is what is stored about one item of an enqueue. The engine reads it
// under the lock of the item's key.
type Standing struct {
	Same   *nexjob.Job    // the job with the item's own ID
	Key    *nexjob.KeyRow // the row of the item's idempotency key
	Holder *nexjob.Job    // the job that the row names
}

// Judgment is what an enqueue of one item does. With Outcome Created and Fresh the
// caller adds the job under Answer.Operation; with Replaced it changes the holder.
type Judgment struct {
	Answer nexjob.Answer
	Fresh  bool // a job must be added; false with Created: a repeat
}

// Judge applies the key rule to one valid item.
func Judge(item *nexjob.NewJob, s Standing, now time.Time) Judgment {
	if s.Same != nil {
		return judgeRepeat(item, s.Same, now)
	}
	fresh := Judgment{Fresh: true, Answer: nexjob.Answer{
		ID: item.ID, Outcome: nexjob.Created, Operation: item.ID,
	}}
	last := lastState(s, now)
	if last == 0 {
		return fresh
	}
	answer := nexjob.Answer{
		ID: s.Key.Job, State: last, Operation: s.Key.Operation, RecordGone: s.Holder == nil,
		ArgsDiffer: s.Key.Fingerprint != item.Fingerprint,
	}
	if mismatch(item, s.Key, last) {
		answer.Err = &nexjob.KeyMismatchError{
			IdempotencyKey: item.IdempotencyKey, ExistingJobID: s.Key.Job,
			Kind: item.Kind, ExistingKind: s.Key.Kind,
			Fingerprint: item.Fingerprint, ExistingFingerprint: s.Key.Fingerprint,
		}
		answer.Outcome = nexjob.Mismatched
		return Judgment{Answer: answer}
	}
	if last.Active() {
		return judgeActive(item, s.Holder, answer)
	}
	if !s.Key.Cleared && item.DuplicatePolicy.Rule(last) == nexjob.RuleReject {
		return reject(item, answer)
	}
	fresh.Answer.ArgsDiffer = answer.ArgsDiffer
	if last != nexjob.Succeeded && !item.NewOperation {
		fresh.Answer.Operation, fresh.Answer.Continues = s.Key.Operation, true
	}
	return fresh
}

// lastState returns the state of the key's last job, or zero when nobody holds the
// key: never used, freed, or its life over.
func lastState(s Standing, now time.Time) nexjob.State {
	switch {
	case s.Key == nil || KeyOver(s.Key, now):
		return 0
	case s.Holder != nil:
		return s.Holder.ReportedState(now)
	}
	return s.Key.Ended
}

// KeyOver reports whether the key's own life has ended. The key of an active job
// has no end: Until is set when the job ends.
func KeyOver(k *nexjob.KeyRow, now time.Time) bool {
	return !k.Until.IsZero() && !k.Until.After(now)
}

// mismatch reports whether the key stands for other work. A different kind always
// is; different args only for a strict caller, and neither for Replace, whose
// purpose is other args, nor once a person has cleared the key.
func mismatch(item *nexjob.NewJob, k *nexjob.KeyRow, last nexjob.State) bool {
	if !item.SameKind(k.Kind) {
		return true
	}
	if !item.StrictArgs || k.Fingerprint == item.Fingerprint || k.Cleared {
		return false
	}
	return !(last.Active() && item.WhileActive == nexjob.Replace)
}

func judgeRepeat(item *nexjob.NewJob, same *nexjob.Job, now time.Time) Judgment {
	answer := nexjob.Answer{
		ID: same.ID, Outcome: nexjob.Created, State: same.ReportedState(now), Operation: same.Operation,
	}
	differ := ""
	switch {
	case !item.SameKind(same.Kind):
		differ = "kind"
	case item.IdempotencyKey != same.Key:
		differ = "key"
	case item.Fingerprint != same.Fingerprint && !same.Replaced:
		differ = "args"
	}
	if differ != "" {
		answer = nexjob.Answer{ID: same.ID, Err: &nexjob.IDReusedError{ID: same.ID, Differ: differ}}
	}
	return Judgment{Answer: answer}
}

func judgeActive(item *nexjob.NewJob, holder *nexjob.Job, answer nexjob.Answer) Judgment {
	answer.Outcome = nexjob.Existing
	switch item.WhileActive {
	case nexjob.ReturnExisting:
	case nexjob.Reject:
		return reject(item, answer)
	case nexjob.Replace:
		if waiting(holder) && !holder.Started {
			answer.Outcome = nexjob.Replaced
		} else {
			answer.Started = true
		}
	}
	return Judgment{Answer: answer}
}

func reject(item *nexjob.NewJob, answer nexjob.Answer) Judgment {
	answer.Outcome = nexjob.Rejected
	answer.Err = &nexjob.DuplicateJobError{
		IdempotencyKey: item.IdempotencyKey, ExistingJobID: answer.ID, ExistingState: answer.State,
		Policy: item.DuplicatePolicy, RecordGone: answer.RecordGone,
	}
	return Judgment{Answer: answer}
}

// waiting reports whether a job has not been claimed and may still be changed.
func waiting(j *nexjob.Job) bool {
	return j.State == nexjob.Enqueued || j.State == nexjob.AwaitingContinuation
}
