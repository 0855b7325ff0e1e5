package nexjob

import (
	"context"
	"errors"
	"fmt"
)

// Facts that callers act on. They are compared with errors.Is, never by text.
var (
	// ErrDuplicateJob matches every *DuplicateJobError.
	ErrDuplicateJob = errors.New("nexjob: duplicate job")
	// ErrKeyMismatch matches every *KeyMismatchError.
	ErrKeyMismatch = errors.New("nexjob: idempotency key is held for other work")
	// ErrIDReused matches every *IDReusedError.
	ErrIDReused = errors.New("nexjob: job ID is taken by another job")
	// ErrInvalid matches every *InvalidError.
	ErrInvalid = errors.New("nexjob: invalid")
	// ErrEffectMismatch matches every *EffectMismatchError.
	ErrEffectMismatch = errors.New("nexjob: effect stands under another request")

	// ErrLeaseLost says that the attempt is over: its job was claimed again, was
	// settled, or is gone. Nothing of the refused write happened. It is also the
	// cause of a handler's context when its lease is lost.
	ErrLeaseLost = errors.New("nexjob: lease lost")
	// ErrStopped is the cause of a handler's context when its job is cancelled.
	ErrStopped = errors.New("nexjob: job cancelled")
	// ErrShutdown is the cause of a handler's context when its worker stops.
	ErrShutdown = errors.New("nexjob: worker stopping")
	// ErrNotFound says that no such job, key, effect or entry is stored.
	ErrNotFound = errors.New("nexjob: not found")
	// ErrUnknownKind says that no handler is registered for a kind.
	ErrUnknownKind = errors.New("nexjob: unknown kind")
	// ErrUnknownParent says that a parent named by a new job is not stored.
	ErrUnknownParent = errors.New("nexjob: unknown parent")
	// ErrClock says that the time passed to an engine is off its own clock by
	// more than a second. Read Storage.Clock again and repeat.
	ErrClock = errors.New("nexjob: time is off the storage's clock")
	// ErrUnsupported says that an engine cannot do what a field asks for.
	ErrUnsupported = errors.New("nexjob: not supported")
	// ErrInTransaction says that a call which needs its own transaction was made
	// inside the caller's open one, where it could only wait for itself.
	ErrInTransaction = errors.New("nexjob: cannot be done inside an open transaction")
	// ErrNotCompleted says that the handler called CompleteIn but its
	// transaction did not commit.
	ErrNotCompleted = errors.New("nexjob: the transaction that completes the job did not commit")
	// ErrOutcomeUnknown says that a commit's outcome is not known. Repeat the
	// call with the same IDs: it is recognised.
	ErrOutcomeUnknown = errors.New("nexjob: outcome of the commit is unknown; repeat the call with the same IDs")
	// ErrClosed says that the storage, client or worker is closed.
	ErrClosed = errors.New("nexjob: closed")
)

// DuplicateJobError is a rejection by the duplicate policy, or, while the holder
// is active, by WhileActive Reject. A requeue of a job whose key has gone on to
// another one is refused with it too, under no policy. It matches ErrDuplicateJob.
type DuplicateJobError struct {
	IdempotencyKey string
	ExistingJobID  ID
	ExistingState  State
	Policy         DuplicatePolicy
	RecordGone     bool // the key outlived the job's record, so the job cannot be requeued
}

// Error names the key, the job and the policy, and says what can be done.
func (e *DuplicateJobError) Error() string {
	if e.ExistingState.Active() {
		return fmt.Sprintf("nexjob: idempotency key %q is held by job %s (%s); wait for that job, or cancel it",
			e.IdempotencyKey, e.ExistingJobID, e.ExistingState)
	}
	last, requeue := e.ExistingState.String(), "requeue that job, or "
	if e.RecordGone { // nothing is left to requeue
		last, requeue = last+", its record is gone", ""
	}
	if e.Policy == AllowAfterFailed { // it rejects no enqueue: a former job was to be requeued
		return fmt.Sprintf("nexjob: idempotency key %q was used since by job %s (%s); %senqueue anew",
			e.IdempotencyKey, e.ExistingJobID, last, requeue)
	}
	return fmt.Sprintf("nexjob: idempotency key %q was used by job %s (%s) and %s rejects another; "+
		"%sclear the key after review", e.IdempotencyKey, e.ExistingJobID, last, e.Policy, requeue)
}

