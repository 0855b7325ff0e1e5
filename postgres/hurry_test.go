package postgres

import "time"

// Hurry makes a store's listener look after its connection sooner than usual.
func Hurry(s *Store, check, answer time.Duration) {
	s.hears.pace.check, s.hears.pace.answer = check, answer
}
