package nexjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"
)

// enqueueTries is how often an enqueue is sent in all while the trouble is
// transient; with enqueuePause that takes about two seconds.
const enqueueTries = 6

// enqueuePause grows from 20 ms to 1 s and is widely spread, so that the clients of
// a storage that comes back do not all come back at once.
func enqueuePause() Retry {
	return Retry{Initial: 20 * time.Millisecond, Multiplier: 3, Max: time.Second, Jitter: 0.5}
}

// adder is the storage, or the storage inside a caller's transaction.
type adder interface {
	Enqueue(ctx context.Context, now time.Time, jobs []NewJob) ([]Answer, error)
}

// Enqueue adds a job, or answers with the one that holds its idempotency key. The
// error is the item's: *InvalidError before anything is written,
// *DuplicateJobError, *KeyMismatchError, *IDReusedError, ErrUnknownParent; or it
// speaks of the storage. A job without an ID gets one before the first try, and
// transient trouble or a lost answer is met by repeating under the same ID for
// about two seconds, or until ctx ends: so a repeat is recognised, with and without
// a key. If the error is then ErrOutcomeUnknown, the job may or may not be stored;
// the answer holds its ID, and enqueuing it again under NewJob.ID is harmless.
//
// Under an open transaction of the caller it answers ErrInTransaction; see In.
func (c *Client) Enqueue(ctx context.Context, job NewJob) (Answer, error) {
	if err := c.writable(ctx, "enqueue"); err != nil {
		return Answer{}, err
	}
	return c.enqueueOne(ctx, c.store, enqueueTries, job)
}

// EnqueueMany adds jobs in one atomic step and answers each, in order. An item that
// is refused says so in Answer.Err and leaves its neighbours alone; equal keys are
// judged in order, as single enqueues would be. The error speaks of the whole step,
// and then no job was added, unless it is ErrOutcomeUnknown. Retries, IDs and open
// transactions are as with Enqueue; jobs itself is not changed.
func (c *Client) EnqueueMany(ctx context.Context, jobs []NewJob) ([]Answer, error) {
	if err := c.writable(ctx, "enqueue"); err != nil {
		return nil, err
	}
	return c.enqueueMany(ctx, c.store, enqueueTries, jobs)
}

func (c *Client) enqueueOne(ctx context.Context, to adder, tries int, job NewJob) (Answer, error) {
	jobs := []NewJob{job}
	if err := c.prepare(&jobs[0]); err != nil {
		return Answer{}, err
	}
	answers, err := c.send(ctx, to, tries, jobs)
	if err != nil {
		return Answer{ID: jobs[0].ID}, err
	}
	answer := answers[0]
	answer.Err = nil
	return answer, answers[0].Err
}

func (c *Client) enqueueMany(ctx context.Context, to adder, tries int, jobs []NewJob) ([]Answer, error) {
	answers := make([]Answer, len(jobs))
	good := make([]NewJob, 0, len(jobs))
	places := make([]int, 0, len(jobs)) // of the good ones among all
	for i := range jobs {
		good = append(good, jobs[i])
		job := &good[len(good)-1]
		if err := c.prepare(job); err != nil {
			answers[i].Err = err
			good = good[:len(good)-1]
			continue
		}
		answers[i].ID = job.ID
		places = append(places, i)
	}
	if len(good) == 0 {
		return answers, nil
	}
	given, err := c.send(ctx, to, tries, good)
	for n, i := range places {
		if err != nil {
			answers[i].Err = err
			continue
		}
		answers[i] = given[n]
	}
	return answers, err
}

