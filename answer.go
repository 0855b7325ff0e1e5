package nexjob

import "fmt"

// Outcome says what an enqueue did.
type Outcome uint8

// The outcomes. An answer with an error has none of them, but for a
// duplicate or a mismatch, whose decision is counted under these names.
const (
	Created    Outcome = iota + 1 // a new job
	Existing                      // the key's holder is the answer; nothing was written
	Replaced                      // the waiting holder took the new args and options
	Rejected                      // *DuplicateJobError
	Mismatched                    // *KeyMismatchError
)

func outcomeNames() [Mismatched + 1]string {
	return [...]string{"", "created", "existing", "replaced", "rejected", "mismatched"}
}

// String returns the word that API and CLI write.
func (o Outcome) String() string {
	names := outcomeNames()
	if o == 0 || int(o) >= len(names) {
		return fmt.Sprintf("Outcome(%d)", uint8(o))
	}
	return names[o]
}

// ParseOutcome reads the form that String writes.
func ParseOutcome(name string) (Outcome, error) {
	return parseWord("an outcome", name, wordsFrom(Created, Mismatched))
}

// MarshalText writes the form of String.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the form of String.
func (o *Outcome) UnmarshalText(text []byte) error { return readWord(o, text, ParseOutcome) }

// Answer is what an enqueue answers for one item.
type Answer struct {
	ID         ID      // of the job that is the answer; it exists, or existed with RecordGone
	Outcome    Outcome // Created, Existing or Replaced
	State      State   // of that job when the answer was decided
	Operation  ID      // of that job
	ArgsDiffer bool    // equal key, different args
	Started    bool    // a Replace came too late: the holder has been claimed
	RecordGone bool    // the key outlived the job's record
	// Continues says that the new job continues the operation of the key's last
	// job: effects confirmed there are not repeated.
	Continues bool
	Err       error // batches only: this item's error; its neighbours are untouched

	wake func()
}

// Wake tells idle workers of this process that the job is there. Enqueue does it
// by itself; after an enqueue inside the caller's own transaction call it when the
// transaction has committed, or let the next poll find the job.
func (a Answer) Wake() {
	if a.wake != nil {
		a.wake()
	}
}
