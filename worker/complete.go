package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// CompleteIn ends the job as Succeeded inside the caller's open transaction of the
// storage's own database, with the jobs of Next and the result: business rows and
// success commit together or not at all. Call it last in the transaction.
//
// It only asks. nil means that this attempt is the newest and that no other can be
// claimed until the transaction ends; whether it commits is seen only after the
// handler has returned, when the worker asks the storage how the attempt stands. If
// the success stands, the job is Succeeded whatever the handler returned; if not,
// the try has failed with nexjob.ErrNotCompleted, even if the handler returned nil.
//
// While an effect of the operation has no outcome the job cannot succeed, and a verdict
// may yet run the handler again; so it is an error then, and nothing of the
// transaction has been touched.
//
// After nil nothing may follow in the run: no Next, no step, no effect, and no
// second CompleteIn, because a commit whose answer was lost may have happened, and
// the business rows of a second transaction would then be written twice. Return
// the error of the commit instead; the worker finds out. After an error it may be
// called again in a new transaction.
func (r *Run) CompleteIn(ctx context.Context, tx nexjob.Tx) error {
	r.mu.Lock()
	r.asked = true // even if it is refused: a handler that then returns nil has not done its work
	r.mu.Unlock()
	joined, err := r.worker.join(tx)
	if err != nil {
		return fmt.Errorf("worker: complete: %w", err)
	}
	if open := r.unanswered(); open != nil {
		return fmt.Errorf("worker: complete: %w: %s", errOpenEffect, open.still.Error())
	}
	switch r.worker.board.complete(r.attempt) {
	case running:
	case completing:
		return fmt.Errorf("worker: complete: %w", errAfterCompletion)
	default:
		return fmt.Errorf("worker: complete: %w", nexjob.ErrLeaseLost)
	}
	if err := r.askIn(ctx, joined); err != nil {
		r.worker.board.completeFailed(r.attempt)
		return fmt.Errorf("worker: complete: %w", err)
	}
	return nil
}

// askIn settles the attempt inside the transaction.
func (r *Run) askIn(ctx context.Context, joined nexjob.Joined) error {
	var answers []nexjob.Settled
	err := r.worker.clock.DoIn(ctx, joined, func(now time.Time) error {
		var err error
		answers, err = joined.Settle(ctx, now, []nexjob.Settlement{r.success()})
		return err
	})
	if err != nil {
		return err
	}
	if len(answers) != 1 {
		return fmt.Errorf("worker: settle: %d answers for one settlement", len(answers))
	}
	if answers[0].Err == nil && answers[0].State != nexjob.Succeeded {
		return fmt.Errorf("the job would be %s: %w", answers[0].State, errOpenEffect)
	}
	return answers[0].Err
}

// errOpenEffect refuses a completion that could not be a success.
var errOpenEffect = errors.New("an effect of the operation has no outcome; return the error of its Do")

func (r *Run) askedToComplete() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// verify asks the storage how an attempt stands whose handler has called
// CompleteIn. It reports whether the attempt has ended; if not, the try has failed
// with the error that it returns.
func (w *Worker) verify(ctx context.Context, a *attempt, returned error) (ended bool, err error) {
	job, err := w.standing(context.WithoutCancel(ctx), a)
	log := a.run.Logger()
	if err != nil {
		log.Error("it is not known whether the job's own transaction has committed; its lease is let go",
			"error", err.Error())
		w.stats.count(func(c *Counts) { c.LetGo++ })
		w.board.settled(a)
		return true, nil
	}
	switch {
	case rules.Stands(job, &nexjob.Settlement{Lease: a.lease, As: nexjob.EndSucceeded}):
		w.stats.count(func(c *Counts) {
			if job.State == nexjob.Uncertain {
				c.Uncertain++
			} else {
				c.Succeeded++
			}
		})
		if returned != nil {
			w.stats.count(func(c *Counts) { c.LateResults++ })
			log.Warn("error after the job's own transaction had committed; the job has succeeded",
				"error", errorText(returned))
		}
	case rules.Current(job, a.lease):
		if returned == nil {
			return false, nexjob.ErrNotCompleted
		}
		return false, errors.Join(returned, nexjob.ErrNotCompleted)
	default:
		w.stats.count(func(c *Counts) { c.LeasesLost++ })
		log.Warn("lease lost", "reason", "the job was claimed again, has ended, or is gone")
	}
	w.board.settled(a)
	return true, nil
}

// standing reads an attempt's job, nil when its record is gone. It asks again until
// a lease after the attempt's own: a storage that answers nothing for so long will
// tell those who recover the job.
func (w *Worker) standing(ctx context.Context, a *attempt) (*nexjob.Job, error) {
	_, ends := w.board.leaseEnd(a)
	until := time.Now().Add(max(time.Until(ends), 0) + w.options.Lease)
	for failures := 1; ; failures++ {
		page, err := w.findJob(ctx, a.lease.Job)
		switch {
		case err == nil && len(page.Jobs) == 0:
			return nil, nil
		case err == nil:
			return &page.Jobs[0], nil
		}
		w.storageFailed("find", err)
		if errors.Is(err, nexjob.ErrClosed) || !time.Now().Before(until) {
			return nil, err
		}
		if !pause(ctx, backoff(failures, min(time.Second, w.options.Lease/10))) {
			return nil, err
		}
	}
}

func (w *Worker) findJob(ctx context.Context, id nexjob.ID) (nexjob.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	var page nexjob.Page
	err := w.clock.Do(ctx, func(now time.Time) error {
		var err error
		page, err = w.store.Find(ctx, now, nexjob.Query{IDs: []nexjob.ID{id}})
		return err
	})
	return page, err
}
