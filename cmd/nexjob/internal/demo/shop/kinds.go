package shop

import (
	"fmt"
	"strconv"
	"time"

	"github.com/nexjob/nexjob"
)

// Order is what a customer has ordered.
type Order struct {
	ID       int64  `json:"order_id"`
	Customer string `json:"customer"` // an e-mail address
	Cents    int64  `json:"cents"`
	Currency string `json:"currency"`
}

// Welcome is the mail that a customer gets once, with the first order.
type Welcome struct {
	Customer string `json:"customer"`
}

// Event is something that another system is told of.
type Event struct {
	Name    string `json:"event"`
	OrderID int64  `json:"order_id"`
}

// The kinds. They try again soon, for the services are next door, and often, for these
// services answer with errors on purpose.
var (
	ChargeOrder    = nexjob.KindOf[Order]("charge-order", patient())
	SendWelcome    = nexjob.KindOf[Welcome]("send-welcome", patient())
	DeliverWebhook = nexjob.KindOf[Event]("deliver-webhook", patient())
)

func patient() nexjob.Defaults {
	return nexjob.Defaults{
		MaxAttempts: 50,
		Retry:       nexjob.Retry{Initial: 200 * time.Millisecond, Multiplier: 2, Max: 2 * time.Second},
	}
}

// PaymentKey is the idempotency key of an order's payment.
func PaymentKey(order int64) string { return "payment-" + strconv.FormatInt(order, 10) }

// WelcomeKey is the idempotency key of a customer's welcome mail.
func WelcomeKey(customer string) string { return "welcome-" + customer }

// WebhookKey is the idempotency key of an event's delivery.
func WebhookKey(event string) string { return "webhook-" + event }

// PaidEvent is the name of the event that an order is paid.
func PaidEvent(order int64) string { return fmt.Sprintf("order-%d-paid", order) }

// Charge is the job that charges the order. While it is active, every repeat of its key
// is answered with it. After its success the policy allows another, which is a new
// operation, so the handler looks whether the order is paid. An order that comes again
// with another amount is a mistake of the caller, and StrictArgs says so.
func (o Order) Charge() nexjob.NewJob {
	return ChargeOrder.New(o, nexjob.Options{
		IdempotencyKey:  PaymentKey(o.ID),
		DuplicatePolicy: nexjob.AllowAfterFailed,
		StrictArgs:      true,
	})
}

// Welcome is the job that welcomes the order's customer. Every order of the customer
// asks for it, and RejectAlways answers all but the first with that one job, also after
// its end: nobody is welcomed twice because a mail could not be delivered the first time.
func (o Order) Welcome() nexjob.NewJob {
	return SendWelcome.New(Welcome{Customer: o.Customer}, nexjob.Options{
		IdempotencyKey:  WelcomeKey(o.Customer),
		DuplicatePolicy: nexjob.RejectAlways,
	})
}

// Paid is the job that tells another system that the order is paid.
func (o Order) Paid() nexjob.NewJob {
	event := Event{Name: PaidEvent(o.ID), OrderID: o.ID}
	return DeliverWebhook.New(event, nexjob.Options{
		IdempotencyKey:  WebhookKey(event.Name),
		DuplicatePolicy: nexjob.AllowAfterFailed,
	})
}

// Arrival returns the jobs that an order leads to when it arrives: its charge, and the
// mail to its customer, which waits for nothing. The webhook is not among them. It would
// tell what is not true yet; the charge enqueues it in the transaction that makes it
// true, so that there is never one without the other.
func (o Order) Arrival() []nexjob.NewJob {
	return []nexjob.NewJob{o.Charge(), o.Welcome()}
}
