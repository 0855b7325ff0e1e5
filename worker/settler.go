package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// settler writes how attempts ended: what has piled up as soon as the previous write has
// ended, so batches grow by themselves under load. A settlement waits for nobody but a
// crowd, and for that a moment at most.
type settler struct {
	worker *Worker
	ready  chan struct{}

	gathering rules.Gathering // of work alone

	mu    sync.Mutex
	queue []pending
	spare []pending // the batch that was taken last, whose room the next queue has
}

// pending is a settlement that waits to be written.
type pending struct {
	attempt *attempt
	end     nexjob.Settlement
	changed bool // the storage refused the first form, this one says so
	tried   bool // the storage has been asked at least once
}

const maxSettle = 1000

func newSettler(w *Worker) *settler { return &settler{worker: w, ready: make(chan struct{}, 1)} }

// add hands over the settlement of an attempt that is in phase settling.
func (s *settler) add(a *attempt, end nexjob.Settlement) {
	s.put([]pending{{attempt: a, end: end}})
}

func (s *settler) put(items []pending) {
	if len(items) == 0 {
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, items...)
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// waiting returns how many settlements wait to be written.
func (s *settler) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// take returns the next batch, oldest first. It is good until the next call.
func (s *settler) take() []pending {
	// Handlers that are about to return join the batch.
	if s.waiting() > 0 {
		s.worker.crowd.await()
	}
	s.gathering.Gather(time.Now, s.waiting, maxSettle)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) <= maxSettle {
		batch := s.queue
		s.queue, s.spare = s.spare[:0], batch
		return batch
	}
	batch := slices.Clone(s.queue[:maxSettle])
	s.queue = slices.Delete(s.queue, 0, maxSettle)
	return batch
}

// work writes until ctx ends. After a failure it waits for a back-off before it
// tries again, and lets go of what its lease no longer covers.
func (s *settler) work(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.ready:
		}
		for batch := s.take(); len(batch) > 0; batch = s.take() {
			left := s.write(ctx, s.covered(batch))
			s.put(left)
			clear(batch) // its room is kept, but not what it held
			if len(left) == 0 {
				failures = 0
				continue
			}
			failures++
			if !pause(ctx, backoff(failures, min(time.Second, s.worker.options.Lease/10))) {
				return
			}
		}
	}
}

// keepTrying is for how many leases after its own a settlement is still tried. Nobody
// renews it meanwhile, so it holds up no recovery, and the fence refuses it once the
// job is claimed again; but where nobody could write, nobody could claim either, and
// a job that is done need not run twice.
const keepTrying = 2

// covered lets go of settlements whose lease has ended long ago. Each is tried once
// whatever the time is, for a transaction that completed a job may have taken longer.
func (s *settler) covered(batch []pending) []pending {
	w := s.worker
	kept := batch[:0]
	for _, p := range batch {
		_, ends := w.board.leaseEnd(p.attempt)
		if !p.tried || time.Now().Before(ends.Add(keepTrying*w.options.Lease)) {
			p.tried = true
			kept = append(kept, p)
			continue
		}
		w.stats.count(func(c *Counts) { c.LetGo++ })
		p.attempt.run.Logger().Error("settlement let go: its lease ended long ago and it could not be written",
			"ending", p.end.As.String(), "error", p.end.Error)
		w.board.settled(p.attempt)
		w.kick()
	}
	return kept
}

// write settles a batch and returns what is to be tried again. A batch that the
// storage refuses as a whole is written one by one, so that one bad settlement
// cannot hold up its neighbours.
func (s *settler) write(ctx context.Context, batch []pending) (left []pending) {
	if len(batch) == 0 {
		return nil
	}
	left, err := s.call(ctx, batch)
	if err == nil || len(batch) == 1 || nexjob.IsTransient(err) || ctx.Err() != nil {
		return left
	}
	left = nil
	for i := range batch {
		again, err := s.call(ctx, batch[i:i+1])
		left = append(left, again...)
		if err != nil && nexjob.IsTransient(err) {
			return append(left, batch[i+1:]...)
		}
	}
	return left
}

// call settles a batch in one step and acts on the answers. With an error all of
// the batch is left.
func (s *settler) call(ctx context.Context, batch []pending) (left []pending, err error) {
	w := s.worker
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	ends := make([]nexjob.Settlement, len(batch))
	for i, p := range batch {
		ends[i] = p.end
	}
	var answers []nexjob.Settled
	var at time.Time
	err = w.clock.Do(ctx, func(now time.Time) error {
		at = time.Now()
		var err error
		answers, err = w.store.Settle(ctx, now, ends)
		return err
	})
	if err == nil && len(answers) != len(ends) {
		err = fmt.Errorf("worker: settle: %d answers for %d settlements", len(answers), len(ends))
	}
	if err != nil {
		w.storageFailed("settle", err)
		return batch, err
	}
	for i, p := range batch {
		if again, ok := s.answered(ctx, p, answers[i], at); ok {
			left = append(left, again)
		}
	}
	if len(left) < len(batch) {
		w.kick()
	}
	return left, nil
}

