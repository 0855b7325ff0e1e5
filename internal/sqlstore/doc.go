// Package sqlstore holds what the SQL engines share in Go: reading an engine's sheet of
// statements, and reading the steps of its schema. SQL is data and belongs to each
// engine, in its own dialect; this package never runs any.
//
// It stands on the standard library alone and must not know an engine, a driver or a
// job. Start reading at ParseSheet.
package sqlstore
