package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// runner is what statements run on: a reader's transaction, or a caller's.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// session runs the statements of the sheet by name.
type session struct {
	sheet  sheet
	on     runner
	direct *direct // the lane's own connection; nil: on
	places map[nexjob.ID]place
}

// exec runs a statement that returns no rows, and answers how many it changed.
func (s *session) exec(ctx context.Context, name string, args ...any) (int64, error) {
	if s.direct != nil {
		changed, err := s.direct.exec(ctx, name, args)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		return changed, nil
	}
	result, err := s.on.ExecContext(ctx, s.sheet[name], args...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	changed, err := result.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return changed, nil
}

// each calls take for every row of a statement.
func (s *session) each(ctx context.Context, name string, take func(v values) error, args ...any) error {
	var err error
	if s.direct != nil {
		err = s.direct.each(ctx, name, take, args)
	} else {
		err = s.query(ctx, s.sheet[name], take, args...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// query calls take for every row of a statement that was put together; see search.
func (s *session) query(ctx context.Context, text string, take func(v values) error, args ...any) error {
	if s.direct != nil {
		return s.direct.once(ctx, text, take, args)
	}
	rows, err := s.on.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, take)
}

func eachRow(rows *sql.Rows, take func(v values) error) error {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	scanned, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range scanned {
		into[i] = &scanned[i]
	}
	v := make(values, len(columns))
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i := range scanned {
			v[i] = scanned[i]
		}
		if err := take(v); err != nil {
			return err
		}
	}
	return rows.Err()
}

// values are the columns of one row, as the driver gave them. What is taken out of
// them may be kept.
type values []sqldriver.Value

func (v values) int64(i int) int64 {
	n, _ := v[i].(int64)
	return n
}

func (v values) int(i int) int   { return int(v.int64(i)) }
func (v values) bool(i int) bool { return v.int64(i) != 0 }

func (v values) bytes(i int) []byte {
	b, _ := v[i].([]byte)
	return b
}

func (v values) text(i int) string {
	if b, ok := v[i].([]byte); ok {
		return string(b)
	}
	t, _ := v[i].(string)
	return t
}

func (v values) time(i int) time.Time {
	n, ok := v[i].(int64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func (v values) duration(i int) time.Duration { return time.Duration(v.int64(i)) }

func (v values) id(i int) nexjob.ID {
	var id nexjob.ID
	copy(id[:], v.bytes(i))
	return id
}

func (v values) fingerprint(i int) nexjob.Fingerprint {
	var f nexjob.Fingerprint
	copy(f[:], v.bytes(i))
	return f
}

// empty reports whether a column holds no text.
func (v values) empty(i int) bool { return v[i] == nil || v[i] == "" }

// decode reads a JSON column, empty meaning nothing.
func (v values) decode(i int, into any) error {
	if v.empty(i) {
		return nil
	}
	return json.Unmarshal([]byte(v.text(i)), into)
}

// micros is how a time is stored: NULL for none.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// flag is how a truth is stored.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// blob is how bytes are stored: NULL for none.
func blob(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// text is how text is stored that may be none: NULL for none.
func text(t string) any {
	if t == "" {
		return nil
	}
	return t
}

// hexIDs lists IDs for a statement.
func hexIDs(ids []nexjob.ID) string {
	text := make([]byte, 0, len(ids)*(2*len(nexjob.ID{})+3)+2)
	for i := range ids {
		text = appendHex(text, ids[i][:])
	}
	return listed(text)
}

// hexKeys lists keys for a statement.
func hexKeys(keys []string) string {
	size := 2
	for _, key := range keys {
		size += 2*len(key) + 3
	}
	text := make([]byte, 0, size)
	for _, key := range keys {
		text = appendHex(text, []byte(key))
	}
	return listed(text)
}

// appendHex adds an item to a list that listed completes: each comes with a comma before
// it, the first of which becomes the bracket.
func appendHex(list, item []byte) []byte {
	list = append(list, ',', '"')
	list = hex.AppendEncode(list, item)
	return append(list, '"')
}

func listed(list []byte) string {
	if len(list) == 0 {
		return "[]"
	}
	list[0] = '['
	return string(append(list, ']'))
}

// jsonText is how what a column holds as JSON is stored.
func jsonText(of any) (string, error) {
	text, err := json.Marshal(of)
	return string(text), err
}

// names lists names for a statement.
func names(names []string) (string, error) {
	if len(names) == 0 {
		return "[]", nil
	}
	return jsonText(names)
}
