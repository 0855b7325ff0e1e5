// Package nexjobtest tests handlers. Run calls one handler once, as a worker would,
// and answers what became of the job.
//
// The store is in memory, so it refuses Run.CompleteIn with another engine's
// transaction: a handler that ends its job together with rows of its own is tested
// with a worker on a store of that engine, as in the examples of package sqlite.
//
// It stands on the worker and on the memory engine, and must not know any other
// engine. Start reading at Run.
package nexjobtest
