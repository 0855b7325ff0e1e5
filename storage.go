package nexjob

import (
	"context"
	"time"
)

// Storage is the contract that every engine keeps and the conformance suite
// (package storagetest) checks. Each method takes a batch and is one atomic step.
//
// For all methods: now is the storage's time as the caller reckons it (the newest
// Clock plus the monotonic time since); an engine that has a clock answers
// ErrClock when now is off by more than a second, and the caller reads Clock
// again. What one item of a batch meets is an answer for that item and never
// fails its neighbours; the method's error speaks of the whole step, and then
// nothing of it happened, or, with ErrOutcomeUnknown, the same call with the same
// IDs finds out. Every method may be repeated after a lost answer. Answers go out
// only after the commit returned. An engine does not log, never reads the host's
// clock to judge, and never retries beyond its driver's busy wait.
type Storage interface {
	Queue
	Ledger
	Archive
	Registry

	// Join returns the storage's steps inside the caller's open transaction: they
	// are visible on commit and gone on rollback. It never commits or rolls back.
	Join(tx Tx) (Joined, error)
	// Clock reads the storage's time.
	Clock(ctx context.Context) (time.Time, error)
	// Migrate brings the schema up to date. It is safe with several processes at
	// once and safe to repeat.
	Migrate(ctx context.Context) error
	// Close waits for steps under way and releases what Open took.
	Close() error
}

// Queue is the life of jobs from enqueue to settlement.
type Queue interface {
	// Enqueue adds jobs. An item whose ID is stored is a repeat and gets its first
	// answer. Otherwise its key is resolved by PolicyTable; equal keys of one
	// batch are judged in order. Answers are per item, in order; Answer.Err is
	// *DuplicateJobError, *KeyMismatchError, *IDReusedError, *InvalidError or
	// ErrUnknownParent.
	Enqueue(ctx context.Context, now time.Time, jobs []NewJob) ([]Answer, error)

	// Claim takes due jobs, each under a fresh fence and a lease that runs from the
	// moment its row is locked. Order: queue as asked, priority, due time, ID.
	// First it recovers leases that ran out: the crash is counted, the first is
	// due at once, later ones after a back-off, at the limit the job is Failed. A
	// due job past its deadline is Expired instead. With N = 0 it only recovers.
	// A repeat after a lost answer claims other jobs; the lost ones are recovered
	// when their leases run out.
	Claim(ctx context.Context, now time.Time, ask ClaimRequest) ([]Claimed, error)

	// Renew extends current leases to until and never waits for a locked row.
	Renew(ctx context.Context, now, until time.Time, leases []Lease) ([]Renewal, error)

	// Settle ends attempts. A settlement counts only while its lease is current;
	// otherwise its answer is ErrLeaseLost and nothing of it happens: no state, no
	// followers, no freed children. Settling twice with the same lease and ending
	// is one settlement, so a caller that lost the answer may simply ask again.
	Settle(ctx context.Context, now time.Time, ends []Settlement) ([]Settled, error)
}

// Ledger keeps receipts.
type Ledger interface {
	// Record writes receipts. The first value stands; the answer holds the standing
	// receipt and whether it says what this writer said. A receipt counts only
	// while its Writer is a current lease of a job of its operation.
	Record(ctx context.Context, now time.Time, receipts []Receipt) ([]Recorded, error)
}

// Archive finds and changes what is stored.
type Archive interface {
	// Find returns one page. It never writes.
	Find(ctx context.Context, now time.Time, q Query) (Page, error)
	// Count tallies the jobs that a query selects, ignoring its page fields.
	Count(ctx context.Context, now time.Time, q Query) ([]Tally, error)
	// Amend applies one action to at most limit jobs that the query selects,
	// oldest first, and answers per job.
	Amend(ctx context.Context, now time.Time, q Query, do Action, limit int) (Amended, error)
}

// Registry keeps entries.
type Registry interface {
	// Put compares and swaps entries.
	Put(ctx context.Context, now time.Time, puts []Put) ([]PutAnswer, error)
	// Entries returns the unexpired entries of a kind, by name.
	Entries(ctx context.Context, now time.Time, kind string) ([]Entry, error)
}

// Joined is what can be done inside a caller's transaction. Where it has the method Clock of
// Storage too, a client asks it for the time: a transaction that holds a connection is not
// kept waiting for another.
type Joined interface {
	Enqueue(ctx context.Context, now time.Time, jobs []NewJob) ([]Answer, error)
	Settle(ctx context.Context, now time.Time, ends []Settlement) ([]Settled, error)
	Record(ctx context.Context, now time.Time, receipts []Receipt) ([]Recorded, error)
	Find(ctx context.Context, now time.Time, q Query) (Page, error)
}

// Tx is a caller's open transaction, wrapped by the engine's package: sqlite.Tx,
// for example.
type Tx interface {
	// Engine names the engine whose Join takes it.
	Engine() string
}

// Ringer is the extra power of an engine that can tell of new work at once; a
// client and a worker on it wake each other without waiting for a poll.
type Ringer interface {
	Bell() *Bell
}

// Forecaster is the extra power of an engine that can tell cheaply, by an index, when
// the next job falls due; a worker on it starts delayed jobs and retries on time,
// whoever wrote them, without waiting for a poll. It asks as often as 200 times a second.
type Forecaster interface {
	// NextDue returns the earliest due time after now of a job that a claim of these
	// queues and kinds could take then; zero if there is none. What is due at now is left
	// out, for a claim at now has seen it. It never writes.
	NextDue(ctx context.Context, now time.Time, queues, kinds []string) (time.Time, error)
}
