package nexjob

import (
	"context"
	"errors"
	"sync"
	"time"
)

// StorageTime reckons the storage's time: the newest reading of its Clock plus the
// monotonic time since. A host with a wrong clock therefore steals no leases. It is
// safe for concurrent use.
type StorageTime struct {
	storage clock

	mu      sync.Mutex
	reading time.Time // the storage's clock
	at      time.Time // our monotonic clock at that reading
	busy    bool      // someone reads the clock again
}

// clock is what a StorageTime asks of a storage.
type clock interface {
	Clock(ctx context.Context) (time.Time, error)
}

// A reading is renewed after readAgainAfter, which bounds the drift between two
// clocks. While one caller reads, the others may go on with the old reading until
// neverOlder: the clock is read once, not by everybody at the same moment.
const (
	readAgainAfter = 10 * time.Second
	neverOlder     = 3 * readAgainAfter
)

// NewStorageTime returns a reckoner that has not read the clock yet.
func NewStorageTime(storage Storage) *StorageTime { return &StorageTime{storage: storage} }

// Now returns the storage's time. It reads the clock at first use and when the
// newest reading is older than 10 s.
func (s *StorageTime) Now(ctx context.Context) (time.Time, error) { return s.now(ctx, s.storage) }

func (s *StorageTime) now(ctx context.Context, from clock) (time.Time, error) {
	s.mu.Lock()
	since := time.Since(s.at)
	fresh := since < readAgainAfter || s.busy && since < neverOlder
	if now := s.reading.Add(since); fresh && !s.at.IsZero() {
		s.mu.Unlock()
		return now, nil
	}
	s.busy = true
	s.mu.Unlock()
	return s.read(ctx, from)
}

// Read reads the storage's clock and returns its time. The reading is dated to the
// middle of the call.
func (s *StorageTime) Read(ctx context.Context) (time.Time, error) { return s.read(ctx, s.storage) }

func (s *StorageTime) read(ctx context.Context, from clock) (time.Time, error) {
	before := time.Now()
	reading, err := from.Clock(ctx)
	at := before.Add(time.Since(before) / 2)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if err != nil {
		return time.Time{}, err
	}
	s.reading, s.at = reading, at
	return reading.Add(time.Since(at)), nil
}

// Do calls step with the storage's time, and once more after reading the clock
// again when the storage answers ErrClock.
func (s *StorageTime) Do(ctx context.Context, step func(now time.Time) error) error {
	return s.do(ctx, s.storage, step)
}

// do is Do for a step on a part of the storage, which is asked for the time if it tells it:
// a caller's transaction holds a connection, and must not wait for another.
func (s *StorageTime) do(ctx context.Context, on any, step func(now time.Time) error) error {
	from, ok := on.(clock)
	if !ok {
		from = s.storage
	}
	now, err := s.now(ctx, from)
	if err != nil {
		return err
	}
	err = step(now)
	if !errors.Is(err, ErrClock) {
		return err
	}
	if now, err = s.Read(ctx); err != nil {
		return err
	}
	return step(now)
}
