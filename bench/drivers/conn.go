package main

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	_ "github.com/ncruces/go-sqlite3/driver" // as "sqlite3"
	modernc "modernc.org/sqlite"             // as "sqlite"
	"zombiezen.com/go/sqlite"
)

// conn is one connection, which keeps the statements that it has prepared.
type conn interface {
	// exec runs a statement to its end.
	exec(ctx context.Context, statement string, args ...any) error
	// numbers runs a statement and returns its only column.
	numbers(ctx context.Context, statement string, args ...any) ([]int64, error)
	close() error
}

type driver struct {
	name string
	open func(ctx context.Context, file string) (conn, error)
}

func drivers() []driver {
	return []driver{
		{"modernc.org/sqlite", flushing(false, standard("sqlite"))},
		{"the same with fdatasync", flushing(true, standard("sqlite"))},
		{"ncruces/go-sqlite3", standard("sqlite3")}, // always with fdatasync
		{"zombiezen.com/go/sqlite", flushing(false, openDirect)},
	}
}

// flushing chooses the system call that makes modernc's commits durable, for the whole
// process: fsync, its default, also waits until the file's timestamps are durable.
func flushing(fdatasync bool, open func(context.Context, string) (conn, error)) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, file string) (conn, error) {
		if _, err := modernc.Fdatasync(fdatasync); err != nil && fdatasync {
			return nil, err
		}
		return open(ctx, file)
	}
}

// pooled is a connection of database/sql.
type pooled struct {
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
}

func standard(name string) func(context.Context, string) (conn, error) {
	return func(ctx context.Context, file string) (conn, error) {
		db, err := sql.Open(name, "file:"+filepath.ToSlash(file))
		if err != nil {
			return nil, err
		}
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &pooled{db, c, make(map[string]*sql.Stmt)}, nil
	}
}

func (p *pooled) prepared(ctx context.Context, statement string) (*sql.Stmt, error) {
	if s, ok := p.statements[statement]; ok {
		return s, nil
	}
	s, err := p.conn.PrepareContext(ctx, statement)
	if err == nil {
		p.statements[statement] = s
	}
	return s, err
}

func (p *pooled) exec(ctx context.Context, statement string, args ...any) error {
	s, err := p.prepared(ctx, statement) //nolint:sqlclosecheck // it is kept until close
	if err == nil {
		_, err = s.ExecContext(ctx, args...)
	}
	return err
}

func (p *pooled) numbers(ctx context.Context, statement string, args ...any) ([]int64, error) {
	s, err := p.prepared(ctx, statement) //nolint:sqlclosecheck // it is kept until close
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		n := int64(0)
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

func (p *pooled) close() error {
	var errs []error
	for _, s := range p.statements {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, p.conn.Close(), p.db.Close())...)
}

// direct is zombiezen's own interface, without database/sql, on modernc's translation
// of SQLite. It is no driver for a library whose users hand in a *sql.Tx, and is
// measured to see what database/sql costs.
type direct struct{ conn *sqlite.Conn }

func openDirect(_ context.Context, file string) (conn, error) {
	c, err := sqlite.OpenConn(file, sqlite.OpenReadWrite|sqlite.OpenCreate)
	return direct{c}, err
}

func (d direct) exec(ctx context.Context, statement string, args ...any) error {
	_, err := d.numbers(ctx, statement, args...)
	return err
}

func (d direct) numbers(_ context.Context, statement string, args ...any) ([]int64, error) {
	s, err := d.conn.Prepare(statement)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case int64:
			s.BindInt64(i+1, arg)
		case string:
			s.BindText(i+1, arg)
		case []byte:
			s.BindBytes(i+1, arg)
		default:
			return nil, errors.ErrUnsupported
		}
	}
	var list []int64
	for {
		more, err := s.Step()
		if err != nil || !more {
			return list, errors.Join(err, s.Reset())
		}
		list = append(list, s.ColumnInt64(0))
	}
}

func (d direct) close() error { return d.conn.Close() }
