package onewriter

import (
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

// RenewPatience is how long a renewal of leases of a length waits for the writer
// before its leases are answered busy, so that it never waits for a transaction that
// somebody holds open.
func RenewPatience(length time.Duration) time.Duration {
	const most = 100 * time.Millisecond
	return max(min(length/20, most), time.Millisecond)
}

// Held answers busy for leases: the writer is somebody else's, so nobody can renew them
// and nobody can claim their jobs.
func Held(leases []nexjob.Lease) []nexjob.Renewal {
	answers := make([]nexjob.Renewal, len(leases))
	for i := range answers {
		answers[i].Status = nexjob.Busy
	}
	return answers
}
