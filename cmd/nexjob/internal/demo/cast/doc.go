// Package cast is the processes that the demo starts: workers (Work), which are killed
// and frozen, and a second shop front (Front), which enqueues beside the demo's own
// goroutines. None outlives the process that started it.
//
// A worker runs the shop as a user would write it. What the demo needs besides stands
// around it, as props: before a request leaves, and after a transaction has committed,
// the worker tells the demo and waits for its word, so that it can be killed, frozen or
// looked at there. The package knows nothing of plans or audits. Start reading at Work,
// then at props.
package cast
