// Package worker claims due jobs from a storage, runs their handlers, and settles
// every attempt with all its consequences.
//
// A Worker holds a lease for each job that it runs and renews it; a handler whose
// lease is lost is told so through its context, and whatever it writes afterwards
// is refused by the storage's fence. What a handler returns decides how its
// attempt ends: see Permanent, RetryAfter and Snooze. Inside a handler, Run names
// the job; Step keeps what was computed; Effect reaches outside the database
// without ever guessing whether it did; Run.CompleteIn ends the job within the
// caller's own transaction.
//
// The package stands on the root package and the standard library, and must not
// know any engine: it meets one through nexjob.Storage alone. All its goroutines
// are started by Worker.Run, each in one file: the claimer takes jobs, for free slots and
// ahead into the stock, the renewer keeps their leases, the settler writes how they ended,
// the upkeep recovers what other workers left and removes what is old, the scout looks ahead
// for due times where the storage does not forecast, and the crew runs each handler in a
// goroutine, which it keeps for the next one. They meet at the board, which knows every
// attempt and its phase.
//
// Start reading at Worker.Run, then at board, then at attempt.
package worker
