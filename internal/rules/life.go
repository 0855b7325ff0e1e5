package rules

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

const (
	// crashBackoff is the first wait after a second crash; it doubles up to
	// crashBackoffMax, and half of each is jitter, so that what died together
	// does not come back together.
	crashBackoff    = 10 * time.Second
	crashBackoffMax = 10 * time.Minute
	// firstLookup is how long after its outcome became unknown an effect is looked up.
	firstLookup = time.Second
	// lookupLimit ends automatic look-ups that a step other than the worker's own
	// settlement would plan: from then on the job waits for a person.
	lookupLimit = 20
	// workerLost is the reason of a job whose workers died CrashLimit times.
	workerLost = "worker lost"
)

// Claim puts a due job under a fresh lease that runs from now.
func Claim(j *nexjob.Job, now time.Time, fence int64, ask *nexjob.ClaimRequest) {
	j.State = nexjob.Processing
	j.Fence, j.Worker, j.Started = fence, ask.Worker, true
	j.StartedAt = Micro(now)
	j.LeaseFor, j.LeaseUntil = ask.Lease, Micro(now.Add(ask.Lease))
}

// Late reports whether a due job must expire instead of being claimed. A deadline
// does not touch an Uncertain job.
func Late(j *nexjob.Job, now time.Time) bool {
	return j.State != nexjob.Uncertain && !j.Deadline.IsZero() && !j.Deadline.After(now)
}

// Expire ends a job that was not started by its deadline.
func Expire(j *nexjob.Job, open []nexjob.Receipt, now time.Time) {
	reason := fmt.Sprintf("not started by its deadline %s", j.Deadline.Format(time.RFC3339))
	end(j, nexjob.Expired, reason, open, now)
}

// Recover takes a job away from a worker whose lease ran out. The crash is counted
// apart from the tries; a job that someone wanted cancelled is not run again.
func Recover(j *nexjob.Job, open []nexjob.Receipt, limit int, now time.Time) {
	j.Crashes++
	closeAttempt(j, nexjob.EndCrashed, "lease ran out", now)
	switch {
	case j.Stop:
		end(j, nexjob.Cancelled, j.StopReason, open, now)
	case endAsked(j):
		end(j, j.Wished, j.Reason, open, now)
	case j.Crashes >= limit:
		end(j, nexjob.Failed, workerLost, open, now)
	case j.Wished != 0 && len(open) > 0:
		hold(j, j.Wished, workerLost, open, now)
	default:
		j.State, j.Wished, j.Reason = nexjob.Enqueued, 0, workerLost
		j.DueAt = clamp(Micro(now.Add(crashWait(j))), j.Deadline)
	}
}

// crashWait is zero after the first crash, so that one deploy costs nothing.
func crashWait(j *nexjob.Job) time.Duration {
	if j.Crashes <= 1 {
		return 0
	}
	wait := crashBackoffMax
	if doublings := j.Crashes - 2; doublings < 6 {
		wait = min(crashBackoff<<doublings, crashBackoffMax)
	}
	return wait/2 + time.Duration(chance(j.ID, j.Crashes)*float64(wait/2))
}

// Current reports whether a lease is the job's newest and the job is Processing
// under it. The fence is compared, never the clock: a worker that slept through
// its lease may wake at any later time, and by then the job can be running
// elsewhere under a higher fence.
func Current(j *nexjob.Job, lease nexjob.Lease) bool {
	return j != nil && j.State == nexjob.Processing && j.Fence == lease.Fence
}

// Stands reports whether a settlement has been applied before: the same lease and
// the same ending, so that the caller only lost the answer.
func Stands(j *nexjob.Job, s *nexjob.Settlement) bool {
	if j == nil {
		return false
	}
	if j.SettledFence == s.Lease.Fence {
		return j.SettledAs == s.As
	}
	return slices.ContainsFunc(j.Attempts, func(a nexjob.Attempt) bool {
		return a.Fence == s.Lease.Fence && a.Ending == s.As
	})
}

// Settle ends the attempt of a current lease. Open are the effects of the
// operation that stand intended without an outcome: while there are any, nothing
// ends the job.
func Settle(j *nexjob.Job, s *nexjob.Settlement, open []nexjob.Receipt, now time.Time) {
	text := nexjob.CutText(s.Error, nexjob.MaxError)
	closeAttempt(j, s.As, text, now)
	j.SettledFence, j.SettledAs = s.Lease.Fence, s.As
	switch s.As {
	case nexjob.EndSucceeded:
		j.Result = bytes.Clone(s.Result)
		succeed(j, len(s.Followers) > 0, open, now)
		return
	case nexjob.EndFailed, nexjob.EndRetry:
		j.Tries++
	case nexjob.EndSnoozed:
		j.Snoozes++
	case nexjob.EndInterrupted:
		j.Interruptions++
	case nexjob.EndUncertain:
		if !early(open, now) {
			j.Lookups++
		}
	case nexjob.EndCancelled, nexjob.EndCrashed:
	}
	switch {
	case j.Stop || s.As == nexjob.EndCancelled:
		end(j, nexjob.Cancelled, firstOf(j.StopReason, text, "cancelled"), open, now)
	case s.As == nexjob.EndUncertain && len(open) > 0:
		if !endAsked(j) { // that end keeps its own reason
			j.Reason = text
		}
		j.State, j.DueAt = nexjob.Uncertain, time.Time{}
		if s.Delay > 0 {
			j.DueAt = Micro(now.Add(s.Delay))
		}
	case endAsked(j):
		end(j, j.Wished, j.Reason, open, now)
	case s.As == nexjob.EndFailed, s.As == nexjob.EndRetry && j.Tries >= j.MaxAttempts:
		end(j, nexjob.Failed, text, open, now)
	default:
		j.State, j.Wished = nexjob.Enqueued, 0
		if s.As != nexjob.EndInterrupted {
			j.Reason = text
		}
		j.DueAt = clamp(Micro(now.Add(max(s.Delay, 0))), j.Deadline)
	}
}

