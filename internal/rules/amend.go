package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// Refusals of an action on one job.
var (
	errEnded      = errors.New("nexjob: the job has ended")
	errNotEnded   = errors.New("nexjob: the job has not ended; cancel it first")
	errProcessing = errors.New("nexjob: the job is being processed; cancel it first")
	errUncertain  = errors.New("nexjob: the job is Uncertain; resolve its effect first")
	errEffects    = errors.New("nexjob: the job has confirmed effects, whose receipts keep them from being " +
		"repeated; delete it with Force and a Reason")
	errNotWaiting   = errors.New("nexjob: the job is not waiting")
	errNotUncertain = errors.New("nexjob: the job is not Uncertain")
	errNotDue       = errors.New("nexjob: the job's deadline has not passed")
	errWhichEffect  = errors.New("nexjob: the job has several effects without an outcome; name one")
	errNoEffect     = errors.New("nexjob: no such effect without an outcome")
)

// Cancel cancels a waiting job, or asks the worker of a Processing one to stop.
func Cancel(j *nexjob.Job, do *nexjob.Action, open []nexjob.Receipt, now time.Time) error {
	reason := because("cancelled", do)
	switch {
	case waiting(j):
		end(j, nexjob.Cancelled, reason, open, now)
	case j.State == nexjob.Processing:
		j.Stop, j.StopReason = true, reason
	case j.State == nexjob.Uncertain:
		return errUncertain
	default:
		return errEnded
	}
	return nil
}

// because is the reason that an action leaves on a job.
func because(what string, do *nexjob.Action) string {
	if do.By != "" {
		what += " by " + do.By
	}
	if do.Reason != "" {
		what += ": " + do.Reason
	}
	return nexjob.CutText(what, nexjob.MaxError)
}

// Requeue puts an ended job back with a fresh budget and a history that stays. Only
// a key's last job may take the key again: key is the key's row, nil for none, and
// last the record of the job that it names, nil once that is purged.
func Requeue(j *nexjob.Job, key *nexjob.KeyRow, last *nexjob.Job, do *nexjob.Action, now time.Time) error {
	switch {
	case j.State == nexjob.Uncertain:
		return errUncertain
	case !j.State.Terminal():
		return errNotEnded
	case key != nil && !KeyOver(key, now) && key.Job != j.ID:
		return fmt.Errorf("its key has gone on to another job: %w", &nexjob.DuplicateJobError{
			IdempotencyKey: j.Key, ExistingJobID: key.Job,
			ExistingState: lastState(Standing{Key: key, Holder: last}, now), RecordGone: last == nil,
		})
	}
	if do.NewOperation {
		j.Operation = derive(j.ID, j.Fence)
		j.OpenEffects, j.ReceiptCount, j.ReceiptBytes = 0, 0, 0
	}
	j.State, j.DueAt, j.EndedAt = nexjob.Enqueued, Micro(now), time.Time{}
	j.Tries, j.Crashes, j.Lookups, j.Started = 0, 0, 0, false
	j.Result, j.Reason = nil, because("requeued", do)
	if !j.Deadline.IsZero() && !j.Deadline.After(now) {
		j.Deadline = time.Time{}
	}
	j.Parents = slices.Clone(j.Parents)
	for i := range j.Parents {
		j.Parents[i].Decided = true
	}
	return nil
}

// Delete says whether a job's record may be removed. With an open effect the job
// becomes Uncertain instead and held is true; confirmed counts the effects of its
// operation that happened.
func Delete(
	j *nexjob.Job, do *nexjob.Action, open []nexjob.Receipt, confirmed int, now time.Time,
) (held bool, err error) {
	switch {
	case j.State == nexjob.Processing:
		return false, errProcessing
	case j.State == nexjob.Uncertain:
		return false, errUncertain
	case len(open) > 0:
		hold(j, nexjob.Cancelled, because("deleted", do), open, now)
		return true, nil
	case confirmed > 0 && (!do.Force || do.Reason == ""):
		return false, errEffects
	}
	return false, nil
}