// prepare completes an item and refuses it when it is invalid. An engine checks
// again, so no path can go around it; here a mistake is answered even while the
// storage is away. Only the client refuses derived keys, which are nexjob's own.
func (c *Client) prepare(job *NewJob) error {
	if job.ID.IsZero() {
		job.ID = NewID()
	}
	job.StrictArgs = job.StrictArgs || c.strict
	if job.Err == nil && job.Kind == "" {
		job.Err = invalid("job", "it has no kind", "build it with Kind.New or RawJob")
	}
	if job.Err == nil && job.Fingerprint.IsZero() {
		job.Fingerprint, job.Err = argsFingerprint(job.Args)
	}
	err := job.Validate()
	if err == nil && strings.HasPrefix(job.IdempotencyKey, "\x00") {
		err = invalid("idempotency key", "it begins with NUL, as keys of nexjob's own do", "begin it otherwise")
	}
	if err != nil {
		c.counts.outcomes[0].Add(1)
	}
	return err
}

// send hands a prepared batch to the storage, again and again under the same IDs
// while the trouble is transient, and weighs the answers.
func (c *Client) send(ctx context.Context, to adder, tries int, jobs []NewJob) ([]Answer, error) {
	var answers []Answer
	var at time.Time
	step := func(now time.Time) (err error) {
		at = now
		answers, err = to.Enqueue(ctx, now, jobs)
		return err
	}
	unknown := false
	for try := 1; ; try++ {
		err := c.time.do(ctx, to, step)
		if err == nil {
			break
		}
		unknown = unknown || errors.Is(err, ErrOutcomeUnknown)
		if try < tries && IsTransient(err) && pause(ctx, enqueuePause().After(try, spread())) {
			c.counts.repeated.Add(1)
			continue
		}
		if unknown && !errors.Is(err, ErrOutcomeUnknown) {
			// An earlier try may have committed: what the last one met does not
			// settle that, so the caller must not read it as "nothing happened".
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return nil, fmt.Errorf("nexjob: enqueue: %w", err)
	}
	if len(answers) != len(jobs) {
		return nil, fmt.Errorf("nexjob: enqueue: the storage gave %d answers for %d jobs", len(answers), len(jobs))
	}
	for i := range answers {
		c.weigh(ctx, at, &jobs[i], &answers[i])
	}
	return answers, nil
}

// weigh counts an answer, notes a decision about a duplicate, and warns when the
// args differ: without the args, which may be secret.
func (c *Client) weigh(ctx context.Context, now time.Time, job *NewJob, answer *Answer) {
	outcome := answer.Outcome
	decision := Decision{
		At: now, Kind: job.Kind, Policy: job.DuplicatePolicy,
		Job: answer.ID, State: answer.State, ArgsDiffer: answer.ArgsDiffer,
	}
	if answer.Err != nil {
		outcome = 0
		if duplicate, ok := errors.AsType[*DuplicateJobError](answer.Err); ok {
			outcome, decision.Job, decision.State = Rejected, duplicate.ExistingJobID, duplicate.ExistingState
		}
		if mismatch, ok := errors.AsType[*KeyMismatchError](answer.Err); ok {
			outcome, decision.Job = Mismatched, mismatch.ExistingJobID
		}
	}
	if int(outcome) < len(c.counts.outcomes) {
		c.counts.outcomes[outcome].Add(1)
	}
	if answer.ArgsDiffer && outcome != Mismatched { // that is an error, and louder
		c.counts.argsDiffer.Add(1)
		c.log.LogAttrs(ctx, slog.LevelWarn, "nexjob: an idempotency key was used again with different args",
			slog.String("key", job.IdempotencyKey), slog.String("kind", job.Kind),
			slog.String("job", decision.Job.String()))
	}
	if outcome > Created && job.IdempotencyKey != "" {
		decision.Outcome = outcome
		//nolint:contextcheck // the writer outlives this call and must not be in its transaction
		c.decisions.note(job.IdempotencyKey, decision)
	}
}

// spread returns a random number in [0, 1) for pauses.
func spread() float64 {
	return rand.Float64() //nolint:gosec // spreads retries in time; nothing secret depends on it
}

// pause waits, and reports whether ctx has not ended before.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
