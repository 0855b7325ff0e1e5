package onewriter

import (
	"context"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Rows is what an engine lends for one write transaction. Reads see all writes of
// the transaction. Records go in and out as values that the caller may keep.
//
// An engine may leave out the body of the jobs that it returns, which is their
// Args, Tags and Meta: no step but a claim looks at it. Bodies fills it in.
type Rows interface {
	JobRows
	FamilyRows
	KeyRows
	ReceiptRows
	EntryRows
	MetaRows
}

// JobRows reads and writes job records.
type JobRows interface {
	// Jobs returns those of the jobs that are stored, in any order.
	Jobs(ctx context.Context, ids []nexjob.ID) ([]nexjob.Job, error)
	// Due returns at most n claimable jobs of one queue, by priority, due time and
	// ID: Enqueued or Uncertain ones of the kinds, due at or before now.
	Due(ctx context.Context, now time.Time, queue string, kinds []string, n int) ([]nexjob.Job, error)
	// Leased returns at most n Processing jobs whose lease ended at or before now,
	// the longest ago first.
	Leased(ctx context.Context, now time.Time, n int) ([]nexjob.Job, error)
	// Select returns at most n jobs that a query selects, oldest first, ignoring
	// its page fields.
	Select(ctx context.Context, now time.Time, q nexjob.Query, n int) ([]nexjob.Job, error)
	// Bodies fills in the Args, Tags and Meta of jobs that are stored.
	Bodies(ctx context.Context, jobs []*nexjob.Job) error
	// WriteJobs adds, changes and removes jobs, with their links to parents.
	WriteJobs(ctx context.Context, writes []JobWrite) error
}

// FamilyRows finds jobs that wait for others.
type FamilyRows interface {
	// AnyChild reports whether a stored job may have parents: where none has, an end
	// need not look for children.
	AnyChild(ctx context.Context) (bool, error)
	// Children returns the waiting jobs that name one of the parents.
	Children(ctx context.Context, parents []nexjob.ID) ([]nexjob.Job, error)
}

// JobWrite is one change of a job record. The records are the unit's own, and change
// after WriteJobs has returned.
type JobWrite struct {
	Job *nexjob.Job
	Was *nexjob.Job // what the engine returned; nil: a new record
	// Body: the Args, Tags and Meta of Job are to be written; else they stay as they
	// are, and Job may not hold them.
	Body bool
	// Gone: the record is removed.
	Gone bool
}

// KeyRows reads and writes key rows.
type KeyRows interface {
	// Keys returns those of the keys that have a row, in any order.
	Keys(ctx context.Context, keys []string) ([]nexjob.KeyRow, error)
	// KeysOver returns at most n rows whose own life ended at or before now, the
	// longest ago first.
	KeysOver(ctx context.Context, now time.Time, n int) ([]nexjob.KeyRow, error)
	// WriteKeys adds or changes rows, which are the unit's own, and removes others.
	WriteKeys(ctx context.Context, put []*nexjob.KeyRow, gone []string) error
}

// ReceiptRows reads and writes receipts.
type ReceiptRows interface {
	// Receipts returns the receipts of the operations, in order of operation and slot.
	Receipts(ctx context.Context, operations []nexjob.ID) ([]nexjob.Receipt, error)
	// WriteReceipts adds receipts or changes those of the same operation and slot.
	WriteReceipts(ctx context.Context, put []nexjob.Receipt) error
	// DropReceipts removes all receipts of those of the operations that no job and
	// no key row holds.
	DropReceipts(ctx context.Context, operations []nexjob.ID) error
}

// EntryRows reads and writes entries; expired ones are returned too.
type EntryRows interface {
	Entry(ctx context.Context, kind, name string) (entry nexjob.Entry, found bool, err error)
	WriteEntry(ctx context.Context, e nexjob.Entry) error
	DropEntry(ctx context.Context, kind, name string) error
	// DropExpired removes at most n entries that expired at or before now, and
	// returns how many.
	DropExpired(ctx context.Context, now time.Time, n int) (int, error)
}

// MetaRows keeps the storage's counters.
type MetaRows interface {
	// Fences draws n numbers and returns the first. They grow for ever.
	Fences(ctx context.Context, n int) (int64, error)
	// Pulse reads and WritePulse writes what is remembered of writes.
	Pulse(ctx context.Context) (rules.Pulse, error)
	WritePulse(ctx context.Context, p rules.Pulse) error
	// Rewind shortens every lease to at most its own length from now: the clock
	// went back.
	Rewind(ctx context.Context, now time.Time) error
}
