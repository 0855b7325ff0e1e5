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
	if short.Err() != nil && ctx.Err() == nil {
		stat := s.pool.Stat()
		err = fmt.Errorf("no connection came free within %s: %d of the pool's %d are taken; transactions that handlers hold "+
			"count too, so give it more with pool_max_conns", s.acquireFor, stat.AcquiredConns(), stat.MaxConns())
	}
	return nil, &acquireError{s.orClosed(err)}
}
