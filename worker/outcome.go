package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

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
	job := &a.run.job
	tries := job.Tries + 1
	wait := nexjob.Retry{}.After(tries, random())
	defer func() {
		if value := recover(); value != nil {
			end = nexjob.Settlement{Lease: a.lease, As: nexjob.EndRetry, Delay: wait, Error: errorText(err)}
			if tries >= job.MaxAttempts {
				end.As, end.Delay = nexjob.EndFailed, 0
			}
		}
	}()
	var permanent *permanentError
	var later *retryAfterError
	switch {
	case errors.As(err, &permanent), errors.Is(err, nexjob.ErrEffectMismatch), tries >= job.MaxAttempts:
		return ending(a, nexjob.EndFailed, 0, err)
	case errors.As(err, &later):
		wait = later.after + time.Duration(random()*float64(min(later.after, 10*time.Minute))/10)
	default:
		wait = a.handler.retry.After(tries, random())
	}
	return ending(a, nexjob.EndRetry, min(wait, nexjob.MaxDuration), err)
}

// uncertainEnd ends an attempt as uncertain: looked up again after a back-off, or,
// without a look-up or past its limit, waiting for a person. The storage counts
// these ends, the first included, which was no look-up yet.
func (w *Worker) uncertainEnd(a *attempt, unknown *uncertainError, err error) nexjob.Settlement {
	if err == nil {
		err = unknown
	}
	ends := a.run.job.Lookups + 1
	if !unknown.lookup || ends > w.options.LookupLimit {
		return ending(a, nexjob.EndUncertain, 0, err)
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
