package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nexjob/nexjob"
)

// The codes of PostgreSQL that the engine acts on; appendix A of its manual lists them.
const (
	codeSerialization  = "40001"
	codeDeadlock       = "40P01"
	codeLocked         = "55P03"
	codeNoStatement    = "26000"
	codeStatementTwice = "42P05"
	codePlanChanged    = "0A000"
	codeReadOnly       = "25006"
	codeNoTable        = "42P01"
	codeNoFunction     = "42883"
	codeNoSchema       = "3F000"
	codeAborted        = "25P02"
	codeNoParameter    = "42P02"
	codeClock          = "NJ001" // ours, as the next; see the migrations
	codeLeft           = "NJ002"
)

// codeOf returns PostgreSQL's code of an error, "" when it has none. Drivers of
// database/sql tell it by a method.
func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	var told interface{ SQLState() string }
	if errors.As(err, &told) {
		return told.SQLState()
	}
	return ""
}

// passes reports whether trouble may pass by itself: the server is away, busy, starting,
// stopping or read-only for now, or this step lost a race.
func passes(err error) bool {
	code := codeOf(err)
	switch code {
	case "":
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && fromDriver(err)
	case codeSerialization, codeDeadlock, codeLocked, codeReadOnly, codeNoStatement, codeStatementTwice, codePlanChanged:
		return true
	}
	switch code[:2] {
	case "08", "53", "57", "58", "XX": // connection, resources, operator and time-outs, system, internal
		return true
	}
	return false
}

// lastingError is a mistake that this package has found, which no waiting mends.
type lastingError struct{ error }

func (e lastingError) Unwrap() error { return e.error }

func lasting(text string, args ...any) error { return lastingError{fmt.Errorf(text, args...)} }

// fromDriver reports whether an error without a code came from the connection.
func fromDriver(err error) bool {
	var invalid *nexjob.InvalidError
	var unreadable *pgconn.ParseConfigError
	var found lastingError
	return !errors.As(err, &invalid) && !errors.As(err, &found) && !errors.As(err, &unreadable) &&
		!errors.Is(err, nexjob.ErrClosed) && !errors.Is(err, nexjob.ErrClock) &&
		!errors.Is(err, nexjob.ErrUnsupported) && !errors.Is(err, nexjob.ErrInTransaction) &&
		!errors.Is(err, pgx.ErrTxClosed) && !errors.Is(err, errNoStatements)
}

// unknown reports whether a statement that was sent may have been done although it
// failed: the connection broke before the answer, or the server was stopped.
func unknown(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) {
		return false
	}
	if code := codeOf(err); code != "" {
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P")
	}
	return true
}

// again reports whether a step that failed as a whole is simply done again: it was the
// victim of a dead-lock, or a connection's plans had become old.
func again(err error) bool {
	switch codeOf(err) {
	case codeDeadlock, codeNoStatement, codeStatementTwice, codePlanChanged:
		return true
	}
	return errors.Is(err, errRaced)
}

// wrap says which step of this package failed, and marks trouble that may pass.
func wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	switch code := codeOf(err); {
	case code == codeClock:
		err = fmt.Errorf("%w: %w", nexjob.ErrClock, err)
	case errors.Is(err, errForeign): // a code is of the other database
	case code == codeNoTable || code == codeNoFunction || code == codeNoSchema:
		err = fmt.Errorf("%w; bring the schema up to date with Migrate, or with nexjob migrate", err)
	case code == codeNoStatement || code == codeStatementTwice:
		err = &nexjob.TransientError{Err: fmt.Errorf("%w; if it happens again, %w", err, errNoStatements)}
	case passes(err):
		err = &nexjob.TransientError{Err: err}
	}
	return fmt.Errorf("postgres: %s: %w", verb, err)
}