// Purge says whether retention may remove a job's record.
func Purge(j *nexjob.Job) error {
	if !j.State.Terminal() {
		return errNotEnded
	}
	return nil
}

// ClearKey says whether the refusal of a key may be lifted; holder is the record of
// its last job, nil when it is gone.
func ClearKey(key *nexjob.KeyRow, holder *nexjob.Job, now time.Time) error {
	switch {
	case key == nil || KeyOver(key, now):
		return nexjob.ErrNotFound
	case holder != nil && holder.State.Active():
		return fmt.Errorf("nexjob: idempotency key %q is held by job %s (%s)",
			key.Key, holder.ID, holder.ReportedState(now))
	}
	key.Cleared = true
	return nil
}

// ExpireWaiting ends a waiting job whose deadline has passed.
func ExpireWaiting(j *nexjob.Job, open []nexjob.Receipt, now time.Time) error {
	switch {
	case !waiting(j):
		return errNotWaiting
	case j.Deadline.IsZero() || j.Deadline.After(now):
		return errNotDue
	}
	Expire(j, open, now)
	return nil
}

// Alter changes the due time, priority or queue of a waiting job.
func Alter(j *nexjob.Job, do *nexjob.Action) error {
	if !waiting(j) {
		return errNotWaiting
	}
	switch do.Act {
	case nexjob.ActReschedule:
		j.DueAt = clamp(Micro(do.DueAt), j.Deadline)
	case nexjob.ActPrioritise:
		j.Priority = do.Priority
	case nexjob.ActMove:
		j.Queue = do.Queue
	default:
		return nexjob.ErrUnsupported
	}
	return nil
}

// Resolve applies a person's verdict to an effect of an Uncertain job. It returns
// the receipt to be written. The job goes on, takes its noted end, or stays
// Uncertain while another effect has no outcome.
func Resolve(
	j *nexjob.Job, do *nexjob.Action, open []nexjob.Receipt, now time.Time,
) (*nexjob.Receipt, error) {
	if j.State != nexjob.Uncertain {
		return nil, errNotUncertain
	}
	r, rest, err := pick(open, do)
	if err != nil {
		return nil, err
	}
	switch do.Verdict {
	case nexjob.Applied:
		r.State, r.Value = nexjob.Confirmed, do.Value
	case nexjob.NotApplied:
		if err := tooEarly(r, now); err != nil {
			return nil, err
		}
		r.State = nexjob.Disproved
		Disproved(j)
	case nexjob.Compensate:
		r.State, j.Wished = nexjob.Compensated, nexjob.Cancelled
	case nexjob.StillUnknown:
		return nil, errors.New("nexjob: the verdict is still unknown: say Applied, NotApplied or Compensate")
	}
	r.By, r.Error = do.By, because(do.Verdict.String(), do)
	written, _ := write(r, now)
	if len(rest) == 0 {
		goOn(j, do, now)
	}
	return written, nil
}

// goOn moves an Uncertain job whose last open effect got its verdict: to its noted
// end, or, without one, back to be claimed.
func goOn(j *nexjob.Job, do *nexjob.Action, now time.Time) {
	wished := j.Wished
	j.Wished, j.Lookups = 0, 0
	if wished != 0 {
		end(j, wished, firstOf(j.Reason, because(do.Verdict.String(), do)), nil, now)
		return
	}
	j.State, j.DueAt = nexjob.Enqueued, Micro(now)
	j.Reason = because("effect "+do.Verdict.String(), do)
}

// pick returns a copy of the open effect that an action names, and the others.
func pick(open []nexjob.Receipt, do *nexjob.Action) (*nexjob.Receipt, []nexjob.Receipt, error) {
	if do.Effect == "" && len(open) > 1 {
		return nil, nil, errWhichEffect
	}
	for i := range open {
		if do.Effect == "" || open[i].Name == do.Effect && open[i].Item == do.Item {
			r := open[i]
			rest := append(append([]nexjob.Receipt(nil), open[:i]...), open[i+1:]...)
			return &r, rest, nil
		}
	}
	return nil, nil, errNoEffect
}
