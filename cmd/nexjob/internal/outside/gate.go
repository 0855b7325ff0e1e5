package outside

import "context"

// Service is one of the services.
type Service string

// The services.
const (
	PaymentService Service = "payment"
	MailService    Service = "mail"
	WebhookService Service = "webhook"
)

// Moment is a dangerous point of a call: its caller may die there.
type Moment uint8

// The moments.
const (
	BeforeApply Moment = iota + 1 // the service has the request and has done nothing
	AfterApply                    // it is done and the caller does not know it
)

// String says the moment in words.
func (m Moment) String() string {
	if m == AfterApply {
		return "after it was applied, before it was answered"
	}
	return "before it was applied"
}

// Call is one request to a service, and whose it is.
type Call struct {
	Service Service
	Item    string // what it is about: the order's number, the customer's address, the event
	Caller  string // what the request says of its sender, in HeaderCaller
}

// HeaderCaller is the header by which a caller says who it is, of an HTTP request
// and of a mail alike. A real service would not know it; these pass it to the gate,
// decide nothing by it and keep it in no record.
const HeaderCaller = "Demo-Caller"

// Gate is passed by every call at both moments, the repeated ones too. It answers
// true when the caller died there: the service then neither goes on nor answers.
// It may hold a call for as long as it likes. The context ends when the caller's
// connection does: its process died, it hung up, or the service closed it. A frozen
// caller's connection stays.
//
// A call that is refused for its form or its key never comes to the gate, and one
// whose trouble comes before it is applied passes the first moment only.
type Gate func(ctx context.Context, at Moment, call Call) (died bool)