// Is matches ErrDuplicateJob.
func (e *DuplicateJobError) Is(target error) bool { return target == ErrDuplicateJob }

// KeyMismatchError says that a key was used again for another kind, or, with
// StrictArgs, for other args. It matches ErrKeyMismatch.
type KeyMismatchError struct {
	IdempotencyKey      string
	ExistingJobID       ID
	Kind                string
	ExistingKind        string
	Fingerprint         Fingerprint
	ExistingFingerprint Fingerprint
}

// Error says what differs.
func (e *KeyMismatchError) Error() string {
	if e.Kind != e.ExistingKind {
		return fmt.Sprintf("nexjob: idempotency key %q belongs to job %s of kind %q, not %q; "+
			"give each kind keys of its own", e.IdempotencyKey, e.ExistingJobID, e.ExistingKind, e.Kind)
	}
	return fmt.Sprintf("nexjob: idempotency key %q belongs to job %s with other args (fingerprint %s, not %s); "+
		"use another key for other work, or leave StrictArgs out to be answered with that job",
		e.IdempotencyKey, e.ExistingJobID, e.ExistingFingerprint, e.Fingerprint)
}

// Is matches ErrKeyMismatch.
func (e *KeyMismatchError) Is(target error) bool { return target == ErrKeyMismatch }

// IDReusedError says that a job with the same ID but another kind, key or args is
// stored: the caller used one ID for two jobs. It matches ErrIDReused.
type IDReusedError struct {
	ID     ID
	Differ string // "kind", "key" or "args"
}

// Error says what differs.
func (e *IDReusedError) Error() string {
	return fmt.Sprintf("nexjob: job ID %s is taken by a job with another %s; make a new ID for another job",
		e.ID, e.Differ)
}

// Is matches ErrIDReused.
func (e *IDReusedError) Is(target error) bool { return target == ErrIDReused }

// InvalidError says what is wrong with an input, before anything was written.
type InvalidError struct {
	Field  string
	Why    string
	Remedy string
}

// Error names the field, what is wrong and what is right.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("nexjob: invalid %s: %s; %s", e.Field, e.Why, e.Remedy)
}

// Is matches ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, why, remedy string) error {
	return &InvalidError{Field: field, Why: why, Remedy: remedy}
}

// EffectMismatchError says that an effect of the operation is confirmed, or of
// unknown outcome, under another request than the one now asked for. Nothing was
// sent. It matches ErrEffectMismatch.
type EffectMismatchError struct {
	Operation   ID
	Name, Item  string
	State       EffectState
	Standing    Fingerprint // of the request that stands
	Fingerprint Fingerprint // of the request that was refused
}

// Error says which effect, and what to do.
func (e *EffectMismatchError) Error() string {
	name := e.Name
	if e.Item != "" {
		name += "/" + e.Item
	}
	return fmt.Sprintf("nexjob: effect %q of operation %s is %s under request %s, and now asked for under %s; "+
		"look at the job, and enqueue with NewOperation if a second effect is meant",
		name, e.Operation, e.State, e.Standing, e.Fingerprint)
}

// Is matches ErrEffectMismatch.
func (e *EffectMismatchError) Is(target error) bool { return target == ErrEffectMismatch }

// TransientError marks trouble that may pass: a busy or unreachable storage. The
// same call may simply be made again.
type TransientError struct{ Err error }

// Error is the wrapped error's text.
func (e *TransientError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *TransientError) Unwrap() error { return e.Err }

// IsTransient reports whether a storage call may succeed when it is repeated.
func IsTransient(err error) bool {
	var transient *TransientError
	return errors.As(err, &transient) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrClock) ||
		errors.Is(err, context.DeadlineExceeded)
}
