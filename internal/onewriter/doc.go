// Package onewriter holds the steps of the storage contract for one writer at a time.
// Memory and SQLite have no other; on PostgreSQL, where many write, a transaction locks
// what it loads, and among locked rows it is alone. A Unit is one write transaction: it
// loads the records that a step is about, lets package rules decide, keeps what
// changed, and writes it at Flush, so a step costs a few reads and writes however
// many items it has.
//
// It stands on the root package and package rules. It must not know how an engine locks,
// stores or commits: an engine lends it Rows for the length of one transaction in which
// nobody else writes what it was lent. Start reading at Rows, then Unit, then Enqueue.
package onewriter
