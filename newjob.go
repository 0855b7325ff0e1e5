package nexjob

import (
	"slices"
	"time"
)

// NewJob is a job to be enqueued. Kind.New makes one from typed args; storage
// engines take it as it is. The zero value of each option is its default.
type NewJob struct {
	ID          ID // made by Enqueue when zero; set it to make a repeat recognisable
	Kind        string
	Aliases     []string // former names of the kind: jobs under them are of the same kind
	Args        []byte   // at most MaxArgs; stored and returned byte for byte
	Fingerprint Fingerprint
	Options

	// Err is a mistake made while the job was built, such as args that do not
	// encode. Enqueue answers it for this item and writes nothing.
	Err error
}

// Options are the choices of one enqueue; the zero value is safe.
type Options struct {
	Queue         string            // default "default"
	Priority      Priority          // default Normal
	Delay         time.Duration     // due this long after now, or after the parents' release
	DueAt         time.Time         // due at this time; one in the past is due now
	Deadline      time.Time         // not started after this time: Expired
	DeadlineAfter time.Duration     // the same, counted from the enqueue; it wins over Deadline
	MaxAttempts   int               // tries in all; default the kind's, else 10
	Timeout       time.Duration     // of one attempt; default the kind's, else the worker's
	Tags          []string          // at most MaxTags, exact match
	Meta          map[string]string // at most MaxMeta bytes; UTF-8 without NUL
	Parents       []Parent          // jobs that must end first

	// IdempotencyKey is the caller's name for one logical operation: 1 to 512
	// bytes of UTF-8 without NUL, compared bytewise, global in a storage.
	IdempotencyKey  string
	DuplicatePolicy DuplicatePolicy // when the key's last job has ended
	WhileActive     WhileActive     // while it is active
	// StrictArgs turns "equal key, different args" into *KeyMismatchError;
	// without it the answer has ArgsDiffer. A different kind is always an error.
	StrictArgs bool
	// KeepKeyFor makes the key live exactly this long after the job's end,
	// longer or shorter than the record. 0: as long as the record.
	KeepKeyFor time.Duration
	// NewOperation is the caller's word that a second effect is meant: the job
	// does not continue the operation of a key's last job that did not succeed.
	NewOperation bool
}

// QueueOrDefault returns the queue's name, "default" when none was chosen.
func (o *Options) QueueOrDefault() string {
	if o.Queue == "" {
		return DefaultQueue
	}
	return o.Queue
}

// PriorityOrDefault returns the priority, Normal when none was chosen.
func (o *Options) PriorityOrDefault() Priority {
	if o.Priority == 0 {
		return Normal
	}
	return o.Priority
}

// MaxAttemptsOrDefault returns the number of tries, 10 when none was chosen.
func (o *Options) MaxAttemptsOrDefault() int {
	if o.MaxAttempts == 0 {
		return DefaultMaxAttempts
	}
	return o.MaxAttempts
}

// Due returns when the job may first be claimed if it is released at now.
func (o *Options) Due(now time.Time) time.Time {
	due := now.Add(o.Delay)
	if o.DueAt.After(due) {
		due = o.DueAt
	}
	return due.UTC().Truncate(time.Microsecond)
}

// Expires returns the deadline of a job enqueued at now; zero means none.
func (o *Options) Expires(now time.Time) time.Time {
	switch {
	case o.DeadlineAfter > 0:
		return now.Add(o.DeadlineAfter).UTC().Truncate(time.Microsecond)
	case o.Deadline.IsZero():
		return time.Time{}
	}
	return o.Deadline.UTC().Truncate(time.Microsecond)
}

// SameKind reports whether name is the item's kind or one of its former names.
func (n *NewJob) SameKind(name string) bool {
	return n.Kind == name || slices.Contains(n.Aliases, name)
}
