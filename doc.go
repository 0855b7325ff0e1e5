// Package nexjob is background jobs for Go that are safe to run more than once.
//
// A program enqueues jobs and works them; jobs survive crashes, retries,
// duplicate requests and redeploys without doing their work twice. This package
// is the ground that everything else stands on: the words, the contract between
// the client, the worker and the storage engines, and the client itself.
//
// The words: a job is one unit of work of a named, typed Kind with its args. A
// client enqueues it, perhaps under an idempotency key, and the key's duplicate
// policy decides what happens to the next job with the same key. A worker claims
// due jobs, each under a lease with a fence, renews the leases, and settles every
// attempt with all its consequences at once. What a job does outside the database
// is an effect of its operation; an effect that may or may not have happened
// makes the job Uncertain until a look-up or a person gives a verdict.
//
// The package stands on the standard library and a UUID library, and must not
// know any engine, worker or driver. Start reading at Job, then at Storage (the
// contract), then at Client.
package nexjob
