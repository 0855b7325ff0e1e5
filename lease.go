package nexjob

import (
	"fmt"
	"time"
)

// Lease is the right to run one attempt of a job. The fence is drawn at every
// claim from one counter of the storage, so it grows over attempts, requeues,
// re-enqueues and re-creations alike. A write counts only under the job's newest
// fence while the job is Processing; the fence is compared, never the clock.
type Lease struct {
	Job   ID    `json:"job"`
	Fence int64 `json:"fence"`
}

// ClaimRequest asks for due jobs.
type ClaimRequest struct {
	Worker string        // who claims; a name for people
	N      int           // at most so many; 0 only recovers
	Lease  time.Duration // how long the lease runs before it must be renewed
	Queues []string      // in the order wanted; a job of an earlier queue goes first
	Kinds  []string      // kinds, with their former names, that the worker serves
	// CrashLimit is how many leases of one job may run out before it is settled
	// Failed with the reason "worker lost". 0: DefaultCrashLimit.
	CrashLimit int
	// Recover bounds how many leases that ran out are looked at; 0: 100.
	Recover int
	// Throttles is kept for named limits; an engine that has none answers
	// ErrUnsupported.
	Throttles []string
	// Buffer is where an engine may put what it claims, beyond the slice's length, which
	// spares it making room anew: records are large. The answer then lies in it, and
	// whoever gave it clears and uses it again when he has done with the answer. nil: none.
	Buffer []Claimed
}

// Claimed is a job under a fresh lease, with the receipts of its operation.
type Claimed struct {
	Job      Job
	Receipts []Receipt
	// Lookup says that the job was Uncertain: the handler runs so that its effect
	// can ask the outside service; still unknown spends no try.
	Lookup bool
}

// RenewStatus says what became of a lease.
type RenewStatus uint8

// The answers of Renew.
const (
	Renewed RenewStatus = iota + 1
	Lost                // the job was claimed again, has ended, or is gone
	Busy                // its row is locked, so nobody could take it: not renewed, not lost; ask again
)

// Renewal answers one lease.
type Renewal struct {
	Status RenewStatus
	Until  time.Time // the lease's end, with Renewed
	Stop   bool      // someone asked to cancel the job
}

// Ending says how an attempt ended. The numbers are stored.
type Ending uint8

// The endings. Those that would end a job make it Uncertain instead while an
// effect of its operation stands intended without an outcome.
const (
	EndSucceeded   Ending = iota + 1 // → Succeeded
	EndFailed                        // → Failed, spends a try
	EndRetry                         // → Enqueued, due after Delay, spends a try
	EndSnoozed                       // → Enqueued, due after Delay, spends nothing
	EndInterrupted                   // → Enqueued, due at once, spends nothing
	EndUncertain                     // → Uncertain, spends nothing; looked up again after Delay
	EndCancelled                     // → Cancelled: the handler gave way to a cancel
	EndCrashed                       // written by Claim alone: the lease ran out
)

// String returns the ending's name.
func (e Ending) String() string {
	names := [...]string{
		"", "succeeded", "failed", "retry", "snoozed", "interrupted", "uncertain", "cancelled", "crashed",
	}
	if e == 0 || int(e) >= len(names) {
		return fmt.Sprintf("Ending(%d)", uint8(e))
	}
	return names[e]
}

// ParseEnding reads the form that String writes.
func ParseEnding(name string) (Ending, error) {
	return parseWord("an ending", name, wordsFrom(EndSucceeded, EndCrashed))
}

// MarshalText writes the form of String.
func (e Ending) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the form of String.
func (e *Ending) UnmarshalText(text []byte) error { return readWord(e, text, ParseEnding) }

// Settlement ends one attempt with all its consequences.
type Settlement struct {
	Lease     Lease
	As        Ending
	Delay     time.Duration // with EndRetry, EndSnoozed and EndUncertain
	Error     string        // what the handler said; cut at MaxError
	Result    []byte        // with EndSucceeded; at most MaxResult
	Followers []NewJob      // jobs to add in the same step, with EndSucceeded alone
}

// Settled answers one settlement.
type Settled struct {
	State     State    // the job's state now
	Followers []Answer // in the order of Settlement.Followers
	// Err is ErrLeaseLost, *InvalidError, or trouble that may pass: somebody's open
	// transaction holds the job, nothing of the settlement happened, and it is to be asked
	// for again.
	Err error
}
