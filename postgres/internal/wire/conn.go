package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conn runs statements on a connection of pgx. It prepares them, unless the connection
// is told not to, as one behind a pooler is.
type Conn struct {
	conn    *pgx.Conn
	prepare bool
}

// NewConn wraps a connection, which the caller holds.
func NewConn(conn *pgx.Conn) Conn {
	mode := conn.Config().DefaultQueryExecMode
	return Conn{conn, mode == pgx.QueryExecModeCacheStatement}
}

// binaryResults asks for every column in binary.
func binaryResults() []int16 { return []int16{1} }

func formats(args []Arg) (values [][]byte, formats []int16) {
	values = make([][]byte, len(args))
	for i := range args {
		values[i] = args[i].binary
	}
	return values, binaryResults()
}

// watched lets a context that ends interrupt a call as pgx would, by a deadline in the
// past, after which the connection is of no use; but without the goroutine that pgx starts
// for each call under a context that may end.
func (c Conn) watched(ctx context.Context) (unwatched context.Context, done func(error) error) {
	if ctx.Done() == nil {
		return ctx, func(err error) error { return err }
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.PgConn().Conn().SetDeadline(time.Unix(1, 0)) })
	return context.WithoutCancel(ctx), func(err error) error {
		if stop() {
			return err
		}
		_ = c.conn.Close(context.WithoutCancel(ctx)) // its deadline may be set only now
		if err != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return err
	}
}

// Run runs a statement.
func (c Conn) Run(ctx context.Context, s Statement, take func(Row) error, args ...Arg) (_ int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, named(s, err)
	}
	ctx, done := c.watched(ctx)
	defer func() { err = done(err) }()
	values, binary := formats(args)
	var r *pgconn.ResultReader
	if c.prepare && s.Name != "" {
		d, err := c.conn.Prepare(ctx, s.Name, s.Text)
		if err != nil {
			return 0, named(s, err)
		}
		room := makeRoom(c.conn.PgConn(), args)
		defer func() { room(err) }()
		r = c.conn.PgConn().ExecStatement(ctx, d, values, binary, binaryResults())
	} else {
		r = c.conn.PgConn().ExecParams(ctx, s.Text, values, nil, binary, binaryResults())
	}
	n, err := read(r, take)
	return n, named(s, err)
}

// RunAll sends all calls at once, which is one round trip. Outside of a transaction they
// are one by themselves: with an error nothing of it happened.
func (c Conn) RunAll(ctx context.Context, calls []Call) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, done := c.watched(ctx)
	defer func() { err = done(err) }()
	batch := new(pgconn.Batch)
	for i := range calls {
		values, binary := formats(calls[i].Args)
		if !c.prepare || calls[i].Statement.Name == "" {
			batch.ExecParams(calls[i].Statement.Text, values, nil, binary, binaryResults())
			continue
		}
		d, err := c.conn.Prepare(ctx, calls[i].Statement.Name, calls[i].Statement.Text)
		if err != nil {
			return named(calls[i].Statement, err)
		}
		batch.ExecStatement(d, values, binary, binaryResults())
	}
	results := c.conn.PgConn().ExecBatch(ctx, batch)
	for i := range calls {
		if !results.NextResult() {
			return named(calls[i].Statement, errors.Join(results.Close(), errCut))
		}
		if _, err := read(results.ResultReader(), calls[i].Take); err != nil {
			_ = results.Close()
			return named(calls[i].Statement, err)
		}
	}
	return results.Close()
}

var errCut = errors.New("the server answered fewer results than were asked for")

func read(r *pgconn.ResultReader, take func(Row) error) (int64, error) {
	row := new(connRow)
	var err error
	for r.NextRow() {
		if take == nil || err != nil {
			continue
		}
		row.values = r.Values()
		err = take(row)
	}
	tag, closeErr := r.Close()
	if closeErr != nil {
		err = closeErr
	}
	return tag.RowsAffected(), err
}

func named(s Statement, err error) error {
	if err == nil || s.Name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

// connRow is a row as the server sent it.
type connRow struct{ values [][]byte }

// Null tells a column that is NULL.
func (r *connRow) Null(i int) bool { return r.values[i] == nil }

// Int64 reads a number.
func (r *connRow) Int64(i int) int64 { return number(r.values[i]) }

// Text reads a text.
func (r *connRow) Text(i int) string { return string(r.values[i]) }

// Bytes reads a copy of a bytea.
func (r *connRow) Bytes(i int) []byte { return bytes.Clone(r.values[i]) }

// Copy reads the bytes of a column into a place.
func (r *connRow) Copy(i int, into []byte) { copy(into, r.values[i]) }

// Same reads a text that is most often the one before.
func (r *connRow) Same(i int, before string) string {
	if string(r.values[i]) == before { // compared without a copy
		return before
	}
	return string(r.values[i])
}

// UUID reads a uuid.
func (r *connRow) UUID(i int) (id [16]byte) {
	copy(id[:], r.values[i])
	return id
}
