package onewriter

import "time"

// HostClock is the clock of an engine that lives on its user's host, unless its
// options name another.
func HostClock(option func() time.Time) func() time.Time {
	if option != nil {
		return option
	}
	return time.Now //nolint:forbidigo // the storage's Clock itself
}

// Wait measures how long a step waited for the writer, by the monotonic clock, so
// that a lease runs from the moment its row is locked.
type Wait struct{ since time.Time }

// StartWait starts to measure.
func StartWait() Wait {
	return Wait{time.Now()} //nolint:forbidigo // a duration is measured, nothing is judged
}

// Add moves now on by the time waited.
func (w Wait) Add(now time.Time) time.Time {
	return now.Add(time.Since(w.since)) //nolint:forbidigo // a duration is measured, nothing is judged
}
