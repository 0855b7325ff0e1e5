package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// direct runs statements on a connection of the driver without database/sql between,
// whose locks and copies cost as much as small statements do. It belongs to one
// goroutine. Statements are prepared at first use and kept.
type direct struct {
	sheet sheet
	conn  sqldriver.Conn
	ready map[string]*prepared
	named []sqldriver.NamedValue
}

// prepared is a statement, with room for a row: each that it returns stands there until
// the next one comes.
type prepared struct {
	statement
	row values
}

// statement is what the driver's statements can do.
type statement interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

func newDirect(conn sqldriver.Conn, statements sheet) *direct {
	return &direct{sheet: statements, conn: conn, ready: make(map[string]*prepared)}
}

// prepare returns a statement of the sheet.
func (d *direct) prepare(ctx context.Context, name string) (*prepared, error) {
	if p, ok := d.ready[name]; ok {
		return p, nil
	}
	p, err := d.parse(ctx, d.sheet[name])
	if err == nil {
		d.ready[name] = p
	}
	return p, err
}

func (d *direct) parse(ctx context.Context, text string) (*prepared, error) {
	conn, ok := d.conn.(sqldriver.ConnPrepareContext)
	if !ok {
		return nil, errOldDriver
	}
	s, err := conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if able, ok := s.(statement); ok {
		return &prepared{statement: able}, nil
	}
	return nil, errors.Join(errOldDriver, s.Close())
}

// bind turns arguments into the form that drivers take. The result lives until the
// next call.
func (d *direct) bind(args []any) ([]sqldriver.NamedValue, error) {
	d.named = d.named[:0]
	for i, arg := range args {
		switch n := arg.(type) {
		case int:
			arg = int64(n)
		case nil, int64, string, []byte:
		default:
			return nil, fmt.Errorf("argument %d is a %T", i+1, arg)
		}
		d.named = append(d.named, sqldriver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return d.named, nil
}

func (d *direct) exec(ctx context.Context, name string, args []any) (int64, error) {
	p, err := d.prepare(ctx, name)
	if err != nil {
		return 0, err
	}
	named, err := d.bind(args)
	if err != nil {
		return 0, err
	}
	result, err := p.ExecContext(ctx, named)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (d *direct) each(ctx context.Context, name string, take func(v values) error, args []any) error {
	p, err := d.prepare(ctx, name)
	if err != nil {
		return err
	}
	return d.read(ctx, p, take, args)
}

// once runs a statement that is not kept.
func (d *direct) once(ctx context.Context, text string, take func(v values) error, args []any) error {
	p, err := d.parse(ctx, text)
	if err != nil {
		return err
	}
	err = d.read(ctx, p, take, args)
	return errors.Join(err, p.Close())
}

func (d *direct) read(ctx context.Context, p *prepared, take func(v values) error, args []any) (err error) {
	named, err := d.bind(args)
	if err != nil {
		return err
	}
	rows, err := p.QueryContext(ctx, named)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := rows.Close(); err == nil {
			err = closeErr
		}
	}()
	if n := len(rows.Columns()); len(p.row) != n {
		p.row = make(values, n)
	}
	for {
		switch err := rows.Next(p.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := take(p.row); err != nil {
			return err
		}
	}
}

var errOldDriver = errors.New("the driver's statements take no context")

// close closes the statements and the connection, and with it the file.
func (d *direct) close() error {
	var errs []error
	for _, p := range d.ready {
		errs = append(errs, p.Close())
	}
	d.ready = nil
	return errors.Join(append(errs, d.conn.Close())...)
}
