package postgres

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// waits lets enqueues wait for keys that somebody's open transaction holds, for as long as
// their callers do, without holding the pool's connections meanwhile: they try for a short
// while, give the connection back, and try again later. Only a few try at a time, so that
// those who wait never keep the others from working, however many they are.
type waits struct {
	store *Store
	turns chan struct{}
}

// The time that a try waits for a lock grows, so that a batch with many contended keys
// comes through, and so does the pause between tries, which bounds how long after the
// key's release the caller gets its answer.
const (
	longestTry   = 200 * time.Millisecond
	longestPause = 200 * time.Millisecond
)

// newWaits lets a quarter of the pool's connections be waited on.
func newWaits(s *Store) *waits {
	return &waits{store: s, turns: make(chan struct{}, max(1, s.pool.Config().MaxConns/4))}
}

// until tries until nobody holds what is needed. held says that somebody does, so that the
// first try is in turn already.
func (w *waits) until(
	ctx context.Context, now time.Time, held bool, try func(now time.Time, wait time.Duration) ([]nexjob.Answer, error),
) ([]nexjob.Answer, error) {
	waited := onewriter.StartWait(onewriter.HostClock(w.store.clock))
	if !held {
		answers, err := try(now, patience)
		if codeOf(err) != codeLocked {
			return answers, err
		}
	}
	for wait, rest := patience, 10*time.Millisecond; ; wait, rest = min(2*wait, longestTry), min(2*rest, longestPause) {
		if err := w.turn(ctx); err != nil {
			return nil, err
		}
		answers, err := try(waited.Add(now), wait)
		<-w.turns
		if codeOf(err) != codeLocked {
			return answers, err
		}
		pause(ctx, rest/2+rand.N(rest/2)) //nolint:gosec // spreads those who wait for one key
	}
}

// turn waits until it is the caller's turn to try.
func (w *waits) turn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case w.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.store.life.Done():
		return nexjob.ErrClosed
	}
}