// endAsked reports whether a job is only still active because an effect has no
// outcome, and its noted end was asked for from outside: a cancel, or a deadline. That
// end is taken under every outcome. The end of a handler that had done its work, or
// had no try left, is true only as long as no effect of it proves not to have
// happened.
func endAsked(j *nexjob.Job) bool {
	return j.Wished == nexjob.Cancelled || j.Wished == nexjob.Expired
}

// Disproved forgets the end of a handler one of whose effects did not happen: it is
// sent again first.
func Disproved(j *nexjob.Job) {
	if !endAsked(j) {
		j.Wished = 0
	}
}

// succeed ends a job well. With followers that could not be added now, an
// Uncertain job goes on after its verdict instead of taking the noted end, so that
// the handler adds them then.
func succeed(j *nexjob.Job, followers bool, open []nexjob.Receipt, now time.Time) {
	if len(open) == 0 {
		end(j, nexjob.Succeeded, "", nil, now)
		return
	}
	wished := nexjob.Succeeded
	if followers {
		wished = 0
	}
	hold(j, wished, "the handler ended while an effect has no outcome", open, now)
}

// end gives a job its terminal state, or, while an effect has no outcome, makes it
// Uncertain and notes the end.
func end(j *nexjob.Job, to nexjob.State, reason string, open []nexjob.Receipt, now time.Time) {
	if len(open) > 0 {
		hold(j, to, reason, open, now)
		return
	}
	j.State, j.Reason = to, reason
	j.EndedAt = Micro(now)
	j.Wished, j.Stop, j.StopReason = 0, false, ""
	j.LeaseUntil, j.LeaseFor, j.DueAt = time.Time{}, 0, time.Time{}
}

// hold makes a job Uncertain. If every open effect can be looked up, that is done soon:
// that an effect was applied counts at once. What ends a job again that has a noted end
// was a look-up itself, and the next one waits until it may also say that an effect was
// not applied.
func hold(j *nexjob.Job, wished nexjob.State, reason string, open []nexjob.Receipt, now time.Time) {
	again := j.Wished != 0
	j.State, j.Wished, j.Reason = nexjob.Uncertain, wished, reason
	j.Stop, j.StopReason = false, "" // noted as the wished end, so that a look-up may run
	j.LeaseUntil, j.LeaseFor, j.DueAt = time.Time{}, 0, time.Time{}
	if !askable(open) || j.Lookups >= lookupLimit {
		return
	}
	due := now.Add(firstLookup)
	if from := notAppliedFrom(open); again && from.After(due) {
		due = from
	}
	j.DueAt = Micro(due)
	if !early(open, now) {
		j.Lookups++ // counted here, for no settlement asks for this one
	}
}

// askable reports whether every open effect can be looked up.
func askable(open []nexjob.Receipt) bool {
	return !slices.ContainsFunc(open, func(r nexjob.Receipt) bool { return !r.Lookup })
}

// early reports whether the newest send of an open effect may still arrive, so that a
// look-up could not have said that it was not applied. Such a look-up is one more
// chance: it does not count against their limit.
func early(open []nexjob.Receipt, now time.Time) bool {
	return now.Before(notAppliedFrom(open))
}

// notAppliedFrom is the time from which all open effects may be found not applied.
func notAppliedFrom(open []nexjob.Receipt) time.Time {
	var latest time.Time
	for i := range open {
		if from := open[i].NotAppliedFrom(); from.After(latest) {
			latest = from
		}
	}
	return latest
}

// closeAttempt notes how the newest attempt ended and lets its lease go.
func closeAttempt(j *nexjob.Job, as nexjob.Ending, text string, now time.Time) {
	j.LeaseUntil, j.LeaseFor = time.Time{}, 0
	j.Attempts = append(slices.Clone(j.Attempts), nexjob.Attempt{
		Fence: j.Fence, Worker: j.Worker, Started: j.StartedAt, Ended: Micro(now), Ending: as, Error: text,
	})
	if extra := len(j.Attempts) - nexjob.MaxAttemptsKept; extra > 0 {
		j.Attempts = j.Attempts[extra:]
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
