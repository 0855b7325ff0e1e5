package postgres

import "time"

// Hurry makes a store's listener look after its connection sooner than usual.
func Hurry(s *Store, check, answer time.Duration) {
	s.hears.pace.check, s.hears.pace.answer = check, answer
}

// HurryPool makes a store wait for connections of its pool for less long than usual.
func HurryPool(s *Store, wait time.Duration) { s.acquireFor = wait }

// HurryClaims makes a store bound claims that are less dear than usual.
func HurryClaims(s *Store, dear time.Duration) { s.lookback.horizons.dear = dear }
