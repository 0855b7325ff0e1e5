package onewriter

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// HostClock is the clock of an engine that lives on its user's host, unless its
// options name another.
func HostClock(option func() time.Time) func() time.Time {
	if option != nil {
		return option
	}
	return time.Now //nolint:forbidigo // the storage's Clock itself
}

// Guard refuses a now that is off the storage's clock by more than a second.
func Guard(clock func() time.Time, now time.Time) error {
	if off := now.Sub(clock()); off > time.Second || off < -time.Second {
		return fmt.Errorf("%w by %s", nexjob.ErrClock, off)
	}
	return nil
}

// Wait measures how long a step waited for the writer, so that a lease runs from
// the moment its row is locked. It goes by the storage's clock, whose readings on a
// host are monotonic and which a test moves by hand.
type Wait struct {
	clock func() time.Time
	since time.Time
}

// StartWait starts to measure.
func StartWait(clock func() time.Time) Wait { return Wait{clock, clock()} }

// Add moves now on by the time waited.
func (w Wait) Add(now time.Time) time.Time {
	return now.Add(max(w.clock().Sub(w.since), 0))
}
