package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// ErrTimeout is the cause of a handler's context when its attempt has timed out.
var ErrTimeout = errors.New("worker: attempt timed out")

// errAfterCompletion answers what may not follow CompleteIn in a run.
var errAfterCompletion = errors.New("worker: the run has called CompleteIn, after which nothing may follow; " +
	"move the call before it")

// Permanent marks an error that no retry can mend: the job ends Failed at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// RetryAfter marks an error after which the next try makes sense no sooner than d,
// as an outside service says with Retry-After. It spends a try like any error. d
// stands in the place of the kind's back-off, longer or shorter. Up to a tenth of it
// is added at random, so that a thousand jobs that were told the same do not come
// back in one second.
//
// A d of 0 or less says nothing, as a header that is missing or lies in the past: the
// next try comes after the kind's back-off, as with any error.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("worker: retry asked for")
	}
	return &retryAfterError{after: clampDelay(d), err: err}
}

type retryAfterError struct {
	after time.Duration // 0: nobody said
	err   error
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Snooze asks for the job to be run again after d, at least a millisecond. It spends
// no try, so a handler that waits for something may return it as often as it likes;
// one that always returns it never ends, unless the job has a deadline.
func Snooze(d time.Duration) error { return &snoozeError{max(clampDelay(d), time.Millisecond)} }

type snoozeError struct{ after time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("worker: snoozed for %s", e.after) }

func clampDelay(d time.Duration) time.Duration { return min(max(d, 0), nexjob.MaxDuration) }

// PanicError is a panic of a handler, or its call of runtime.Goexit, as the error
// that its attempt ends with. The worker lives on.
type PanicError struct {
	Value  any    // what was passed to panic; nil with Goexit
	Goexit bool   // the handler ended its goroutine
	Stack  string // of the goroutine at that moment
}

// Error names the value; the stack is in Stack and in the attempt's record.
func (e *PanicError) Error() string {
	if e.Goexit {
		return "worker: handler called runtime.Goexit"
	}
	return fmt.Sprintf("worker: handler panicked: %v", e.Value)
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// uncertainError ends an attempt as uncertain: an effect of its operation may or
// may not have happened, and nothing but a look-up or a person can tell.
type uncertainError struct {
	lookup bool          // the handler can ask the outside service
	asked  bool          // it was asked when it could have said "not applied", and that counts
	after  time.Duration // the next look-up makes no sense sooner; without asked it comes then
	still  *nexjob.StillUnknownError
	err    error // what was met, may be nil
}

func (e *uncertainError) Error() string {
	if e.err == nil {
		return e.still.Error()
	}
	return e.still.Error() + ": " + e.err.Error()
}

func (e *uncertainError) Unwrap() []error {
	if e.err == nil {
		return []error{e.still}
	}
	return []error{e.still, e.err}
}

// Left is a job that a stop could not wait for.
type Left struct {
	Job   nexjob.ID
	Kind  string
	Fence int64
	// GivenBack says that the attempt was settled as interrupted, so the job is
	// due at once; otherwise it is recovered when its lease runs out.
	GivenBack bool
	Why       string
}

// StopError is what Run returns when it had to leave something behind to stop in
// time.
type StopError struct{ Left []Left }

// Error names the jobs.
func (e *StopError) Error() string {
	text := fmt.Sprintf("worker: stopped with %d job(s) left:", len(e.Left))
	for i, l := range e.Left {
		if i == 20 {
			return text + " …"
		}
		text += fmt.Sprintf(" %s (%s, %s)", l.Job, l.Kind, l.Why)
	}
	return text
}

// noTimeDelay is when an attempt is made anew that had too little of its lease left to
// send an effect, because its lease could not be renewed.
const noTimeDelay = time.Second

// firstLookup is how long after its outcome became unknown an effect is looked up: that
// it was applied counts at once, and a reply that was merely lost is mostly known by then.
const firstLookup = time.Second

// judge says how an attempt ends by what its handler returned. An error of the
// user's own type may panic in any of its methods; that, too, only fails the try.
func (w *Worker) judge(ctx context.Context, a *attempt, err error) (end nexjob.Settlement) {
	defer func() {
		if value := recover(); value != nil {
			end = w.failedTry(a, w.panicked(value, false))
		}
	}()
	if open := a.run.unanswered(); open != nil && a.run.lookup {
		return w.uncertainEnd(a, open, err)
	}
	if err == nil {
		return a.run.success()
	}
	cause := context.Cause(ctx)
	var snooze *snoozeError
	switch unknown := a.run.unknown(err); {
	case unknown != nil:
		return w.uncertainEnd(a, unknown, err)
	case a.run.endWished():
		return ending(a, nexjob.EndInterrupted, 0, err) // the storage takes the end that it has noted
	case errors.Is(cause, nexjob.ErrStopped):
		return ending(a, nexjob.EndCancelled, 0, err)
	case errors.As(err, &snooze):
		return ending(a, nexjob.EndSnoozed, snooze.after, err)
	case errors.Is(err, errNoTime): // no fault of the handler's
		return ending(a, nexjob.EndSnoozed, noTimeDelay, err)
	case errors.Is(cause, nexjob.ErrShutdown) && !deliberate(err):
		return ending(a, nexjob.EndInterrupted, 0, err)
	case errors.Is(cause, ErrTimeout) && errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return w.failedTry(a, err)
}

// deliberate reports whether an error that was met in a shutdown is the handler's
// own word and not the echo of its context's end.
func deliberate(err error) bool {
	var permanent *permanentError
	var later *retryAfterError
	return (errors.As(err, &permanent) || errors.As(err, &later)) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, nexjob.ErrShutdown)
}

// failedTry ends an attempt whose handler failed: as Failed when no retry can help
// or no try is left, else for a retry. It must not panic whatever the error does.
func (w *Worker) failedTry(a *attempt, err error) (end nexjob.Settlement) {
	tries := a.run.job.tries + 1
	defer func() {
		if value := recover(); value != nil {
			end = bareTry(a, errorText(err))
		}
	}()
	var wait time.Duration
	var permanent *permanentError
	var later *retryAfterError
	switch {
	case errors.As(err, &permanent), errors.Is(err, nexjob.ErrEffectMismatch), tries >= a.run.job.maxAttempts:
		return ending(a, nexjob.EndFailed, 0, err)
	case errors.As(err, &later) && later.after > 0:
		wait = later.after + time.Duration(random()*float64(min(later.after, 10*time.Minute))/10)
	default:
		wait = a.handler.retry.After(tries, random())
	}
	return ending(a, nexjob.EndRetry, min(wait, nexjob.MaxDuration), err)
}

// bareTry ends an attempt whose handler failed without asking anything of the user's.
func bareTry(a *attempt, text string) nexjob.Settlement {
	tries := a.run.job.tries + 1
	if tries >= a.run.job.maxAttempts {
		return nexjob.Settlement{Lease: a.lease, As: nexjob.EndFailed, Error: text}
	}
	return nexjob.Settlement{
		Lease: a.lease, As: nexjob.EndRetry, Delay: nexjob.Retry{}.After(tries, random()), Error: text,
	}
}

// uncertainEnd ends an attempt as uncertain: looked up again after a back-off, or,
// without a look-up or past its limit, waiting for a person. The storage counts as the
// limit does: look-ups that came too early to say "not applied" are free, and after
// them it is asked at the first moment when it may.
func (w *Worker) uncertainEnd(a *attempt, unknown *uncertainError, err error) nexjob.Settlement {
	if err == nil {
		err = unknown
	}
	ends := a.run.job.lookups + 1
	switch {
	case !unknown.lookup, unknown.asked && ends >= w.options.LookupLimit:
		return ending(a, nexjob.EndUncertain, 0, err)
	case !unknown.asked:
		return ending(a, nexjob.EndUncertain, max(unknown.after, firstLookup), err)
	}
	wait := w.options.LookupBackoff.After(ends, random())
	return ending(a, nexjob.EndUncertain, max(wait, unknown.after), err)
}

func ending(a *attempt, as nexjob.Ending, after time.Duration, err error) nexjob.Settlement {
	return nexjob.Settlement{Lease: a.lease, As: as, Delay: after, Error: errorText(err)}
}

// errorText is what is stored of an error: its text, with the stack of a panic, cut
// to the limit.
func errorText(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = "worker: the error's own method panicked"
		}
	}()
	text = err.Error()
	if panicked, ok := errors.AsType[*PanicError](err); ok {
		text += "\n\n" + panicked.Stack
	}
	return nexjob.CutText(text, nexjob.MaxError)
}
