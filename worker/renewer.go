package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// renewer keeps the leases of handlers that run and of jobs that wait for a slot, a round
// each third of a lease. It has a goroutine of its own, so busy handlers cannot starve it.
func (w *Worker) renewer(ctx context.Context) {
	round := time.NewTicker(w.options.Lease / 3)
	defer round.Stop()
	again := time.NewTimer(0) // for leases whose row was locked, or whose call failed
	again.Stop()
	defer again.Stop()
	var left []*attempt
	for {
		select {
		case <-ctx.Done():
			return
		case <-round.C:
			w.readClock(ctx)
			left = w.renew(ctx, w.board.renewable())
			w.reportStuck()
		case <-again.C:
			left = w.renew(ctx, stillLeased(w.board, left))
		}
		if len(left) > 0 {
			again.Reset(w.options.Lease / 15)
		}
	}
}

func stillLeased(b *board, attempts []*attempt) []*attempt {
	kept := attempts[:0:0]
	for _, a := range attempts {
		if p := b.phaseOf(a); p == waiting || p == running {
			kept = append(kept, a)
		}
	}
	return kept
}

// readClock reads the storage's clock again, so that our reckoning does not drift.
func (w *Worker) readClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/6)
	defer cancel()
	now, err := w.clock.Read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.storageFailed("clock", err)
		}
		return
	}
	w.stats.clock(now)
}

// renew extends leases and acts on the answers. It returns the attempts that are to
// be asked for again soon: their row was locked, or the call failed. A lease that
// stays unrenewed until its end is lost by the board's timer, unless its row is locked:
// then nobody can take it, and whoever lets the row go gives us a round to renew it.
func (w *Worker) renew(ctx context.Context, attempts []*attempt) (left []*attempt) {
	if len(attempts) == 0 {
		return nil
	}
	answers, until, ends, err := w.callRenew(ctx, attempts)
	if err != nil {
		if ctx.Err() == nil {
			w.storageFailed("renew", err)
		}
		return attempts
	}
	for i, a := range attempts {
		switch answer := answers[i]; answer.Status {
		case nexjob.Renewed:
			w.board.renewed(a, until, ends)
			w.stopIf(answer.Stop, a)
		case nexjob.Lost:
			w.lost(a, "its job was claimed again, has ended, or is gone")
		case nexjob.Busy:
			left = append(left, a)
			w.board.busy(a, time.Now().Add(w.options.Lease/3))
			w.stopIf(answer.Stop, a)
		default:
			left = append(left, a)
		}
	}
	return left
}

// stopIf ends an attempt whose job was cancelled: one that runs is told, one that waits
// for a slot is settled without having run.
func (w *Worker) stopIf(asked bool, a *attempt) {
	const why = "its job was cancelled"
	switch {
	case !asked:
	case w.board.withdraw(a):
		w.settler.add(a, nexjob.Settlement{Lease: a.lease, As: nexjob.EndCancelled, Error: "not started: " + why})
	default:
		w.board.tell(a, nexjob.ErrStopped, why)
	}
}

// callRenew asks the storage to extend leases by a whole lease from now. until is
// their new end in the storage's time, ends the same moment on our clock.
func (w *Worker) callRenew(ctx context.Context, attempts []*attempt) (
	answers []nexjob.Renewal, until, ends time.Time, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/6)
	defer cancel()
	leases := make([]nexjob.Lease, len(attempts))
	for i, a := range attempts {
		leases[i] = a.lease
	}
	err = w.clock.Do(ctx, func(now time.Time) error {
		until, ends = now.Add(w.options.Lease), time.Now().Add(w.options.Lease)
		var err error
		answers, err = w.store.Renew(ctx, now, until, leases)
		return err
	})
	if err == nil && len(answers) != len(leases) {
		err = fmt.Errorf("worker: renew: %d answers for %d leases", len(answers), len(leases))
	}
	return answers, until, ends, err
}

// reportStuck logs each stuck handler once.
func (w *Worker) reportStuck() {
	for _, s := range w.board.stuck(w.options.Grace, true) {
		w.log.Error("handler is stuck: its context has ended and it does not return", "worker", w.name,
			"job", s.Job.String(), "kind", s.Kind, "fence", s.Fence, "reason", s.Why)
	}
}

// alarm rings when the first lease of the running handlers ends: one timer for all of
// them, since nearly every handler returns, or its lease is renewed, long before. The zero
// value is set for no time.
type alarm struct {
	timer *time.Timer
	at    time.Time
	lost  func(a *attempt, why string) // is told of leases that ended
}

// mindLocked has the alarm ring no later than when a running attempt's lease ends.
func (b *board) mindLocked(a *attempt) {
	if b.alarm.at.IsZero() || a.held.Before(b.alarm.at) {
		b.setLocked(a.held)
	}
}

func (b *board) setLocked(at time.Time) {
	b.alarm.at = at
	if b.alarm.timer == nil {
		b.alarm.timer = time.AfterFunc(time.Until(at), b.ring)
		return
	}
	b.alarm.timer.Reset(time.Until(at))
}

// ring loses the running attempts whose leases have ended and sets the alarm for the next.
func (b *board) ring() {
	const why = "it could not be renewed before it ended"
	for _, a := range b.lapsed(why) {
		b.alarm.lost(a, why)
	}
}

func (b *board) lapsed(why string) (lapsed []*attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var first time.Time
	for _, a := range b.attempts {
		switch {
		case a.phase != running:
		case now.Before(a.held):
			if first.IsZero() || a.held.Before(first) {
				first = a.held
			}
		case b.loseLocked(a, why):
			lapsed = append(lapsed, a)
		}
	}
	b.alarm.at = time.Time{}
	if !first.IsZero() {
		b.setLocked(first)
	}
	return lapsed
}
