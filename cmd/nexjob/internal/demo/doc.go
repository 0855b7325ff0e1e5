// Package demo is a small shop that shows the promises of nexjob on real input: it
// charges orders at a payment provider, writes their invoices, mails their customers and
// tells another system by webhook, while its worker processes are killed and frozen in
// the middle of it, and then counts what was done from the records of those to whom it
// was done.
//
// It has five rooms, each of which knows no more than it must. Package orders reads the
// input. Package shop is the code that a user would write, and does not know that it is
// in a demo. Package cast is the processes that run it. Package harm kills and freezes
// them. Package audit judges. The services (package outside) know nothing of jobs: they
// behave like real ones, and the records they keep are what the audit believes. They run
// in the process that the user started, and so outlive every kill.
//
// This package puts them together: it enqueues, looks on (witness) and gathers the
// evidence. It stands on the library's public packages alone, as a user's program does,
// so that nothing in it can succeed by knowing more than a user could. It must not be
// imported by any other command. Start reading at Run, then at shop.Shop.Charge, then at
// audit.Evidence.
package demo
