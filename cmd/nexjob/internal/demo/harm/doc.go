// Package harm is what the demo does to its worker processes: it plans who is killed or
// frozen and when, carries it out at the moments where a repeat would do harm, and makes
// the writes that a dead worker would still make had it only slept.
//
// Nothing here is simulated: a kill is SIGKILL, a freeze SIGSTOP for longer than the
// lease. A moment is met in the process that is to die: it waits there, for the demo's
// word or for a service's answer, until it is dead or frozen, so that no luck is needed
// to hit it. The package knows the processes and the storage contract, and nothing of
// what the shop's jobs mean. Start reading at Draw, then at Hand.Meet.
package harm
