package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// enter admits a step or an effect of a name and item, once in a run. Unless it is
// to be recorded in the caller's own transaction, none may be open: it could only
// wait for itself.
func (r *Run) enter(ctx context.Context, name, item string, inTx bool) error {
	if err := r.open(); err != nil {
		return err
	}
	if !inTx && (nexjob.InTx(ctx) || r.gate != nil && r.gate.Open()) {
		return fmt.Errorf("do it before the transaction or after it: %w", nexjob.ErrInTransaction)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := name + "\x00" + item
	if r.used[slot] {
		return Permanent(errors.New("the run has used this name already; " +
			"give each step and effect a name of its own, or tell the turns of a loop apart by Item"))
	}
	if r.used == nil {
		r.used = make(map[string]bool)
	}
	r.used[slot] = true
	return nil
}

// effect returns the receipt that an effect is judged by, and its turn: the first
// one that was not refused. nil means that it was never sent under that turn.
func (r *Run) effect(name, item string) (turn int, standing *nexjob.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		slot := nexjob.Receipt{Sort: nexjob.EffectReceipt, Name: name, Item: item, Turn: turn}
		receipt, ok := r.receipts[slot.Slot()]
		if !ok {
			return turn, nil
		}
		if receipt.State != nexjob.Refused {
			return turn, &receipt
		}
		turn++
	}
}

// step returns a step's receipt under the job's args, nil without one.
func (r *Run) step(name string) *nexjob.Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	slot := nexjob.Receipt{Sort: nexjob.StepReceipt, Name: name, Fingerprint: r.job.fingerprint}
	if receipt, ok := r.receipts[slot.Slot()]; ok {
		return &receipt
	}
	return nil
}

// unanswered returns how an attempt ends that leaves an effect of the operation
// without an outcome, nil if it leaves none. What the run itself met comes first.
func (r *Run) unanswered() *uncertainError {
	r.mu.Lock()
	defer r.mu.Unlock()
	var open *uncertainError
	var from time.Time
	for _, slot := range slices.Sorted(maps.Keys(r.receipts)) {
		receipt := r.receipts[slot]
		if receipt.Open() && receipt.NotAppliedFrom().After(from) {
			from = receipt.NotAppliedFrom()
		}
		switch {
		case !receipt.Open():
		case open == nil:
			open = &uncertainError{lookup: receipt.Lookup, still: &nexjob.StillUnknownError{
				Name: receipt.Name, Item: receipt.Item, Why: "the handler ended without asking",
			}}
		default:
			open.lookup = open.lookup && receipt.Lookup
		}
	}
	switch {
	case open == nil:
	case r.uncertain != nil:
		return r.uncertain
	default:
		open.after = from.Sub(r.storageNow())
		open.asked = open.after <= 0 // a look-up that could not tell
	}
	return open
}

// remember keeps an effect whose outcome is not known for the end of the run.
func (r *Run) remember(unknown *uncertainError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uncertain = unknown
}

// endWished reports whether the job is only still active because an effect has no
// outcome: once it has, the job is cancelled or expired.
func (r *Run) endWished() bool {
	return r.job.wished == nexjob.Cancelled || r.job.wished == nexjob.Expired
}

// sendMargin is kept between the end of a send and the lease's: for the storage's
// answer to the intent, and for two clocks that differ a little.
func (w *Worker) sendMargin() time.Duration { return min(w.options.Lease/10, 3*time.Second) }

// sendBefore returns the time by which a send must have ended: in the storage's
// time and on our clock.
func (r *Run) sendBefore() (before, last time.Time) {
	until, ends := r.worker.board.leaseEnd(r.attempt)
	margin := r.worker.sendMargin()
	return until.Add(-margin).UTC().Truncate(time.Microsecond), ends.Add(-margin)
}

// storageNow reckons the storage's time from the lease, without asking.
func (r *Run) storageNow() time.Time {
	until, ends := r.worker.board.leaseEnd(r.attempt)
	return until.Add(-time.Until(ends))
}

// record writes one receipt. Transient trouble is met by repeating the call until
// ctx or the lease ends: the same receipt twice is one.
func (r *Run) record(ctx context.Context, receipt nexjob.Receipt) (nexjob.Recorded, error) {
	return r.write(ctx, receipt, nexjob.IsTransient)
}

// recordOutcome writes what came of a send. That is worth every repeat while the
// lease lasts, whatever the error and whether or not the handler was told to stop.
func (r *Run) recordOutcome(ctx context.Context, receipt nexjob.Receipt) (nexjob.Recorded, error) {
	return r.write(context.WithoutCancel(ctx), receipt, func(error) bool { return true })
}

func (r *Run) write(
	ctx context.Context, receipt nexjob.Receipt, repeat func(error) bool,
) (nexjob.Recorded, error) {
	w := r.worker
	for failures := 1; ; failures++ {
		if r.open() != nil {
			return nexjob.Recorded{}, nexjob.ErrLeaseLost
		}
		recorded, err := r.recordOnce(ctx, receipt)
		if err == nil {
			r.recorded(&recorded)
			return recorded, nil
		}
		w.stats.failed(err)
		switch {
		case ctx.Err() != nil:
			return nexjob.Recorded{}, errors.Join(context.Cause(ctx), err)
		case errors.Is(err, nexjob.ErrClosed), !repeat(err):
			return nexjob.Recorded{}, err
		}
		r.Logger().Warn("receipt could not be written; it is tried again", "receipt", receipt.Name,
			"receipt_state", receipt.State.String(), "error", err.Error())
		if !pause(ctx, backoff(failures, min(time.Second, w.options.Lease/10))) {
			return nexjob.Recorded{}, context.Cause(ctx)
		}
	}
}

func (r *Run) recordOnce(ctx context.Context, receipt nexjob.Receipt) (nexjob.Recorded, error) {
	w := r.worker
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	var answers []nexjob.Recorded
	err := w.clock.Do(ctx, func(now time.Time) error {
		var err error
		answers, err = w.store.Record(ctx, now, []nexjob.Receipt{receipt})
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

// recorded keeps what stands now. A receipt that the fence refused ends the
// attempt; one that is refused because the job is being cancelled tells the handler.
func (r *Run) recorded(answer *nexjob.Recorded) {
	if errors.Is(answer.Err, nexjob.ErrStopped) && !r.endWished() {
		r.worker.board.tell(r.attempt, nexjob.ErrStopped, "its job was cancelled")
	}
	if errors.Is(answer.Err, nexjob.ErrLeaseLost) {
		r.worker.stats.count(func(c *Counts) { c.StaleWritesRefused++ })
		r.worker.lost(r.attempt, "a receipt was refused: the job was claimed again, has ended, or is gone")
		return
	}
	if answer.Standing.Sort == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(answer.Standing)
}

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
	if err := nexjob.ValidateName("step name", name); err != nil {
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
		Operation: run.job.operation, Sort: nexjob.StepReceipt, Name: name, Fingerprint: run.job.fingerprint,
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
	err = r.worker.clock.DoIn(ctx, joined, func(now time.Time) error {
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
