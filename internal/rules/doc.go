// Package rules decides: given the records that one item of a step is about, what
// becomes of them. Every function is pure but for the record it is handed; time is
// an argument and chance is derived from the record, so two engines that ask the
// same question get the same answer.
//
// It stands on the root package alone and must not know how records are stored,
// locked or found. Start reading at Judge, then Settle.
package rules