// answered acts on the answer to one settlement that was written at at on our
// clock. It returns one to try again, if any.
func (s *settler) answered(
	ctx context.Context, p pending, answer nexjob.Settled, at time.Time,
) (again pending, ok bool) {
	w := s.worker
	log := p.attempt.run.Logger
	switch {
	case answer.Err == nil:
		s.written(ctx, p, answer, at)
		w.board.settled(p.attempt)
		return pending{}, false
	case errors.Is(answer.Err, nexjob.ErrLeaseLost):
		w.stats.count(func(c *Counts) { c.StaleWritesRefused++ })
		log().Warn("stale settlement refused: the job was claimed again, was settled, or is gone",
			"ending", p.end.As.String(), "error", p.end.Error)
		w.board.settled(p.attempt)
		return pending{}, false
	case errors.Is(answer.Err, nexjob.ErrInvalid) && !p.changed:
		// What the storage finds invalid now it will find invalid always.
		log().Error("settlement refused; the attempt fails instead", "ending", p.end.As.String(),
			"error", answer.Err.Error())
		p.changed = true
		p.end = ending(p.attempt, nexjob.EndFailed, 0,
			fmt.Errorf("worker: the storage refused to settle the attempt as %s: %w", p.end.As, answer.Err))
		return p, true
	}
	w.stats.failed(answer.Err)
	return p, true
}

// became returns the ending that a settlement came to: an effect without an outcome
// makes a job Uncertain whatever its handler returned, and a cancel is taken over an
// error.
func became(asked nexjob.Ending, state nexjob.State) nexjob.Ending {
	switch state {
	case nexjob.Uncertain:
		return nexjob.EndUncertain
	case nexjob.Cancelled:
		return nexjob.EndCancelled
	default:
		return asked
	}
}

// written counts and logs a settlement that stands.
func (s *settler) written(ctx context.Context, p pending, answer nexjob.Settled, at time.Time) {
	w := s.worker
	say := func(level slog.Level, what string, more ...any) {
		if w.log.Enabled(ctx, level) {
			more = append(more, "state", answer.State.String())
			p.attempt.run.Logger().Log(ctx, level, what, more...) //nolint:sloglint // constant at each call
		}
	}
	if p.end.Delay > 0 {
		w.dues.add(at.Add(p.end.Delay + fraction))
	}
	var counted func(*Counts) *int64
	switch became(p.end.As, answer.State) {
	case nexjob.EndSucceeded:
		counted = func(c *Counts) *int64 { return &c.Succeeded }
		say(slog.LevelDebug, "job succeeded")
	case nexjob.EndFailed:
		counted = func(c *Counts) *int64 { return &c.Failed }
		say(slog.LevelError, "job failed", "error", p.end.Error)
	case nexjob.EndRetry:
		counted = func(c *Counts) *int64 { return &c.Retried }
		say(slog.LevelWarn, "try failed", "error", p.end.Error, "retry_after", p.end.Delay.String())
	case nexjob.EndSnoozed:
		counted = func(c *Counts) *int64 { return &c.Snoozed }
		say(slog.LevelDebug, "job snoozed", "for", p.end.Delay.String())
	case nexjob.EndInterrupted:
		counted = func(c *Counts) *int64 { return &c.Interrupted }
		say(slog.LevelInfo, "job given back", "error", p.end.Error)
	case nexjob.EndUncertain:
		counted = func(c *Counts) *int64 { return &c.Uncertain }
		say(slog.LevelError, "job is uncertain", "error", p.end.Error, "lookup_after", p.end.Delay.String())
	case nexjob.EndCancelled:
		counted = func(c *Counts) *int64 { return &c.Cancelled }
		say(slog.LevelInfo, "job cancelled", "error", p.end.Error)
	case nexjob.EndCrashed: // written by Claim alone
	}
	if counted != nil {
		w.stats.count(func(c *Counts) { *counted(c)++ })
	}
	for _, f := range answer.Followers {
		if f.Err != nil {
			say(slog.LevelWarn, "a job that the handler added was not enqueued", "follower", f.ID.String(), "error", f.Err.Error())
		}
	}
}
