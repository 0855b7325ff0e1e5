package nexjob

import (
	"fmt"
	"time"
)

// Job is the stored record of one unit of work, as Find and Claim answer it.
// Times are in UTC and whole microseconds; a zero time means "none".
type Job struct {
	ID          ID          // made by the client; never reused
	Kind        string      // the job's named, typed sort
	Queue       string      // "default" unless chosen
	Priority    Priority    // Normal unless chosen
	State       State       // Find reports Scheduled for an Enqueued job due later
	Key         string      // idempotency key; "" for none
	Operation   ID          // the logical thing done once; see NewJob.NewOperation
	Fingerprint Fingerprint // of the canonical args
	Args        []byte      // come back byte for byte
	Tags        []string
	Meta        map[string]string
	Parents     []Parent // in the order given

	EnqueuedAt time.Time
	DueAt      time.Time // when it may next be claimed; zero with Uncertain: only a verdict moves it
	Deadline   time.Time // after it the job is not started any more
	StartedAt  time.Time // of the newest attempt
	EndedAt    time.Time
	Delay      time.Duration // due time counted from the parents' release
	Timeout    time.Duration // of one attempt; 0: the worker's default
	KeepKeyFor time.Duration // life of the key after the end; 0: as long as the record

	MaxAttempts   int // tries in all
	Tries         int // attempts whose handler ended with an error
	Crashes       int // attempts whose lease ran out
	Interruptions int // attempts given back at a stop; cost nothing
	Snoozes       int // attempts that asked to be run later; cost nothing
	Lookups       int // look-ups that ended still unknown, without early ones; cost nothing

	Fence      int64         // of the newest attempt; 0: never claimed
	Worker     string        // that claimed it last
	LeaseUntil time.Time     // while Processing
	LeaseFor   time.Duration // the length it was granted or renewed for
	Started    bool          // claimed since it was last enqueued or requeued
	Replaced   bool          // an enqueue with WhileActive Replace changed it
	Stop       bool          // someone asked to cancel it while Processing
	StopReason string        // and why
	Wished     State         // while Uncertain: the end that the missing outcome holds up; 0: none

	OpenEffects  int    // effects of the operation that stand intended without an outcome
	ReceiptCount int    // receipts of the operation
	ReceiptBytes int    // and their values' size
	Reason       string // why it is where it is: last error, cancel reason, "worker lost"
	Result       []byte // what the handler left, with Succeeded
	Attempts     []Attempt
	Followers    []Follower // what became of the jobs a settlement added, where not simply created

	SettledFence int64  // the lease of the newest settlement that stands
	SettledAs    Ending // and what it said
}

// Attempt is one ended run of a job. The newest MaxAttemptsKept are kept.
type Attempt struct {
	Fence   int64     `json:"f"`
	Worker  string    `json:"w,omitempty"`
	Started time.Time `json:"s"`
	Ended   time.Time `json:"e"`
	Ending  Ending    `json:"a"`
	Error   string    `json:"m,omitempty"`
}

// Follower says what became of a job that a settlement added, or of a child that was
// enqueued under a held key: its answer was not simply "created".
type Follower struct {
	ID      ID      `json:"id"`  // the job that answered: created or existing
	Key     string  `json:"key"` // the follower's idempotency key
	Outcome Outcome `json:"outcome,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Rule says which end of a parent releases its child.
type Rule uint8

// The rules. The zero Rule is OnSuccess.
const (
	OnSuccess Rule = iota // Succeeded
	OnFailure             // Failed or Expired
	OnAnyEnd              // every end, also Cancelled and deleted
)

// String returns the rule's name.
func (r Rule) String() string {
	switch r {
	case OnSuccess:
		return "on success"
	case OnFailure:
		return "on failure"
	case OnAnyEnd:
		return "on any end"
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// ParseRule reads the form that String writes.
func ParseRule(name string) (Rule, error) {
	return parseWord("a rule", name, wordsFrom(OnSuccess, OnAnyEnd))
}

// MarshalText writes the form of String.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the form of String.
func (r *Rule) UnmarshalText(text []byte) error { return readWord(r, text, ParseRule) }

// Parent is a job that must end before its child may run. A child whose rule can
// no longer be met is Cancelled with the reason.
type Parent struct {
	ID      ID   `json:"id"`
	Rule    Rule `json:"rule,omitempty"`
	Decided bool `json:"decided,omitempty"` // its first end has been weighed
}

// ReportedState returns the state as people see it at now: an Enqueued job with a
// due time ahead is Scheduled.
func (j *Job) ReportedState(now time.Time) State {
	if j.State == Enqueued && j.DueAt.After(now) {
		return Scheduled
	}
	return j.State
}

// Lease returns the right under which the newest attempt of the job runs.
func (j *Job) Lease() Lease { return Lease{Job: j.ID, Fence: j.Fence} }
