package cast

import (
	"context"
	"time"

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
		if err == nil || !nexjob.IsTransient(err) {
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
