package outside

import (
	"context"
	"time"
)

// Fault is what goes wrong with a call through no fault of the caller's.
type Fault uint8

// The faults. HTTP services answer them with the status named; the mailbox answers
// 451 for every fault that has an answer. A dropped reply may never reach who called:
// net/http repeats a request with an Idempotency-Key by itself when a connection
// breaks that served another before.
const (
	None             Fault = iota
	DropReply              // it is applied, and the connection closed without an answer
	ServerError            // 500, and it is not applied
	ServerErrorAfter       // it is applied, and answered with 500 all the same
	TooMany                // 429 with Retry-After in seconds, and it is not applied
	InProgress             // 409 as if an earlier request under the key were still worked; not applied
)

// String says the fault in words.
func (f Fault) String() string {
	switch f {
	case DropReply:
		return "applied, then the connection dropped"
	case ServerError:
		return "a server error before it was applied"
	case ServerErrorAfter:
		return "applied, then a server error"
	case TooMany:
		return "too many requests"
	case InProgress:
		return "an earlier request is in progress"
	default:
		return "none"
	}
}

// prevents reports whether the fault comes before the call is applied.
func (f Fault) prevents() bool {
	return f == ServerError || f == TooMany || f == InProgress
}

// Trouble draws the fault of a call, once for each, repeats included.
type Trouble func(call Call) Fault

// Conditions are what a service works under. Any may be nil: nobody stands at the
// gate, there is no trouble, nothing takes time. All are called from many
// goroutines at once.
type Conditions struct {
	Gate    Gate
	Trouble Trouble
	Think   func() time.Duration // how long the service takes to apply a call
}

// filled returns the conditions with nothing nil.
func (c Conditions) filled() Conditions {
	if c.Gate == nil {
		c.Gate = func(context.Context, Moment, Call) bool { return false }
	}
	if c.Trouble == nil {
		c.Trouble = func(Call) Fault { return None }
	}
	if c.Think == nil {
		c.Think = func() time.Duration { return 0 }
	}
	return c
}

// pass takes a call through its moments and its trouble; every service's calls come
// this way. Either apply is called or abandon, and then the service answers as the
// fault says. A caller that died gets what a dropped reply is: no answer.
func (c *Conditions) pass(ctx context.Context, call Call, apply, abandon func()) Fault {
	fault := c.Trouble(call)
	if c.Gate(ctx, BeforeApply, call) {
		abandon()
		return DropReply
	}
	if fault.prevents() {
		abandon()
		return fault
	}
	// It is applied whether or not the caller still listens, so the wait does not
	// end with the connection.
	<-time.After(c.Think())
	apply()
	if c.Gate(ctx, AfterApply, call) {
		return DropReply
	}
	return fault
}
