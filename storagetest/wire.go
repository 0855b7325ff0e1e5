package storagetest

import (
	"context"
	"encoding/gob"
	"errors"
	"time"

	"github.com/nexjob/nexjob"
)

// The protocol between a test and a storage in another process: one gob stream
// each way. Requests carry the test's clock, so both processes have one time; they
// are numbered and answered in any order, so calls overlap in the child as they
// do in the test.

type request struct {
	Number   uint64
	Method   string
	Clock    time.Time
	Now      time.Time
	Until    time.Time
	Jobs     []nexjob.NewJob
	Ask      nexjob.ClaimRequest
	Leases   []nexjob.Lease
	Ends     []nexjob.Settlement
	Receipts []nexjob.Receipt
	Query    nexjob.Query
	Do       nexjob.Action
	Limit    int
	Puts     []nexjob.Put
	Kind     string
}

type response struct {
	Number   uint64
	Err      error
	Answers  []nexjob.Answer
	Claimed  []nexjob.Claimed
	Renewals []nexjob.Renewal
	Settled  []nexjob.Settled
	Recorded []nexjob.Recorded
	Page     nexjob.Page
	Tallies  []nexjob.Tally
	Amended  nexjob.Amended
	Put      []nexjob.PutAnswer
	Entries  []nexjob.Entry
	Time     time.Time
}

// wireError is an error that has come through the pipe: the words, and what
// errors.Is and errors.As would have found.
type wireError struct {
	Text      string
	Facts     []int // indexes of facts
	Duplicate *nexjob.DuplicateJobError
	Mismatch  *nexjob.KeyMismatchError
	Reused    *nexjob.IDReusedError
	Invalid   *nexjob.InvalidError
	Effect    *nexjob.EffectMismatchError
	Unknown   *nexjob.StillUnknownError
	Transient bool
}

// facts are the sentinel errors that callers act on.
func facts() []error {
	return []error{
		nexjob.ErrDuplicateJob, nexjob.ErrKeyMismatch, nexjob.ErrIDReused, nexjob.ErrInvalid,
		nexjob.ErrEffectMismatch, nexjob.ErrLeaseLost, nexjob.ErrNotFound, nexjob.ErrUnknownKind,
		nexjob.ErrUnknownParent, nexjob.ErrClock, nexjob.ErrUnsupported, nexjob.ErrInTransaction,
		nexjob.ErrNotCompleted, nexjob.ErrOutcomeUnknown, nexjob.ErrClosed, nexjob.ErrStopped,
		nexjob.ErrShutdown, context.Canceled, context.DeadlineExceeded,
	}
}

// Error is the text that the error had in the other process.
func (e *wireError) Error() string { return e.Text }

// Is finds the facts that the error matched in the other process.
func (e *wireError) Is(target error) bool {
	all := facts()
	for _, i := range e.Facts {
		if all[i] == target {
			return true
		}
	}
	return false
}

// As finds the typed errors that the error held in the other process.
func (e *wireError) As(target any) bool {
	switch t := target.(type) {
	case **nexjob.DuplicateJobError:
		return give(t, e.Duplicate)
	case **nexjob.KeyMismatchError:
		return give(t, e.Mismatch)
	case **nexjob.IDReusedError:
		return give(t, e.Reused)
	case **nexjob.InvalidError:
		return give(t, e.Invalid)
	case **nexjob.EffectMismatchError:
		return give(t, e.Effect)
	case **nexjob.StillUnknownError:
		return give(t, e.Unknown)
	case **nexjob.TransientError:
		if e.Transient {
			*t = &nexjob.TransientError{Err: errors.New(e.Text)}
		}
		return e.Transient
	}
	return false
}

func give[E any](to **E, what *E) bool {
	*to = what
	return what != nil
}

// carry makes an error fit for the pipe.
func carry(err error) error {
	if err == nil {
		return nil
	}
	out := &wireError{Text: err.Error()}
	for i, fact := range facts() {
		if errors.Is(err, fact) {
			out.Facts = append(out.Facts, i)
		}
	}
	errors.As(err, &out.Duplicate)
	errors.As(err, &out.Mismatch)
	errors.As(err, &out.Reused)
	errors.As(err, &out.Invalid)
	errors.As(err, &out.Effect)
	errors.As(err, &out.Unknown)
	var transient *nexjob.TransientError
	out.Transient = errors.As(err, &transient)
	return out
}

func carryJobs(jobs []nexjob.NewJob) []nexjob.NewJob {
	out := append([]nexjob.NewJob(nil), jobs...) // the caller's own stay as they are
	for i := range out {
		out[i].Err = carry(out[i].Err)
	}
	return out
}

func carryAnswers(answers []nexjob.Answer) {
	for i := range answers {
		answers[i].Err = carry(answers[i].Err)
	}
}

// carryAll makes every error of a response fit for the pipe.
func (r *response) carryAll() {
	r.Err = carry(r.Err)
	carryAnswers(r.Answers)
	for i := range r.Settled {
		r.Settled[i].Err = carry(r.Settled[i].Err)
		carryAnswers(r.Settled[i].Followers)
	}
	for i := range r.Recorded {
		r.Recorded[i].Err = carry(r.Recorded[i].Err)
	}
	for i := range r.Put {
		r.Put[i].Err = carry(r.Put[i].Err)
	}
	for i := range r.Amended.Changes {
		change := &r.Amended.Changes[i]
		change.Err = carry(change.Err)
		if change.FollowUp != nil {
			change.FollowUp.Err = carry(change.FollowUp.Err)
		}
	}
}

// registerErrors tells gob of the one error type that travels. It may be called
// again.
func registerErrors() { gob.RegisterName("nexjob/storagetest.wireError", &wireError{}) }
