package nexjob

import (
	"fmt"
	"time"
)

// Subject says what records a Query is about.
type Subject uint8

// The subjects. The zero Subject is Jobs.
const (
	Jobs    Subject = iota
	Keys            // key rows, in bytewise order
	Effects         // receipts, in order of operation and slot
)

// Query selects records. Empty fields select everything, a list without items like
// one that is not set; all set fields must match. For Keys only Key, KeyPrefix and the
// page fields count; for Effects only Operations, EffectStates and the page fields.
type Query struct {
	Of         Subject
	IDs        []ID
	Key        string // exact
	KeyPrefix  string
	Operations []ID
	Kinds      []string
	Queues     []string
	Tags       []string // all of them
	AnyTags    []string // at least one of them
	States     []State  // as reported: Scheduled and Enqueued are told apart
	Parent     ID       // children of this job

	DeadlineBefore time.Time // the deadline is set and lies at or before this time
	EndedBefore    time.Time // ended at or before this time

	EffectStates []EffectState

	// All is the caller's word that a query without a condition means every job.
	// Client.Amend asks for it; reading does not.
	All bool

	NewestFirst bool   // Jobs: by ID, newest first; else oldest first
	Limit       int    // 1 to MaxPage; 0: DefaultPage
	After       string // Page.Next of the page before
}

// selective reports whether the query has a condition on jobs.
func (q *Query) selective() bool {
	named := len(q.IDs) > 0 || len(q.Operations) > 0 || q.Key != "" || q.KeyPrefix != "" || !q.Parent.IsZero()
	kept := len(q.Kinds) > 0 || len(q.Queues) > 0 || len(q.Tags) > 0 || len(q.AnyTags) > 0 || len(q.States) > 0
	return named || kept || !q.DeadlineBefore.IsZero() || !q.EndedBefore.IsZero()
}

// Page is one page of what a Query selects, in order.
type Page struct {
	Jobs    []Job
	Keys    []KeyRow
	Effects []Receipt // steps too
	Next    string    // for Query.After; "" on the last page
}

// KeyRow is the standing of one idempotency key.
type KeyRow struct {
	Key         string
	Job         ID // the key's last job
	Kind        string
	Fingerprint Fingerprint
	Operation   ID
	// Ended is the state that the last job ended in, once its record was purged
	// before the key; else zero, and the job's record tells.
	Ended State
	// Until is when the key's life ends; zero: with the record.
	Until time.Time
	// Cleared says that the refusal was lifted after review: the next enqueue is
	// allowed under every policy.
	Cleared bool
}

// Tally counts the jobs of one queue, kind and reported state.
type Tally struct {
	Queue     string
	Kind      string
	State     State
	Jobs      int64
	OldestDue time.Time // the earliest due time among them
}

// Act is what Amend does to the jobs that a query selects.
type Act uint8

// The acts.
const (
	// ActCancel cancels a waiting job at once and asks a Processing one to stop.
	ActCancel Act = iota + 1
	// ActRequeue puts an ended job back with a fresh budget, if it is its key's
	// last job. It keeps the operation unless Action.NewOperation.
	ActRequeue
	// ActDelete removes a job that is not Processing and frees its key at once.
	// With confirmed effects it needs Force and a Reason.
	ActDelete
	// ActPurge removes ended jobs as retention does: the key stays if KeepKeyFor
	// says so. It also removes what is left over: keys whose life is over and
	// receipts that nothing holds.
	ActPurge
	// ActClearKey lifts the refusal of an ended job's key and keeps the record.
	// The query may select Keys, for a key that outlived its record.
	ActClearKey
	// ActResolve gives a person's verdict on an effect of an Uncertain job, with By
	// and Reason. With its last verdict the job is due again: the handler goes on
	// with Value where the effect was Applied, and sends again, under the same key,
	// where it was NotApplied.
	ActResolve
	// ActExpire ends jobs that were not started by their deadline.
	ActExpire
	// ActReschedule sets the due time of a waiting job.
	ActReschedule
	// ActPrioritise sets the priority of a waiting job.
	ActPrioritise
	// ActMove moves a waiting job to another queue.
	ActMove
)

// String returns the act's name.
func (a Act) String() string {
	names := [...]string{
		"", "cancel", "requeue", "delete", "purge", "clear key", "resolve", "expire",
		"reschedule", "prioritise", "move",
	}
	if a == 0 || int(a) >= len(names) {
		return fmt.Sprintf("Act(%d)", uint8(a))
	}
	return names[a]
}

// ParseAct reads the form that String writes.
func ParseAct(name string) (Act, error) {
	return parseWord("an act", name, wordsFrom(ActCancel, ActMove))
}

// MarshalText writes the form of String.
func (a Act) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the form of String.
func (a *Act) UnmarshalText(text []byte) error { return readWord(a, text, ParseAct) }

// Action is one act with its choices.
type Action struct {
	Act    Act
	By     string // who asks for it
	Reason string // and why; kept on the job
	Force  bool   // ActDelete of a job with confirmed effects

	NewOperation bool      // ActRequeue: a second effect is meant
	DueAt        time.Time // ActReschedule
	Priority     Priority  // ActPrioritise
	Queue        string    // ActMove

	// ActResolve: which effect ("" with exactly one open), the verdict, the value
	// of one that was applied, and the follow-up of Compensate, which is for one job:
	// a query that selects several is refused. The value is the JSON of what Send
	// would have returned, for good; without one the handler gets the zero value.
	Effect, Item string
	Verdict      Verdict
	Value        []byte
	FollowUp     *NewJob
}

// Change answers one job that an Amend selected.
type Change struct {
	Job   ID
	Key   string
	State State // afterwards; zero: the record is gone
	Done  bool
	Err   error // why it was refused; nil with Done
	// FollowUp answers the job that Compensate enqueued. If it was refused, so is the
	// verdict, and Err says why: nothing would make up for the effect.
	FollowUp *Answer
}

// Amended answers an Amend. More says that the query selects further jobs, or, with
// ActPurge, that further leftovers are there: the same call goes on with them.
type Amended struct {
	Changes []Change
	More    bool
	// Swept counts the keys and entries that ActPurge removed because their own life
	// was over, beside the jobs that were selected.
	Swept int
}

// Done counts the changes that were made.
func (a *Amended) Done() int {
	n := 0
	for i := range a.Changes {
		if a.Changes[i].Done {
			n++
		}
	}
	return n
}
