// Package houserules holds the repository to its own rules, as tests: the floor
// plan, the size of files and packages, the modules a user's program must load,
// the index of decision records. It has no code to call; it stands on nothing
// and is imported by nobody. Start at plan_test.go, which is the floor plan.
//
// A rule that a change has to break is changed here, in the same commit, with
// the reason beside it.
package houserules
