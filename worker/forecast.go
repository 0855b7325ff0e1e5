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

// untilNextLook returns the time until the next poll, or until the first due time
// that the claim made at asked could not see yet.
func (w *Worker) untilNextLook(asked, poll time.Time) time.Duration {
	if due, ok := w.dues.next(asked); ok && due.Before(poll) {
		poll = due
	}
	return max(time.Until(poll), 0)
}

// forecast is what the claimer knows of the next due time. It belongs to its goroutine.
type forecast struct {
	by     nexjob.Forecaster // nil: the engine does not forecast
	again  time.Time         // when it may be asked again
	due    time.Time         // as it was told last, on our clock
	beaten int               // how often in a row a claim at that time found nothing
}

const (
	// forecastEvery is how often an engine is asked at most, and how late a job may start
	// whose due time could not be asked for.
	forecastEvery = 5 * time.Millisecond
	// forecastShare is which part of its time a claimer may spend asking, one in so many.
	forecastShare = 4
	// widestGap bounds how much later than forecast those look who are always beaten.
	widestGap = 16 * time.Millisecond
)

// forecaster returns the storage if it forecasts.
func (w *Worker) forecaster() nexjob.Forecaster {
	by, _ := w.store.(nexjob.Forecaster)
	return by
}

// foresee returns when to look again for the first job that falls due after a claim, on
// our clock; zero: nobody knows. While it may not ask, that is when it may.
//
// Workers who wait for the same job look at the same moment, and all but one in vain.
// So one that is beaten looks a little later the next time, and when it is beaten again
// still later: one worker is on time, and the others keep out of its way until it is busy.
func (w *Worker) foresee(ctx context.Context, f *forecast, last look) time.Time {
	if f.by == nil {
		return time.Time{}
	}
	if !f.due.IsZero() && !last.asked.Before(f.due) {
		if f.beaten++; last.got > 0 {
			f.beaten = 0
		}
		f.due = time.Time{}
	}
	before := time.Now()
	if before.Before(f.again) {
		return f.again
	}
	limited, cancel := context.WithTimeout(ctx, w.options.Lease/3)
	defer cancel()
	due, err := f.by.NextDue(limited, last.now, w.queueOrder(), w.kinds)
	now := time.Now()
	f.again = now.Add(max(forecastEvery, forecastShare*now.Sub(before)))
	if err != nil && ctx.Err() == nil {
		w.stats.failed(err)
	}
	if err != nil || due.IsZero() {
		return time.Time{}
	}
	f.due = last.asked.Add(due.Sub(last.now))
	gap := min(time.Millisecond<<min(f.beaten, 10)-time.Millisecond, widestGap)
	return f.due.Add(time.Duration(random() * float64(gap)))
}

// fraction is what a reckoned due time may be too early by: engines add their waiting
// to a delay, and keep whole microseconds.
const fraction = time.Millisecond

// scout looks ahead, on an engine that does not forecast, for the earliest job that falls
// due, so that delayed jobs and other workers' retries start on time and not at the poll. It
// spends at most a thousandth of its time in the storage: where a count is dear, polls must
// do.
func (w *Worker) scout(ctx context.Context) {
	wait := w.options.Poll
	for pause(ctx, jittered(wait)) {
		if w.room() == 0 {
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
			w.dues.add(due.Add(fraction))
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
			Kinds: w.kinds, Queues: w.queueOrder(), States: []nexjob.State{nexjob.Scheduled},
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
