package nexjob

import (
	"context"
	"errors"
	"sync"
	"time"
)

// StorageTime reckons the storage's time: the newest reading of its Clock plus the
// monotonic time since. A host with a wrong clock therefore steals no leases.
type StorageTime struct {
	storage interface {
		Clock(ctx context.Context) (time.Time, error)
	}

	mu      sync.Mutex
	reading time.Time // the storage's clock
	at      time.Time // our monotonic clock at that reading
}

// readAgainAfter bounds the drift between two clocks.
const readAgainAfter = 10 * time.Second

// NewStorageTime returns a reckoner that has not read the clock yet.
func NewStorageTime(storage Storage) *StorageTime { return &StorageTime{storage: storage} }

// Now returns the storage's time. It reads the clock at first use and when the
// newest reading is older than 10 s.
func (s *StorageTime) Now(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	reading, at := s.reading, s.at
	s.mu.Unlock()
	if !at.IsZero() {
		if since := time.Since(at); since < readAgainAfter {
			return reading.Add(since), nil
		}
	}
	return s.Read(ctx)
}

// Read reads the storage's clock and returns its time. The reading is dated to the
// middle of the call.
func (s *StorageTime) Read(ctx context.Context) (time.Time, error) {
	before := time.Now()
	reading, err := s.storage.Clock(ctx)
	if err != nil {
		return time.Time{}, err
	}
	took := time.Since(before)
	at := before.Add(took / 2)
	s.mu.Lock()
	s.reading, s.at = reading, at
	s.mu.Unlock()
	return reading.Add(time.Since(at)), nil
}

// Do calls step with the storage's time, and once more after reading the clock
// again when the storage answers ErrClock.
func (s *StorageTime) Do(ctx context.Context, step func(now time.Time) error) error {
	now, err := s.Now(ctx)
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
