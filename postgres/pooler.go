package postgres

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var errNoStatements = errors.New("the connection seems to lead through a pooler that lends sessions per transaction and " +
	"keeps no prepared statements, such as pgbouncer with pool_mode=transaction: add default_query_exec_mode=exec to the URL, " +
	"or set DefaultQueryExecMode of the pool's connections to pgx.QueryExecModeExec")

// probes is how often it is tried to catch a pooler at lending a session to another. One
// that nobody else uses is caught the first time.
const probes = 5

// keepsStatements refuses connections that are told to prepare statements, as they are by
// default, and lead through a pooler that forgets them.
func keepsStatements(ctx context.Context, pool *pgxpool.Pool) error {
	if pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	pooled, err := throughPooler(ctx, conn.Conn().PgConn())
	if err != nil || !pooled {
		return err
	}
	config, err := configOf(ctx, pool)
	if err != nil {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, config) // not of the pool, which may have but one
	if err != nil {
		return err
	}
	defer func() { _ = other.Close(context.WithoutCancel(ctx)) }()
	for range probes {
		if err := forgets(ctx, conn.Conn().PgConn(), other.PgConn()); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx)) // it prepared what may be gone
			if errors.Is(err, errUndecided) {
				return nil
			}
			return err
		}
	}
	return nil
}

// errUndecided is the answer where the pooler has no second session to give.
var errUndecided = errors.New("the pooler lets us wait")

// throughPooler reports whether somebody stands between us and the server: the number of
// the session's process is not the one that we were told when we connected.
func throughPooler(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	pid, err := sessionOf(ctx, conn)
	return pid != strconv.FormatUint(uint64(conn.PID()), 10), err
}

func sessionOf(ctx context.Context, conn *pgconn.PgConn) (string, error) {
	results, err := conn.Exec(ctx, "SELECT pg_backend_pid()").ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// probe is what is prepared to see whether it stays. Where it stays behind in a session of
// the pooler's, the next who prepares it there is told so, which answers the same question.
const probe = "nexjob probe"

// forgets prepares a statement on one connection, takes the session from under it by a
// transaction on another, and runs the statement.
func forgets(ctx context.Context, one, other *pgconn.PgConn) error {
	judge := func(err error) error {
		var e *pgconn.PgError
		if errors.As(err, &e) && (e.Code == codeNoStatement || e.Code == codeStatementTwice) {
			return errNoStatements
		}
		return err
	}
	_, err := one.Prepare(ctx, probe, "SELECT 1", nil)
	if err != nil {
		return judge(err)
	}
	if _, err := other.Exec(ctx, "BEGIN; SELECT 1").ReadAll(); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second) // a pooler that has one session alone lets us wait
	defer cancel()
	err = one.ExecPrepared(short, probe, nil, nil, nil).Read().Err
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		err = errUndecided
	}
	if _, rollbackErr := other.Exec(ctx, "ROLLBACK").ReadAll(); err == nil {
		err = rollbackErr
	}
	if err == nil {
		err = one.Deallocate(ctx, probe)
	}
	return judge(err)
}
