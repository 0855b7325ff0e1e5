package onewriter

import (
	"context"
	"errors"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Patience returns how long a renewal may wait for the writer: a sixth of the lease,
// and at most three quarters of what its caller can wait, so that there is time to say
// that the leases are busy. Whoever holds the writer keeps everybody from renewing; a
// caller that only heard of a time-out would take healthy leases for lost. It is not
// less, so that a writer that is merely slow still renews.
func Patience(ctx context.Context, length time.Duration) (context.Context, context.CancelFunc) {
	wait := max(length/6, 10*time.Millisecond)
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)*3/4) //nolint:forbidigo // a duration is measured, nothing is judged
	}
	return context.WithTimeout(ctx, wait)
}

// Impatient reports whether a renewal was given up in the wait for the writer, and
// nothing of it happened.
func Impatient(ctx, patient context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && patient.Err() != nil &&
		errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nexjob.ErrOutcomeUnknown)
}

// Unrenewed answers a renewal that did not get the writer by the committed records.
func Unrenewed(jobs []nexjob.Job, leases []nexjob.Lease) []nexjob.Renewal {
	records := make(map[nexjob.ID]*nexjob.Job, len(jobs))
	for i := range jobs {
		records[jobs[i].ID] = &jobs[i]
	}
	answers := make([]nexjob.Renewal, len(leases))
	for i, lease := range leases {
		j := records[lease.Job]
		if !rules.Current(j, lease) {
			answers[i].Status = nexjob.Lost
			continue
		}
		answers[i] = nexjob.Renewal{Status: nexjob.Busy, Stop: j.Stop}
	}
	return answers
}
