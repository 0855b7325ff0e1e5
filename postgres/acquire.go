package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// acquireFor is how long a step waits for a connection of the pool. Handlers that hold all
// of them and ask for one more would otherwise wait for each other.
const acquireFor = 10 * time.Second

// acquireError says that a step got no connection, so that nothing of it happened.
type acquireError struct{ err error }

func (e *acquireError) Error() string { return e.err.Error() }
func (e *acquireError) Unwrap() error { return e.err }

// SafeToRetry is asked by pgx: nothing was sent.
func (e *acquireError) SafeToRetry() bool { return true }

// acquire takes a connection of the pool.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	short, cancel := context.WithTimeout(ctx, s.acquireFor)
	defer cancel()
	conn, err := s.pool.Acquire(short)
	if err == nil {
		return conn, nil
	}
	switch {
	case short.Err() == nil:
	case ctx.Err() == nil:
		err = fmt.Errorf("no connection came within %s: %s", s.acquireFor, s.shortage())
	default: // a worker's own limits are shorter than ours
		err = fmt.Errorf("%w: no connection came until then: %s", err, s.shortage())
	}
	return nil, &acquireError{s.orClosed(err)}
}

// shortage says why the pool has given no connection.
func (s *Store) shortage() string {
	stat := s.pool.Stat()
	if stat.AcquiredConns() < stat.MaxConns() {
		return "the server does not answer"
	}
	return fmt.Sprintf("all %d of the pool's are taken; transactions that handlers hold count too, so give it more with "+
		"pool_max_conns", stat.MaxConns())
}
