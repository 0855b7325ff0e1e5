package cast

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nexjob/nexjob"
)

// patience is how long a server may be away.
const patience = 30 * time.Second

// Patiently does something again while the trouble may pass by itself, as long as a
// server may be away. What it does must be harmless when it is done twice.
func Patiently(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := do()
		if err == nil || !passes(err) {
			return err
		}
		pause := time.NewTimer(patience / 300)
		select {
		case <-ctx.Done():
			pause.Stop()
			return err
		case <-pause.C:
		}
	}
}

// passes reports whether trouble may pass by itself. The library marks its own; what the
// shop asks of its own tables meets the server that is away by itself.
func passes(err error) bool {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		return nexjob.IsTransient(err) || strings.HasPrefix(said.Code, "08") || strings.HasPrefix(said.Code, "57P")
	}
	_, ofNetwork := errors.AsType[net.Error](err)
	return nexjob.IsTransient(err) || ofNetwork || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
