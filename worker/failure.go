package worker

import (
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
// as an outside service says with Retry-After. It spends a try like any error. Up
// to a tenth of d is added at random, so that a thousand jobs that were told the
// same do not come back in one second.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		err = errors.New("worker: retry asked for")
	}
	return &retryAfterError{after: clampDelay(d), err: err}
}

type retryAfterError struct {
	after time.Duration
	err   error
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// Snooze asks for the job to be run again after d. It spends no try, so a handler
// that waits for something may return it as often as it likes.
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
	after  time.Duration // a look-up makes no sense sooner
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
