// Package nexjobtest tests handlers. Run calls one handler once, as a worker would,
// and answers what became of the job.
//
// It stands on the worker and on the memory engine, and must not know any other
// engine. Start reading at Run.
package nexjobtest
