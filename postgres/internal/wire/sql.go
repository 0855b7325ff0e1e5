package wire

import (
	"context"
	"database/sql"
	"encoding/hex"
	"strconv"
	"strings"
)

// Queryer is a transaction of database/sql.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// SQL runs statements in a transaction of database/sql, on whichever driver.
type SQL struct{ Tx Queryer }

// Run runs a statement. How many rows it changed is not told: those that it gave are.
func (q SQL) Run(ctx context.Context, s Statement, take func(Row) error, args ...Arg) (int64, error) {
	values := make([]any, len(args))
	for i := range args {
		if args[i].literal != nil {
			values[i] = args[i].literal()
		}
	}
	rows, err := q.Tx.QueryContext(ctx, s.Text, values...)
	if err != nil {
		return 0, named(s, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, named(s, err)
	}
	row := &sqlRow{values: make([]any, len(columns))}
	into := make([]any, len(columns))
	for i := range into {
		into[i] = &row.values[i]
	}
	n := int64(0)
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, named(s, err)
		}
		n++
		if take == nil {
			continue
		}
		if err := take(row); err != nil {
			return n, named(s, err)
		}
	}
	return n, named(s, rows.Err())
}

// sqlRow is a row as a driver gave it.
type sqlRow struct{ values []any }

// Null tells a column that is NULL.
func (r *sqlRow) Null(i int) bool { return r.values[i] == nil }

// Int64 reads a number.
func (r *sqlRow) Int64(i int) int64 {
	switch v := r.values[i].(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case bool:
		if v {
			return 1
		}
	case string, []byte:
		text := r.Text(i)
		if text == "t" || text == "true" {
			return 1
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// Text reads a text.
func (r *sqlRow) Text(i int) string {
	switch v := r.values[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// Same reads a text that is most often the one before.
func (r *sqlRow) Same(i int, _ string) string { return r.Text(i) }

// Bytes reads a copy of a bytea.
func (r *sqlRow) Bytes(i int) []byte {
	switch v := r.values[i].(type) {
	case []byte: // the caller's, since it was scanned into any
		return v
	case string:
		return []byte(v)
	}
	return nil
}

// Copy reads the bytes of a column into a place.
func (r *sqlRow) Copy(i int, into []byte) { copy(into, r.Bytes(i)) }

// UUID reads a uuid.
func (r *sqlRow) UUID(i int) (id [16]byte) {
	switch v := r.values[i].(type) {
	case [16]byte:
		return v
	case []byte:
		if len(v) == len(id) {
			return [16]byte(v)
		}
	}
	if b, err := hex.DecodeString(strings.ReplaceAll(r.Text(i), "-", "")); err == nil {
		copy(id[:], b)
	}
	return id
}
