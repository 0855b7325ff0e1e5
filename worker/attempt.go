package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nexjob/nexjob"
)

// newAttempt makes an attempt of a claim that was asked for at asked on our clock,
// which was now in the storage's time.
func (w *Worker) newAttempt(c *nexjob.Claimed, asked, now time.Time) *attempt {
	a := &attempt{lease: c.Job.Lease(), until: c.Job.LeaseUntil, cancel: func(error) {}}
	if a.until.IsZero() {
		a.until = now.Add(w.options.Lease)
	}
	a.ends = asked.Add(a.until.Sub(now))
	w.mu.Lock()
	a.handler = w.handlers[c.Job.Kind]
	w.mu.Unlock()
	a.run = newRun(w, a, c)
	return a
}

// prepare makes what an attempt needs that is about to run, and returns its handler's
// context. The board is locked.
func (w *Worker) prepare(base context.Context, a *attempt) context.Context {
	ctx, cancel := context.WithCancelCause(base)
	a.cancel, a.started = cancel, time.Now()
	if timeout := a.run.timeout(); timeout > 0 {
		a.grace = max(w.options.Grace, time.Millisecond)
		a.overdue = time.AfterFunc(timeout+w.options.Grace, func() { w.abandonTimedOut(a, timeout) })
	}
	return ctx
}

// attempt runs an attempt's handler under its time-out.
func (w *Worker) attempt(ctx context.Context, a *attempt) {
	defer a.cancel(nil)
	w.stats.count(func(c *Counts) { c.Claimed++ })
	ctx, a.run.gate = nexjob.WithOpenTx(ctx)
	if timeout := a.run.timeout(); timeout > 0 {
		var stopTimer context.CancelFunc
		ctx, stopTimer = context.WithTimeoutCause(ctx, timeout, ErrTimeout)
		defer stopTimer()
	}
	w.work(ctx, a)
}

// work calls the handler. Whatever the handler does to its goroutine, its attempt
// is finished: a panic and runtime.Goexit are errors like others.
func (w *Worker) work(ctx context.Context, a *attempt) {
	err := errors.New("worker: the handler did not return") // replaced on every way out
	returned := false
	defer func() {
		if value := recover(); value != nil {
			err = w.panicked(value, false)
		} else if !returned {
			err = w.panicked(nil, true)
		}
		w.finish(ctx, a, err)
	}()
	err = a.handler.call(ctx, a.run)
	returned = true
}

func (w *Worker) panicked(value any, goexit bool) error {
	w.stats.count(func(c *Counts) { c.Panics++ })
	return &PanicError{Value: value, Goexit: goexit, Stack: string(debug.Stack())}
}

// finish ends an attempt whose handler has ended with err, and frees its slot. It
// looks at errors and writes to a log of the user's: should that panic or end the
// goroutine, the try has failed, and the job is not held for ever.
func (w *Worker) finish(ctx context.Context, a *attempt, err error) {
	defer w.kick()
	defer w.crowd.left(a)
	defer w.board.returned(a)
	finished := false
	defer func() {
		if value := recover(); !finished && w.board.conclude(a) {
			w.settler.add(a, bareTry(a, fmt.Sprintf("worker: its error could not be looked at (%T)", value)))
		}
	}()
	w.end(ctx, a, err)
	finished = true
}

// end decides how an attempt ends and hands it to the settler.
func (w *Worker) end(ctx context.Context, a *attempt, err error) {
	if more := a.run.group.wait(); more != nil {
		err = errors.Join(err, more)
	}
	if a.run.askedToComplete() {
		var ended bool
		if ended, err = w.verify(ctx, a, err); ended {
			return
		}
	}
	end := w.judge(ctx, a, err)
	if !w.board.conclude(a) {
		w.stats.count(func(c *Counts) { c.LateResults++ })
		a.run.Logger().Warn("late result of a handler refused: its attempt had ended",
			"ending", end.As.String(), "error", end.Error)
		return
	}
	w.settler.add(a, end)
}

// lost tells a handler that its lease is gone. Nothing of its attempt is written.
func (w *Worker) lost(a *attempt, why string) {
	w.countLost(a, why, w.board.lose(a, why))
}

func (w *Worker) countLost(a *attempt, why string, lost bool) {
	if lost {
		w.stats.count(func(c *Counts) { c.LeasesLost++ })
		a.run.Logger().Warn("lease lost", "reason", why)
	}
}

// abandonTimedOut settles an attempt whose handler ignores its time-out: the lease
// is let go and the job tried again elsewhere, under a higher fence. The handler
// keeps its slot until it returns, and its late result is refused.
func (w *Worker) abandonTimedOut(a *attempt, timeout time.Duration) {
	why := fmt.Sprintf("timed out after %s and did not return within %s of it", timeout, w.options.Grace)
	if !w.board.abandon(a, why) {
		return
	}
	w.stats.count(func(c *Counts) { c.TimedOut++ })
	a.run.Logger().Error("handler ignores its time-out; the attempt is settled without it", "timeout", timeout.String())
	end := w.failedTry(a, fmt.Errorf("%w: the handler %s", ErrTimeout, why))
	w.settler.add(a, end)
}
