// Package demo is a small shop that shows the promises of nexjob on real input: it
// charges orders at a payment provider over HTTP and writes their invoices, while
// its workers are killed in the middle of it, and then counts what was done from
// the records of those to whom it was done.
//
// Three parties are kept apart. The payment provider (Provider) knows nothing of
// jobs: it behaves like a real one, and the record it keeps is what the audit
// believes. The workers are processes of their own (Work), which really die. The
// rest runs in the process that the user started: it enqueues, kills, looks on
// (witness) and audits.
//
// The package stands on the library's public packages alone, as a user's program
// does, so that nothing in it can succeed by knowing more than a user could. It
// must not be imported by any other command. Start reading at Run, then at shop
// (the code that a user would write), then at audit.
package demo
