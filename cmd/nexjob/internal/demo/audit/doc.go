// Package audit judges a run of the demo by the records of those to whom it was done:
// the payment provider's charges, the mailbox's mails, the receiver's deliveries, the
// shop's rows. What our own storage says is held against them, never believed instead.
//
// It reads evidence and does nothing else. Start reading at Evidence.Audit; what it
// answers is Report.
package audit
