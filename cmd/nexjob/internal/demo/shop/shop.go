package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/worker"
)

// remembered is how long the payment provider and the receiver of webhooks know an
// idempotency key, by their word.
const remembered = 24 * time.Hour

// Shop handles the jobs of the shop.
type Shop struct {
	Jobs  *nexjob.Client
	Books Books // the shop's tables, beside the jobs
	Cash  *Cashier
	Post  *Postbox
	Hooks *Courier
}

// Charge charges the order once and writes its invoice once, whatever dies in between.
//
// The provider is asked under the same key on every attempt. The invoice, the order to
// tell the world of it, and the end of this job are one commit: there is none without
// the others, and an attempt that has lost its lease commits none of them.
func (s *Shop) Charge(ctx context.Context, run *worker.Run, o Order) error {
	if paid, err := s.paid(ctx, o.ID); err != nil || paid {
		return err // a repeat that was enqueued after success is a new operation
	}
	payment, err := worker.Effect[outside.Payment]{
		Name:          "charge",
		RepeatableFor: remembered,
		Send: func(ctx context.Context, key string) (outside.Payment, error) {
			return s.Cash.Charge(ctx, key, o)
		},
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return s.Books.InTx(ctx, func(tx Tx) error {
		if err := bill(ctx, tx, run, o, payment.ID); err != nil {
			return err
		}
		if _, err := s.Jobs.In(tx.Jobs()).Enqueue(ctx, o.Paid()); err != nil {
			return err
		}
		return run.CompleteIn(ctx, tx.Jobs())
	})
}

// Welcome sends the customer the one welcome mail.
//
// A mail server takes the same mail twice and delivers it twice. So whoever does not
// know what became of an earlier send asks the mailbox for the Message-ID, which is made
// from the effect's key and therefore the same on every attempt.
func (s *Shop) Welcome(ctx context.Context, run *worker.Run, w Welcome) error {
	_, err := worker.Effect[worker.None]{
		Name:        "welcome",
		LookupAfter: time.Second, // the mailbox shows a mail at once
		Send: worker.NoResult(func(ctx context.Context, key string) error {
			return s.Post.Send(ctx, messageID(key), w.Customer, "Welcome", "We are glad that you are here.")
		}),
		Lookup: func(ctx context.Context, key string) (worker.None, nexjob.Verdict, error) {
			verdict, err := s.Post.Find(ctx, messageID(key))
			return worker.None{}, verdict, err
		},
	}.Do(ctx, run)
	return err
}

// Webhook delivers the event once. The receiver knows a repeat by its key; that it is
// delivered is noted in the commit that ends the job, for a duplicate that comes after
// success is a new operation, whose key the receiver would not know.
func (s *Shop) Webhook(ctx context.Context, run *worker.Run, e Event) error {
	if delivered, err := s.delivered(ctx, e.Name); err != nil || delivered {
		return err
	}
	_, err := worker.Effect[worker.None]{
		Name:          "webhook",
		RepeatableFor: remembered,
		Send: worker.NoResult(func(ctx context.Context, key string) error {
			return s.Hooks.Deliver(ctx, key, e)
		}),
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return s.Books.InTx(ctx, func(tx Tx) error {
		if err := noteDelivery(ctx, tx, run, e.Name); err != nil {
			return err
		}
		return run.CompleteIn(ctx, tx.Jobs())
	})
}

// messageID is the Message-ID of the mail that is sent under an effect's key, as it
// stands in the header (RFC 5322, 3.6.4).
func messageID(key string) string { return fmt.Sprintf("<%s@shop.example>", key) }
