package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
)

// job is what a run needs of its job: a record is more than twice as large, and a worker
// makes thousands of runs in a second.
type job struct {
	id, operation      nexjob.ID
	kind, queue, key   string
	args               []byte
	fingerprint        nexjob.Fingerprint
	tags               []string
	meta               map[string]string
	deadline           time.Time
	limit              time.Duration // of one attempt; 0: the worker's default
	fence              int64
	tries, maxAttempts int
	lookups            int
	wished             nexjob.State
}

func jobOf(j *nexjob.Job) job {
	return job{
		id: j.ID, operation: j.Operation, kind: j.Kind, queue: j.Queue, key: j.Key, args: j.Args, fingerprint: j.Fingerprint,
		tags: j.Tags, meta: j.Meta, deadline: j.Deadline, limit: j.Timeout, fence: j.Fence, tries: j.Tries,
		maxAttempts: j.MaxAttempts, lookups: j.Lookups, wished: j.Wished,
	}
}

// Run is one attempt of a job as its handler sees it. It is valid until the handler
// returns; its methods may be called from several goroutines.
type Run struct {
	worker  *Worker
	attempt *attempt
	job     job
	lookup  bool                        // the job was Uncertain: its effect asks before it sends
	logger  atomic.Pointer[slog.Logger] // made when it is first asked for
	gate    *nexjob.OpenTx
	group   group

	mu        sync.Mutex
	receipts  map[string]nexjob.Receipt // of the operation, by slot
	used      map[string]bool           // names of steps and effects that this run has met
	followers []nexjob.NewJob
	result    []byte
	uncertain *uncertainError // an effect of this run whose outcome is not known
	asked     bool            // CompleteIn was called
}

func newRun(w *Worker, a *attempt, c *nexjob.Claimed) *Run {
	r := &Run{worker: w, attempt: a, job: jobOf(&c.Job), lookup: c.Lookup}
	for _, receipt := range c.Receipts {
		r.keep(receipt)
	}
	return r
}

// keep remembers a receipt. The caller holds the run's lock, or has the run for itself.
func (r *Run) keep(receipt nexjob.Receipt) {
	if r.receipts == nil { // most runs have none
		r.receipts = make(map[string]nexjob.Receipt)
	}
	r.receipts[receipt.Slot()] = receipt
}

// JobID returns the job's ID.
func (r *Run) JobID() nexjob.ID { return r.job.id }

// Operation returns the ID of the logical thing that is done once: it stays the
// same over attempts, requeues and the re-enqueues that continue it. Use it, not
// the job's ID, as the message ID of an inbox.
func (r *Run) Operation() nexjob.ID { return r.job.operation }

// Kind returns the kind that the job was enqueued under, perhaps a former name.
func (r *Run) Kind() string { return r.job.kind }

// Queue returns the job's queue.
func (r *Run) Queue() string { return r.job.queue }

// Key returns the job's idempotency key, "" without one.
func (r *Run) Key() string { return r.job.key }

// Try returns which try this is, from 1. Crashes, interruptions, snoozes and
// look-ups are not counted.
func (r *Run) Try() int { return r.job.tries + 1 }

// MaxAttempts returns how many tries the job has in all.
func (r *Run) MaxAttempts() int { return r.job.maxAttempts }

// Fence returns the number of this attempt's lease, for the user's own tables: it
// grows from attempt to attempt, so a row that keeps the highest fence seen can
// refuse a stale writer.
func (r *Run) Fence() int64 { return r.job.fence }

// Deadline returns the time after which the job would not have been started; zero
// without one.
func (r *Run) Deadline() time.Time { return r.job.deadline }

// Tags returns the job's tags.
func (r *Run) Tags() []string { return slices.Clone(r.job.tags) }

// Meta returns the job's metadata.
func (r *Run) Meta() map[string]string { return maps.Clone(r.job.meta) }

// Logger returns a logger whose every line carries job, operation, kind, key,
// attempt and fence.
func (r *Run) Logger() *slog.Logger {
	if made := r.logger.Load(); made != nil {
		return made
	}
	made := r.worker.log.With("job", r.job.id.String(), "operation", r.job.operation.String(), "kind", r.job.kind,
		"key", r.job.key, "attempt", r.Try(), "fence", r.job.fence)
	r.logger.CompareAndSwap(nil, made)
	return r.logger.Load()
}

