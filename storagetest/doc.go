// Package storagetest is the conformance suite of storage engines: an engine that
// passes it keeps the contract of nexjob.Storage. Whoever writes an engine fills
// in a Harness and calls three functions from a test file of about fifteen lines:
//
//	func TestStorage(t *testing.T)      { storagetest.Run(t, harness) }
//	func TestCompare(t *testing.T)      { storagetest.Compare(t, reference, harness, 0) }
//	func TestLinearizable(t *testing.T) { storagetest.Linearizable(t, harness, 0) }
//
// Run checks the contract case by case, one file per role. Compare plays random
// histories on two engines and demands equal answers. Linearizable lets several
// clients race over few keys and looks for one order of their calls that explains
// all answers. An engine whose storage can be opened by several processes offers
// Harness.Second, for which Serve and Child speak a small protocol over a pipe.
//
// What is right is taken from nexjob.PolicyTable and from the written rules, never
// from an engine: the suite stands on the root package and on test libraries, and
// must not know any engine nor the decisions that engines share, or one fault
// could hide in both. Start reading at Harness, then at bench.go, which holds the
// words that the checks are written in.
package storagetest
