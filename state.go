package nexjob

import "fmt"

// State says where a job stands in its life. The numbers are stored by engines
// and never change their meaning.
type State uint8

// The nine states. Scheduled is never stored: it is the name of an Enqueued job
// whose due time lies ahead, and it is computed wherever a state is reported.
const (
	Enqueued             State = iota + 1 // may be claimed
	Processing                            // under a lease
	AwaitingContinuation                  // waits for its parents
	Uncertain                             // an outside effect may or may not have happened
	Succeeded                             // terminal
	Failed                                // terminal: a dead letter
	Expired                               // terminal: its deadline passed before it ran
	Cancelled                             // terminal
	Scheduled                             // an Enqueued job with a due time ahead
)

// stateNames is indexed by State; the zero State has no name.
func stateNames() [Scheduled + 1]string {
	return [...]string{
		"", "Enqueued", "Processing", "AwaitingContinuation", "Uncertain",
		"Succeeded", "Failed", "Expired", "Cancelled", "Scheduled",
	}
}

// States returns all nine states: the active ones first, then the terminal ones.
func States() []State {
	return []State{
		Enqueued, Scheduled, Processing, AwaitingContinuation, Uncertain,
		Succeeded, Failed, Expired, Cancelled,
	}
}

// String returns the state's name as API, CLI and dashboard write it.
func (s State) String() string {
	names := stateNames()
	if s == 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return names[s]
}

// ParseState reads the form that String writes.
func ParseState(name string) (State, error) {
	return parseWord("a state", name, States())
}

// Active reports whether a job in this state holds its idempotency key.
func (s State) Active() bool {
	return s >= Enqueued && s <= Uncertain || s == Scheduled
}

// Terminal reports whether a job in this state has ended. A terminal state is
// never overwritten, except by a requeue under the key rule.
func (s State) Terminal() bool {
	return s >= Succeeded && s <= Cancelled
}

// MarshalText writes the form of String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form of String.
func (s *State) UnmarshalText(text []byte) error { return readWord(s, text, ParseState) }

// Priority orders the jobs of one queue: smaller numbers go first.
type Priority uint8

// The four priorities. The zero Priority means Normal.
const (
	Critical Priority = iota + 1
	High
	Normal
	Low
)

// Priorities returns the four priorities, most urgent first.
func Priorities() []Priority { return []Priority{Critical, High, Normal, Low} }

// String returns the priority's name.
func (p Priority) String() string {
	switch p {
	case Critical:
		return "Critical"
	case High:
		return "High"
	case Normal:
		return "Normal"
	case Low:
		return "Low"
	}
	return fmt.Sprintf("Priority(%d)", uint8(p))
}

// ParsePriority reads the form that String writes.
func ParsePriority(name string) (Priority, error) {
	return parseWord("a priority", name, Priorities())
}

// MarshalText writes the form of String.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads the form of String.
func (p *Priority) UnmarshalText(text []byte) error { return readWord(p, text, ParsePriority) }
