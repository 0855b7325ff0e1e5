// Package sqlite keeps jobs in a SQLite file: the engine for a program that wants
// its jobs beside its data, with nothing to install. Several processes may use one
// file. A job is durable when its enqueue returns: commits reach the disk before
// answers go out.
//
// One goroutine, the lane, owns the connection that writes. It gathers the calls
// that wait into one transaction, so that sixteen callers share one flush of the
// disk, and a call that fails is done again alone, so that it harms no other. It runs
// its statements on the driver's connection, without database/sql, and remembers what
// it wrote for as long as SQLite says that nobody else has written. Readers have
// connections of their own beside it and never write.
//
// A program whose own tables live in the same file writes them and its jobs in one
// transaction: see InTx and Tx.
//
// The package stands on the root package, on internal/onewriter, which holds the
// steps, on internal/rules, and on modernc.org/sqlite. It must not know workers.
// The SQL is data: statements.sql and migrations/; docs/adr/0006 and 0007 say why the
// tables are as they are. Start reading at Store, then at lane, then at rows.
package sqlite