// Next adds a job that is enqueued together with this one's success, in the same
// step, and not at all if the attempt ends otherwise. Mistakes are answered here; a
// job that the key's rule rejects is recorded on this one and does not fail it.
func (r *Run) Next(job nexjob.NewJob) error {
	if job.ID.IsZero() {
		job.ID = nexjob.NewID() // now, so that a repeated settlement adds the same job
	}
	if err := job.Validate(); err != nil {
		return fmt.Errorf("worker: next: %w", err)
	}
	if strings.HasPrefix(job.IdempotencyKey, "\x00") {
		return fmt.Errorf("worker: next: %w", &nexjob.InvalidError{
			Field: "idempotency key", Why: "it begins with NUL", Remedy: "leave it out: such keys are nexjob's own",
		})
	}
	// Under the lock that success takes: what was accepted is part of it.
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return fmt.Errorf("worker: next: %w", err)
	}
	if len(r.followers) >= nexjob.MaxFollowers {
		return fmt.Errorf("worker: next: %w", &nexjob.InvalidError{
			Field: "followers", Why: "there are too many", Remedy: fmt.Sprintf("at most %d", nexjob.MaxFollowers),
		})
	}
	r.followers = append(r.followers, job)
	return nil
}

// SetResult keeps a value, as JSON, that is stored with the job's success. The last
// call counts.
func (r *Run) SetResult(value any) error {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("worker: set result: %w", err)
	}
	if len(encoded) > nexjob.MaxResult {
		return fmt.Errorf("worker: set result: %w", &nexjob.InvalidError{
			Field: "result", Why: fmt.Sprintf("%d bytes", len(encoded)),
			Remedy: fmt.Sprintf("at most %d; store it elsewhere and keep its name", nexjob.MaxResult),
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.open(); err != nil {
		return fmt.Errorf("worker: set result: %w", err)
	}
	r.result = encoded
	return nil
}

// Go runs f in a goroutine that belongs to the attempt: the attempt ends only when
// f has returned, and an error or a panic of f is one of the handler. The context does
// not end when the handler returns, so f must not wait for what only the handler does.
func (r *Run) Go(f func() error) { r.group.start(r.worker, f) }

// timeout returns how long the handler may take; 0 is for ever.
func (r *Run) timeout() time.Duration {
	if r.job.limit != 0 {
		return r.job.limit
	}
	return r.worker.options.Timeout
}

// open answers an error when nothing may be added to the attempt any more.
func (r *Run) open() error {
	switch r.worker.board.phaseOf(r.attempt) {
	case running:
		return nil
	case completing:
		return errAfterCompletion
	case waiting, settling, over:
		return nexjob.ErrLeaseLost
	}
	return nexjob.ErrLeaseLost
}

// success is the settlement of a handler that returned nil.
func (r *Run) success() nexjob.Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return nexjob.Settlement{
		Lease: r.attempt.lease, As: nexjob.EndSucceeded, Result: r.result, Followers: slices.Clone(r.followers),
	}
}

// unknown returns the effect whose outcome is not known, if the run has met one. It
// is remembered, so that a handler which wraps the error without %w cannot turn it
// into an ordinary failure.
func (r *Run) unknown(err error) *uncertainError {
	if unknown, ok := errors.AsType[*uncertainError](err); ok {
		return unknown
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uncertain
}

// group waits for the goroutines of an attempt. The zero value is ready.
type group struct {
	running sync.WaitGroup
	mu      sync.Mutex
	errs    []error
}

func (g *group) start(w *Worker, f func() error) {
	g.running.Go(func() {
		returned := false
		var err error
		defer func() {
			if value := recover(); value != nil {
				err = w.panicked(value, false)
			} else if !returned {
				err = w.panicked(nil, true)
			}
			if err != nil {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.errs = append(g.errs, err)
			}
		}()
		err = f()
		returned = true
	})
}

func (g *group) wait() error {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}
