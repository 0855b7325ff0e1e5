package worker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// stop ends the worker within ShutdownTimeout. In nine tenths of it handlers may
// return by themselves; then they are told to stop; what has not returned after
// another third of the rest is given back, and the last third is for writing that.
func (w *Worker) stop(base context.Context, claimersEnded <-chan struct{}) error {
	w.mu.Lock()
	w.state = stopping
	w.mu.Unlock()
	began := time.Now()
	whole := w.options.ShutdownTimeout
	end := began.Add(whole)
	rest := min(whole/10, 3*time.Second)
	w.log.Info("worker stopping", "worker", w.name, "busy", w.board.busy())

	none := func() bool { return w.board.live == 0 && w.board.open == 0 }
	quiet := waitFor(claimersEnded, end.Add(-rest)) && w.board.await(end.Add(-rest), none)
	if !quiet {
		w.board.tellAll(nexjob.ErrShutdown, "the worker is stopping")
		quiet = waitFor(claimersEnded, end.Add(-rest/2)) && w.board.await(end.Add(-rest/2), none)
	}
	var left []Left
	if !quiet {
		left = w.giveUp(end)
	}
	w.leave(base, end)
	if len(left) == 0 {
		w.log.Info("worker stopped", "worker", w.name, "took", time.Since(began).String())
		return nil
	}
	err := &StopError{Left: left}
	w.log.Error("worker stopped with jobs left", "worker", w.name, "error", err.Error())
	return err
}

// giveUp settles what still runs as interrupted, waits until that is written or
// the time is over, and returns what is left.
func (w *Worker) giveUp(end time.Time) []Left {
	given := make(map[*attempt]bool)
	for _, a := range w.board.abandonAll() {
		given[a] = true
		w.settler.add(a, nexjob.Settlement{
			Lease: a.lease, As: nexjob.EndInterrupted, Error: "the worker stopped before the handler returned",
		})
	}
	w.board.await(end, func() bool { return w.board.open == 0 })
	var left []Left
	for _, a := range w.board.remaining() {
		l := Left{Job: a.lease.Job, Kind: a.run.job.Kind, Fence: a.lease.Fence, Why: "its handler still runs"}
		switch w.board.phaseOf(a) {
		case completing:
			l.Why = "its transaction is still open"
		case settling:
			l.Why = "its settlement could not be written"
		case running, over:
			l.GivenBack = given[a]
		}
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b Left) int { return cmp.Or(a.Job.Compare(b.Job), cmp.Compare(a.Fence, b.Fence)) })
	return left
}

// leave removes the worker's entry, and takes a moment for it even after a stop
// that has used up its time.
func (w *Worker) leave(base context.Context, end time.Time) {
	ctx, cancel := context.WithTimeout(base, max(time.Until(end), 100*time.Millisecond))
	defer cancel()
	w.step(ctx, "presence", w.dropPresence)
}

// waitFor waits until done is closed, at most until end.
func waitFor(done <-chan struct{}, end time.Time) bool {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
