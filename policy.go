package nexjob

import (
	"fmt"
	"slices"
)

// DuplicatePolicy says what an enqueue does when the last job with its
// idempotency key has ended. While that job is active every policy answers with
// the existing job; PolicyTable is the whole rule.
type DuplicatePolicy uint8

// The three policies. The zero DuplicatePolicy is AllowAfterFailed.
const (
	// AllowAfterFailed creates a new job after any end. It does not prevent
	// repeating a success: a handler must look whether its work is done.
	AllowAfterFailed DuplicatePolicy = iota
	// RejectIfFailed rejects after Failed until a person requeues the job or
	// clears the key, and creates a new job after every other end.
	RejectIfFailed
	// RejectAlways rejects after any end, for as long as the key lives.
	RejectAlways
)

// Policies returns the three policies, the default first.
func Policies() []DuplicatePolicy {
	return []DuplicatePolicy{AllowAfterFailed, RejectIfFailed, RejectAlways}
}

// String returns the policy's name.
func (p DuplicatePolicy) String() string {
	switch p {
	case AllowAfterFailed:
		return "AllowAfterFailed"
	case RejectIfFailed:
		return "RejectIfFailed"
	case RejectAlways:
		return "RejectAlways"
	}
	return fmt.Sprintf("DuplicatePolicy(%d)", uint8(p))
}

// ParseDuplicatePolicy reads the form that String writes.
func ParseDuplicatePolicy(name string) (DuplicatePolicy, error) {
	for _, p := range Policies() {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("nexjob: %q is not a duplicate policy: want one of %v", name, Policies())
}

// MarshalText writes the form of String.
func (p DuplicatePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the form of String.
func (p *DuplicatePolicy) UnmarshalText(text []byte) error {
	parsed, err := ParseDuplicatePolicy(string(text))
	if err != nil {
		return err
	}
	*p = parsed
	return nil
}

// Ruling is what the policy table says of one enqueue.
type Ruling uint8

// The three rulings.
const (
	RuleCreate   Ruling = iota + 1 // a new job is created
	RuleExisting                   // the holder's ID is the answer
	RuleReject                     // *DuplicateJobError with the last job's ID
)

// String returns the word that the tables in the documents use.
func (r Ruling) String() string {
	switch r {
	case RuleCreate:
		return "create"
	case RuleExisting:
		return "existing"
	case RuleReject:
		return "reject"
	}
	return fmt.Sprintf("Ruling(%d)", uint8(r))
}

// PolicyRow is one row of the policy table: the states of the key's last job that
// it speaks of, and the ruling per policy. A row without states is the key that
// nobody holds: never used, deleted, cleared, or its life over.
type PolicyRow struct {
	States  []State
	Rulings map[DuplicatePolicy]Ruling
}

// PolicyTable returns the rule of duplicates as data. The engines, the documents
// and the conformance suite are all checked against this one table.
func PolicyTable() []PolicyRow {
	row := func(allow, ifFailed, always Ruling, states ...State) PolicyRow {
		return PolicyRow{States: states, Rulings: map[DuplicatePolicy]Ruling{
			AllowAfterFailed: allow, RejectIfFailed: ifFailed, RejectAlways: always,
		}}
	}
	return []PolicyRow{
		row(RuleExisting, RuleExisting, RuleExisting,
			Enqueued, Scheduled, Processing, AwaitingContinuation, Uncertain),
		row(RuleCreate, RuleCreate, RuleReject, Succeeded),
		row(RuleCreate, RuleReject, RuleReject, Failed),
		row(RuleCreate, RuleCreate, RuleReject, Expired),
		row(RuleCreate, RuleCreate, RuleReject, Cancelled),
		row(RuleCreate, RuleCreate, RuleCreate),
	}
}

// Rule looks up the policy table: what an enqueue under policy p does when the
// key's last job is in state last, or, with the zero State, when nobody holds it.
func (p DuplicatePolicy) Rule(last State) Ruling {
	for _, row := range PolicyTable() {
		if last == 0 && len(row.States) == 0 || slices.Contains(row.States, last) {
			return row.Rulings[p]
		}
	}
	return RuleReject // an unknown state: refusing loses nothing
}

// WhileActive says what an enqueue does when the key's holder is still active.
type WhileActive uint8

// The three settings. The zero WhileActive is ReturnExisting.
const (
	// ReturnExisting answers with the holder's ID.
	ReturnExisting WhileActive = iota
	// Reject answers with *DuplicateJobError.
	Reject
	// Replace gives the holder the new args, due time and options, as
	// long as it has never been claimed since it was last enqueued; a holder
	// that has started is answered as Existing with Started.
	Replace
)

// String returns the setting's name.
func (a WhileActive) String() string {
	switch a {
	case ReturnExisting:
		return "ReturnExisting"
	case Reject:
		return "Reject"
	case Replace:
		return "Replace"
	}
	return fmt.Sprintf("WhileActive(%d)", uint8(a))
}
