package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// dues are the known times, on our clock, at which jobs fall due: retries that this
// worker wrote, and what the scout saw. A time that proves wrong costs one claim.
type dues struct {
	mu    sync.Mutex
	times []time.Time // in order
}

// maxDues bounds what is remembered; the poll finds the rest.
const maxDues = 1024

// add notes that a job falls due.
func (d *dues) add(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.times) >= maxDues {
		return
	}
	// Engines keep whole microseconds, so a claim at the very instant could still
	// find the job a fraction ahead of its time.
	at = at.Add(time.Millisecond)
	i, _ := slices.BinarySearchFunc(d.times, at, time.Time.Compare)
	d.times = slices.Insert(d.times, i, at)
}

// next returns the earliest time that lies after now and forgets those before.
func (d *dues) next(now time.Time) (time.Time, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ahead := slices.IndexFunc(d.times, func(at time.Time) bool { return at.After(now) })
	if ahead < 0 {
		ahead = len(d.times)
	}
	d.times = slices.Delete(d.times, 0, ahead)
	if len(d.times) == 0 {
		return time.Time{}, false
	}
	return d.times[0], true
}

// scout looks ahead for the earliest job that falls due, so that delayed jobs and
// other workers' retries start on time and not at the poll. It spends at most a
// thousandth of its time in the storage: where a count is dear, polls must do.
func (w *Worker) scout(ctx context.Context) {
	wait := w.options.Poll
	for pause(ctx, jittered(wait)) {
		if w.freeSlots() == 0 {
			continue
		}
		before := time.Now()
		due, err := w.earliestDue(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.stats.failed(err)
			}
			wait = 10 * w.options.Poll
			continue
		}
		wait = max(w.options.Poll, 1000*time.Since(before))
		if !due.IsZero() && time.Until(due) < 2*wait {
			w.dues.add(due)
			w.kick()
		}
	}
}

// earliestDue returns when the next scheduled job that this worker serves falls
// due, on our clock; zero means that there is none.
func (w *Worker) earliestDue(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	var earliest time.Time
	err := w.clock.Do(ctx, func(now time.Time) error {
		at := time.Now()
		tallies, err := w.store.Count(ctx, now, nexjob.Query{
			Kinds: w.kinds(), Queues: w.queueOrder(), States: []nexjob.State{nexjob.Scheduled},
		})
		for _, t := range tallies {
			due := at.Add(t.OldestDue.Sub(now))
			if !t.OldestDue.IsZero() && (earliest.IsZero() || due.Before(earliest)) {
				earliest = due
			}
		}
		return err
	})
	return earliest, err
}
