package nexjob

import (
	"fmt"
	"strconv"
	"time"
)

// ReceiptSort tells a step from an effect.
type ReceiptSort uint8

// The sorts of receipts.
const (
	StepReceipt   ReceiptSort = iota + 1 // a value computed once
	EffectReceipt                        // something sent outside the database
)

// String returns the sort's name.
func (s ReceiptSort) String() string {
	if s == EffectReceipt {
		return "effect"
	}
	return "step"
}

// EffectState says what is known of an outside effect. The numbers are stored.
type EffectState uint8

// The states of an effect. Only Intended is open: no job ends while an effect of
// its operation is Intended.
const (
	Intended    EffectState = iota + 1 // recorded before the send; the outcome is not known
	Confirmed                          // it happened; the value is the answer. Steps are Confirmed
	Refused                            // it definitely did not happen; a later try uses the next key
	Disproved                          // a verdict says that it did not happen; sent again under the same key
	Compensated                        // a person gave up on it and enqueued a follow-up
)

func effectStateNames() [Compensated + 1]string {
	return [...]string{"", "intended", "confirmed", "refused", "disproved", "compensated"}
}

// String returns the state's name.
func (s EffectState) String() string {
	names := effectStateNames()
	if s == 0 || int(s) >= len(names) {
		return fmt.Sprintf("EffectState(%d)", uint8(s))
	}
	return names[s]
}

// ParseEffectState reads the form that String writes.
func ParseEffectState(name string) (EffectState, error) {
	return parseWord("an effect's state", name, wordsFrom(Intended, Compensated))
}

// MarshalText writes the form of String.
func (s EffectState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of String.
func (s *EffectState) UnmarshalText(text []byte) error { return readWord(s, text, ParseEffectState) }

// Verdict is what a look-up or a person says of an effect whose outcome is not
// known.
type Verdict uint8

// The verdicts. The zero Verdict is StillUnknown, so nothing is ever guessed.
const (
	StillUnknown Verdict = iota
	Applied              // it happened
	NotApplied           // it did not happen, and can no longer happen
	Compensate           // persons only: give up, cancel the job, enqueue a follow-up
)

// String returns the verdict's name.
func (v Verdict) String() string {
	switch v {
	case StillUnknown:
		return "still unknown"
	case Applied:
		return "applied"
	case NotApplied:
		return "not applied"
	case Compensate:
		return "compensate"
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// ParseVerdict reads the form that String writes.
func ParseVerdict(name string) (Verdict, error) {
	return parseWord("a verdict", name, wordsFrom(StillUnknown, Compensate))
}

// MarshalText writes the form of String.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the form of String.
func (v *Verdict) UnmarshalText(text []byte) error { return readWord(v, text, ParseVerdict) }

// Receipt is a fact that becomes true once within an operation. A step's receipt
// belongs to the args' fingerprint too; an effect has one receipt per outside key,
// told apart by Turn. Receipts live as long as any job of the operation, its key,
// or an effect without an outcome.
type Receipt struct {
	Operation   ID
	Sort        ReceiptSort
	Name        string
	Item        string      // tells loop turns apart; may be ""
	Turn        int         // effects: how often it was refused before
	Fingerprint Fingerprint // steps: of the args; effects: of the request
	State       EffectState // steps: Confirmed
	Writer      Lease       // the newest job of the operation and its fence
	Value       []byte      // steps and confirmed effects: the result
	Error       string      // the newest error or look-up answer, for people
	By          string      // who gave the verdict; "" for a look-up
	At          time.Time   // of the newest change; set by the engine

	// Effects only.
	OutsideKey    string        // sent to the outside service; see OutsideKey
	SendBefore    time.Time     // the newest send ends before this time
	FirstSent     time.Time     // RepeatableFor counts from here; set by the engine
	RepeatableFor time.Duration // a repeat under the same key is the same request for so long
	LookupAfter   time.Duration // a verdict NotApplied counts only this long after SendBefore
	Lookup        bool          // the handler can ask the outside service
	AtMostOnce    bool          // never sent twice, not even under the same key
}

// Slot names the receipt within its operation: two receipts of one slot are about
// the same fact.
func (r *Receipt) Slot() string {
	part := strconv.Itoa(r.Turn)
	if r.Sort == StepReceipt {
		part = r.Fingerprint.String()
	}
	return r.Sort.String() + "\x00" + r.Name + "\x00" + r.Item + "\x00" + part
}

// Open reports whether the receipt is an effect without an outcome.
func (r *Receipt) Open() bool { return r.Sort == EffectReceipt && r.State == Intended }

// RepeatBefore returns the time until which the same request may be sent again
// under the same key; zero means never.
func (r *Receipt) RepeatBefore() time.Time {
	if r.AtMostOnce || r.RepeatableFor == 0 {
		return time.Time{}
	}
	return r.FirstSent.Add(r.RepeatableFor)
}

// NotAppliedFrom returns the time from which a verdict NotApplied is accepted: the
// newest send has ended and the outside service has had time to show it.
func (r *Receipt) NotAppliedFrom() time.Time { return r.SendBefore.Add(r.LookupAfter) }

// Recorded answers one receipt.
type Recorded struct {
	Standing Receipt // the receipt as it stands now
	Ours     bool    // it says what this writer wrote, now or in a call whose answer was lost
	// Err is ErrLeaseLost, *EffectMismatchError, *InvalidError (a limit),
	// *StillUnknownError, ErrNotFound (an outcome of an effect never intended), or
	// ErrStopped (an intent of a job that is being cancelled, or whose noted end
	// is a cancel or a deadline: nothing more is sent).
	Err error
}

// StillUnknownError says that an effect may not be sent again, or may not be called
// not applied, now: its outcome stays unknown until a look-up, a person, or the
// time Until (zero: time alone does not help).
type StillUnknownError struct {
	Name, Item string
	Until      time.Time
	Why        string
}

// Error says which effect, why, and from when that may change.
func (e *StillUnknownError) Error() string {
	name := e.Name
	if e.Item != "" {
		name += "/" + e.Item
	}
	until := ""
	if !e.Until.IsZero() {
		until = ", at least until " + clockTime(e.Until)
	}
	return fmt.Sprintf("nexjob: the outcome of effect %q is still unknown%s: %s", name, until, e.Why)
}
