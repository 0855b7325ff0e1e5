// Package record says how what a storage holds looks from outside: jobs, keys, tallies
// and the answers to an enqueue and to an action, as JSON for programs and as tables for
// people. It stands on the root package and on view, and knows no storage and no flags.
// The JSON names are those of the API. Start at Job.
package record
