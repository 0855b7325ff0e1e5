package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// Micro brings a time to what engines store: UTC, whole microseconds.
func Micro(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Storable reports whether a time is none, or one that every engine and JSON can
// hold: of the years 1970 to 9999 in UTC.
func Storable(t time.Time) bool {
	year := t.UTC().Year()
	return t.IsZero() || year >= 1970 && year <= 9999
}

// NewRecord is the record of a new job, before its parents are weighed.
func NewRecord(item *nexjob.NewJob, operation nexjob.ID, now time.Time) nexjob.Job {
	j := nexjob.Job{
		ID: item.ID, Kind: item.Kind, State: nexjob.Enqueued,
		Key: item.IdempotencyKey, Operation: operation,
		Parents: slices.Clone(item.Parents), EnqueuedAt: Micro(now),
	}
	for i := range j.Parents {
		j.Parents[i].Decided = false
	}
	choose(&j, item, now)
	return j
}

// Replace gives a waiting job the args, due time and options of an enqueue. Its
// ID, kind, operation and parents stay.
func Replace(j *nexjob.Job, item *nexjob.NewJob, now time.Time) {
	choose(j, item, now)
	j.Replaced = true
}

func choose(j *nexjob.Job, item *nexjob.NewJob, now time.Time) {
	j.Queue, j.Priority = item.QueueOrDefault(), item.PriorityOrDefault()
	j.Args, j.Fingerprint = bytes.Clone(item.Args), item.Fingerprint
	j.Tags = slices.Clone(item.Tags)
	j.Meta = nil
	if len(item.Meta) > 0 {
		j.Meta = make(map[string]string, len(item.Meta))
		maps.Copy(j.Meta, item.Meta)
	}
	j.Delay, j.Timeout, j.KeepKeyFor = item.Delay, item.Timeout, item.KeepKeyFor
	j.MaxAttempts = item.MaxAttemptsOrDefault()
	j.Deadline = item.Expires(now)
	if j.State == nexjob.AwaitingContinuation {
		j.DueAt = asked(item)
		return
	}
	j.DueAt = clamp(item.Due(now), j.Deadline)
}

// asked is the due time that a waiting child keeps until its release.
func asked(item *nexjob.NewJob) time.Time {
	if item.DueAt.IsZero() {
		return time.Time{}
	}
	return Micro(item.DueAt)
}

// clamp keeps a due time within the deadline, so that a job expires on time.
func clamp(due, deadline time.Time) time.Time {
	if !deadline.IsZero() && due.After(deadline) {
		return deadline
	}
	return due
}

// KeyFor is the key's row once job j holds it.
func KeyFor(j *nexjob.Job) nexjob.KeyRow {
	return nexjob.KeyRow{
		Key: j.Key, Job: j.ID, Kind: j.Kind, Fingerprint: j.Fingerprint, Operation: j.Operation,
	}
}

// KeyEnds returns when the key of a job that ended at now frees itself; zero: with
// the record.
func KeyEnds(j *nexjob.Job, now time.Time) time.Time {
	if j.KeepKeyFor == 0 {
		return time.Time{}
	}
	return Micro(now.Add(j.KeepKeyFor))
}

// chance returns a number in [0, 1) that belongs to a job and a count: the same on
// every engine, different from job to job.
func chance(id nexjob.ID, n int) float64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(id[:], uint64(n))) //nolint:gosec // any bits do
	return float64(binary.BigEndian.Uint32(sum[:4])) / (1 << 32)
}

// derive returns the ID of the second operation that a requeue of a job begins.
func derive(id nexjob.ID, fence int64) nexjob.ID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(id[:], uint64(fence))) //nolint:gosec // any bits do
	next := id
	copy(next[6:], sum[:10])
	next[6] = next[6]&0x0f | 0x80 // version 8 of RFC 9562: made by our own rule
	next[8] = next[8]&0x3f | 0x80
	return next
}
