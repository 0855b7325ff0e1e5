package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// Step computes something once in an operation: its result is kept, as JSON, and a
// later attempt gets what was kept instead of computing it again. Only a success is
// kept; an error is returned as it is. A step belongs to the job's args: under
// other args it is computed anew. Inside a step nothing but its result is kept, so
// what must not be repeated on its own is a step or an effect of its own.
func Step[T any](ctx context.Context, run *Run, name string, do func(context.Context) (T, error)) (T, error) {
	return step(ctx, run, name, do, false, run.record)
}

// StepIn is Step together with rows of the caller's: the result is recorded in the
// open transaction tx of the storage's own database, and is kept if it commits.
func StepIn[T any](
	ctx context.Context, run *Run, tx nexjob.Tx, name string, do func(context.Context) (T, error),
) (T, error) {
	return step(ctx, run, name, do, true, func(ctx context.Context, receipt nexjob.Receipt) (nexjob.Recorded, error) {
		return run.recordIn(ctx, tx, receipt)
	})
}

func step[T any](
	ctx context.Context, run *Run, name string, do func(context.Context) (T, error), inTx bool,
	record func(context.Context, nexjob.Receipt) (nexjob.Recorded, error),
) (T, error) {
	var none T
	wrap := func(err error) (T, error) { return none, fmt.Errorf("worker: step %q: %w", name, err) }
	if err := nexjob.ValidateName("step", name); err != nil {
		return wrap(Permanent(err))
	}
	if err := run.enter(ctx, name, "", inTx); err != nil {
		return wrap(err)
	}
	if standing := run.step(name); standing != nil {
		value, err := decode[T](standing)
		if err != nil {
			return wrap(err)
		}
		return value, nil
	}
	value, err := do(ctx)
	if err != nil {
		return none, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return wrap(Permanent(fmt.Errorf("its result could not be kept: %w", err)))
	}
	recorded, err := record(ctx, nexjob.Receipt{
		Operation: run.job.Operation, Sort: nexjob.StepReceipt, Name: name, Fingerprint: run.job.Fingerprint,
		State: nexjob.Confirmed, Writer: run.attempt.lease, Value: text,
	})
	switch {
	case err != nil:
		return wrap(err)
	case recorded.Err != nil:
		return wrap(permanentAnswer(recorded.Err))
	case !recorded.Ours:
		return wrap(errNotFirst)
	}
	if value, err = decode[T](&recorded.Standing); err != nil {
		return wrap(err)
	}
	return value, nil
}

// recordIn writes a receipt inside the caller's transaction, once: what failed
// there is the transaction's to end.
func (r *Run) recordIn(ctx context.Context, tx nexjob.Tx, receipt nexjob.Receipt) (nexjob.Recorded, error) {
	joined, err := r.worker.join(tx)
	if err != nil {
		return nexjob.Recorded{}, err
	}
	var answers []nexjob.Recorded
	err = r.worker.clock.Do(ctx, func(now time.Time) error {
		var err error
		answers, err = joined.Record(ctx, now, []nexjob.Receipt{receipt})
		return err
	})
	if err != nil {
		return nexjob.Recorded{}, err
	}
	if len(answers) != 1 {
		return nexjob.Recorded{}, fmt.Errorf("worker: record: %d answers for one receipt", len(answers))
	}
	return answers[0], nil
}

func (w *Worker) join(tx nexjob.Tx) (nexjob.Joined, error) {
	if tx == nil {
		return nil, errors.New("worker: the transaction is nil")
	}
	return w.store.Join(tx)
}
