package nexjob

import (
	"context"
	"fmt"
	"time"
)

// A waiting client looks again after a ring of the bell, but not sooner than
// soonestLook, and otherwise after pauses that grow to latestLook.
const (
	soonestLook = 2 * time.Millisecond
	latestLook  = time.Second
)

// Wait returns the job once it has ended or is Uncertain, which only a look-up or a
// person ends. A job that ends in this process is seen at once, one that ends
// elsewhere within a second. ErrNotFound says that the job is not stored, or not
// any more. When ctx ends first, the job as it was last seen comes with the error.
func (c *Client) Wait(ctx context.Context, id ID) (Job, error) {
	var rings <-chan struct{} // without a bell it never receives
	if c.bell != nil {
		heard, stop := c.bell.Listen()
		defer stop()
		rings = heard
	}
	var seen Job
	for wait := 5 * soonestLook; ; wait = min(2*wait, latestLook) {
		job, err := c.Job(ctx, id)
		if err == nil {
			seen = job
		}
		switch {
		case err == nil && (job.State.Terminal() || job.State == Uncertain):
			return job, nil
		case err != nil && !IsTransient(err):
			return seen, err
		}
		if !pauseOrRing(ctx, wait, rings) {
			if seen.State != 0 {
				return seen, fmt.Errorf("nexjob: wait for job %s, last seen %s: %w", id, seen.State, context.Cause(ctx))
			}
			return seen, fmt.Errorf("nexjob: wait for job %s: %w", id, context.Cause(ctx))
		}
	}
}

// pauseOrRing waits until a ring, but at least soonestLook, so that a busy bell does
// not become a busy loop. It reports whether ctx has not ended.
func pauseOrRing(ctx context.Context, wait time.Duration, rings <-chan struct{}) bool {
	if !pause(ctx, soonestLook) {
		return false
	}
	timer := time.NewTimer(wait - soonestLook)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-rings:
	case <-timer.C:
	}
	return ctx.Err() == nil
}
