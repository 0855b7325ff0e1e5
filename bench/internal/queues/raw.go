package queues

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nexjob/nexjob"
)

// raw is no queue. It writes the rows that a keyed job has in nexjob's tables, with
// their indexes, but no row of the key: prepared rows, several in a statement, in one
// transaction for each batch. That is the most that the schema allows.
type raw struct {
	db     *sql.DB
	tables []*template
	seq    int64
	rows   int // of each statement
}

// template is the row of an example job in one table.
type template struct {
	table   string
	columns []string
	values  []any
	many    *sql.Stmt // inserts raw.rows rows
}

// RawRows is how many rows a statement of raw writes: from 50 to 200 it makes no
// difference, with 10 it has half the rate, and with 1 a third.
const RawRows = 50

// change stands for a value that differs from row to row.
type change uint8

const (
	newSeq change = iota + 1
	newID
	newKey
)

// OpenRaw opens raw on a file.
func OpenRaw(ctx context.Context, at Place) (Queue, error) {
	return openRawOf(ctx, at, RawRows)
}

// OpenRawSingle opens raw on a file; its statements write one row each.
func OpenRawSingle(ctx context.Context, at Place) (Queue, error) {
	return openRawOf(ctx, at, 1)
}

// openRawOf enqueues one job to see what its rows are.
func openRawOf(ctx context.Context, at Place, rows int) (Queue, error) {
	q, err := OpenSQLite(ctx, at)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(q.Add(ctx, Order{Number: 1_000_000, Cents: 1999}), q.Close()); err != nil {
		return nil, err
	}
	r := &raw{rows: rows}
	if r.db, err = pool(at); err != nil {
		return nil, err
	}
	if err := r.learn(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// learn finds the rows of the job, in all tables but those of keys and of the
// storage itself.
func (r *raw) learn(ctx context.Context) error {
	var id, key []byte
	err := r.db.QueryRowContext(ctx, "SELECT seq, id, key FROM nexjob_jobs").Scan(&r.seq, &id, &key)
	if err != nil {
		return err
	}
	tables, err := column(ctx, r.db, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'nexjob%'
		AND name NOT IN ('nexjob_keys', 'nexjob_meta', 'nexjob_migrations', 'nexjob_entries')`)
	if err != nil {
		return err
	}
	for _, table := range tables {
		t := &template{table: table}
		if err := t.read(ctx, r.db); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		if len(t.values) == 0 {
			continue
		}
		for i, value := range t.values {
			bytes, _ := value.([]byte)
			switch {
			case t.columns[i] == "seq":
				t.values[i] = newSeq
			case string(bytes) == string(id):
				t.values[i] = newID
			case string(bytes) == string(key):
				t.values[i] = newKey
			}
		}
		if t.many, err = r.db.PrepareContext(ctx, t.insert(r.rows)); err != nil {
			return err
		}
		r.tables = append(r.tables, t)
	}
	return nil
}

// read keeps what differs from the defaults of a table's only row.
func (t *template) read(ctx context.Context, db *sql.DB) error {
	columns, err := column(ctx, db, `SELECT name FROM pragma_table_info(?)`, t.table)
	if err != nil {
		return err
	}
	for _, name := range columns {
		var value any
		var plain bool
		err := db.QueryRowContext(ctx, fmt.Sprintf(
			`SELECT t.%[1]s, t.%[1]s IS NULL OR quote(t.%[1]s) IS i.dflt_value
			FROM %[2]s t, pragma_table_info('%[2]s') i WHERE i.name = '%[1]s'`, name, t.table)).Scan(&value, &plain)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // no row at all
		}
		if err != nil {
			return err
		}
		if !plain {
			t.columns, t.values = append(t.columns, name), append(t.values, value)
		}
	}
	return nil
}

func (t *template) insert(rows int) string {
	row := "(?" + strings.Repeat(", ?", len(t.columns)-1) + ")"
	return "INSERT INTO " + t.table + " (" + strings.Join(t.columns, ", ") + ") VALUES " +
		row + strings.Repeat(", "+row, rows-1)
}

// AddMany writes the rows of a batch, a multiple of RawRows.
func (r *raw) AddMany(ctx context.Context, list []Order) error {
	if len(list)%r.rows != 0 {
		return fmt.Errorf("a batch of %d is no multiple of %d", len(list), r.rows)
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for part := range slices.Chunk(list, r.rows) {
		ids := make([]nexjob.ID, len(part))
		for i := range ids {
			ids[i] = nexjob.NewID()
		}
		for _, t := range r.tables {
			statement := tx.StmtContext(ctx, t.many) //nolint:sqlclosecheck // it is closed with the transaction
			if _, err := statement.ExecContext(ctx, t.fill(r.seq, ids, part)...); err != nil {
				return err
			}
		}
		r.seq += int64(len(part))
	}
	return tx.Commit()
}

// fill are the values of the rows after seq.
func (t *template) fill(seq int64, ids []nexjob.ID, part []Order) []any {
	values := make([]any, 0, len(part)*len(t.values))
	for i := range part {
		for _, value := range t.values {
			switch value {
			case newSeq:
				value = seq + int64(i) + 1
			case newID:
				value = ids[i][:]
			case newKey:
				value = strconv.AppendInt([]byte("payment-"), part[i].Number, 10)
			}
			values = append(values, value)
		}
	}
	return values
}

// Add is not there: raw is for batches.
func (r *raw) Add(context.Context, Order) error { return errors.ErrUnsupported }

// Work is not there.
func (r *raw) Work(context.Context, int, Handler) (func() error, error) {
	return nil, errors.ErrUnsupported
}

// Left is not there.
func (r *raw) Left(context.Context) (int, error) { return 0, errors.ErrUnsupported }

// Close closes the file.
func (r *raw) Close() error { return r.db.Close() }

// column reads a result of one text column.
func column(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		text := ""
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}
