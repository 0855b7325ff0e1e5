package outside

import "context"

// Moment is a dangerous point of a call: its caller may die there.
type Moment uint8

// The moments.
const (
	BeforeApply Moment = iota + 1 // the service has the request and has done nothing
	AfterApply                    // it is done and the caller does not know it
)

// String says the moment as progress lines do.
func (m Moment) String() string {
	if m == AfterApply {
		return "after the provider applied it, before it answered"
	}
	return "before the provider applied it"
}

// Call is one request to a service, and whose it is.
type Call struct {
	OrderID int64
	Caller  string // what the request says of its sender, in HeaderCaller
}

// HeaderCaller is the header by which a caller says who it is. A real service would
// not know it; these pass it to the gate and decide nothing by it.
const HeaderCaller = "Demo-Caller"

// Gate is passed by every call at both moments, the repeated ones too. It answers
// true when the caller died there: the service then neither goes on nor answers.
// The context ends when the caller's connection does.
type Gate func(ctx context.Context, at Moment, call Call) (died bool)

func open(context.Context, Moment, Call) bool { return false }
