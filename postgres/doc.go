// Package postgres keeps jobs in a PostgreSQL database, version 14 or later: the engine
// for many workers on many machines, and for a program whose own tables live there.
//
// Four steps are hot and are one statement each, a function of the schema: to enqueue
// jobs whose keys nobody has, to lease due jobs, to renew leases, and to end attempts that
// succeeded. Single enqueues of many callers share a statement; see lane. Every other step
// is a transaction that first locks all it is about, in one order, keys, jobs by ID,
// entries, and then lets package internal/onewriter decide: among rows that are locked
// there is one writer. A caller's own transaction is joined with Tx or SQLTx; see InTx.
//
// Nothing of a session is kept between steps, so a pooler may stand between. Processes wake
// each other by notifications, sent apart from commits and heard on one connection beside
// the pool; see notifier and listener. Polls alone keep everything correct.
//
// The package stands on the root package, on internal/onewriter, which holds the steps,
// on internal/rules and internal/sqlstore, and on pgx. It must not know workers. The SQL
// is data: statements.sql and migrations/; docs/adr says why the tables are as they are.
// Start reading at Store, then at Store.Enqueue, then at step and rows.
package postgres
