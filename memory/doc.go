// Package memory keeps jobs in the process. It is the reference: where another
// engine and this one disagree, storagetest believes this one. It is for tests and
// for work that may be lost with the process.
//
// It stands on the root package, on onewriter, which holds the steps, and on rules.
// It knows nothing of workers. Start reading at Store, then at rows.
package memory
