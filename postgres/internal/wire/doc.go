// Package wire runs statements on PostgreSQL in one form for two kinds of transactions:
// on a connection of pgx, where lists travel as binary arrays and results come as the
// bytes that the server sent, and on a transaction of database/sql, where lists are
// array literals in text and the driver is whichever the user has.
//
// It stands on pgx's connection and on database/sql, and must not know what a statement
// means. Start reading at Runner.
package wire
