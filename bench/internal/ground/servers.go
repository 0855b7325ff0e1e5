package ground

import (
	"context"
	"errors"

	"github.com/nexjob/nexjob/internal/testenv"
)

// StartPostgres starts a private server within a folder: commits reach the disk, and its
// own user must reach the folder. Checkpoints come when Fresh asks, so that none falls
// into the time of one side alone.
func StartPostgres(ctx context.Context, dir string) (*Postgres, error) {
	server, err := testenv.StartPostgres(ctx, testenv.PostgresOptions{
		Version: 15, Fsync: true, Dir: dir,
		Settings: map[string]string{
			"shared_buffers":     "1GB",
			"max_wal_size":       "8GB",
			"checkpoint_timeout": "30min",
		},
	})
	if err != nil {
		return nil, err
	}
	g, err := UsePostgres(ctx, server.URL("postgres"))
	if err != nil {
		return nil, errors.Join(err, server.Close()) //nolint:contextcheck // its end must not hang on the context
	}
	g.pid, g.close = server.PID(), server.Close
	return g, nil
}

// startRedis starts a private server whose writes reach the disk within a second.
func startRedis(ctx context.Context, dir string) (addr string, end func() error, err error) {
	server, err := testenv.StartRedis(ctx, testenv.RedisOptions{Dir: dir, AppendOnly: true})
	if err != nil {
		return "", nil, err
	}
	return server.Addr(), server.Close, nil
}
