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
	return parseWord("a duplicate policy", name, Policies())
}

// MarshalText writes the form of String.
func (p DuplicatePolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the form of String.
func (p *DuplicatePolicy) UnmarshalText(text []byte) error {
	return readWord(p, text, ParseDuplicatePolicy)
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

// ParseRuling reads the form that String writes.
func ParseRuling(name string) (Ruling, error) {
	return parseWord("a ruling", name, wordsFrom(RuleCreate, RuleReject))
}

// MarshalText writes the form of String.
func (r Ruling) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the form of String.
func (r *Ruling) UnmarshalText(text []byte) error { return readWord(r, text, ParseRuling) }

// PolicyRow is one row of the policy table: the states of the key's last job that
// it speaks of, and the ruling per policy. A row without states is the key that
// nobody holds: never used, deleted, cleared, or its life over.
type PolicyRow struct {
	States  []State
	Rulings map[DuplicatePolicy]Ruling
}

// rulings is the rule of duplicates: the one place where it is written down. It is
// indexed by the state of the key's last job, the zero State standing for the key
// that nobody holds, and then by policy: AllowAfterFailed, RejectIfFailed,
// RejectAlways. It is an array so that looking it up allocates nothing.
func rulings() [Scheduled + 1][RejectAlways + 1]Ruling {
	const create, existing, reject = RuleCreate, RuleExisting, RuleReject
	return [...][RejectAlways + 1]Ruling{
		Enqueued:             {existing, existing, existing},
		Scheduled:            {existing, existing, existing},
		Processing:           {existing, existing, existing},
		AwaitingContinuation: {existing, existing, existing},
		Uncertain:            {existing, existing, existing},
		Succeeded:            {create, create, reject},
		Failed:               {create, reject, reject},
		Expired:              {create, create, reject},
		Cancelled:            {create, create, reject},
		0:                    {create, create, create},
	}
}

// PolicyTable returns the rule of duplicates as the documents print it. The engines,
// the documents and the conformance suite are all checked against this one table.
func PolicyTable() []PolicyRow {
	row := func(last State, states ...State) PolicyRow {
		r := PolicyRow{States: states, Rulings: make(map[DuplicatePolicy]Ruling)}
		for _, p := range Policies() {
			r.Rulings[p] = p.Rule(last)
		}
		return r
	}
	var active []State
	var ended []PolicyRow
	for _, s := range States() {
		if s.Active() {
			active = append(active, s)
			continue
		}
		ended = append(ended, row(s, s))
	}
	return slices.Concat([]PolicyRow{row(Enqueued, active...)}, ended, []PolicyRow{row(0)})
}

// Rule looks up the policy table: what an enqueue under policy p does when the
// key's last job is in state last, or, with the zero State, when nobody holds it.
// What is no state or no policy is rejected: refusing loses nothing.
func (p DuplicatePolicy) Rule(last State) Ruling {
	table := rulings()
	if int(last) >= len(table) || p > RejectAlways {
		return RuleReject
	}
	return table[last][p]
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

// ParseWhileActive reads the form that String writes.
func ParseWhileActive(name string) (WhileActive, error) {
	return parseWord("a setting for a live holder", name, wordsFrom(ReturnExisting, Replace))
}

// MarshalText writes the form of String.
func (a WhileActive) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the form of String.
func (a *WhileActive) UnmarshalText(text []byte) error { return readWord(a, text, ParseWhileActive) }
