package nexjob

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Fingerprint is the SHA-256 of the canonical form of a job's args or of an
// effect's request: equal meaning, equal fingerprint.
type Fingerprint [sha256.Size]byte

// FingerprintOf hashes bytes as they are. For JSON use CanonicalFingerprint.
func FingerprintOf(data []byte) Fingerprint { return sha256.Sum256(data) }

// String returns the fingerprint in hexadecimal.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// IsZero reports whether nothing was fingerprinted.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// MarshalText writes the form of String.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads the form of String.
func (f *Fingerprint) UnmarshalText(text []byte) error {
	var parsed Fingerprint
	if len(text) != hex.EncodedLen(len(parsed)) {
		return fmt.Errorf("nexjob: %d characters are not a fingerprint: want %d hexadecimal digits",
			len(text), hex.EncodedLen(len(parsed)))
	}
	if _, err := hex.Decode(parsed[:], text); err != nil {
		return fmt.Errorf("nexjob: %q is not a fingerprint: %w", text, err)
	}
	*f = parsed
	return nil
}

// OutsideKey derives the idempotency key that an effect sends to the outside
// service. It is equal on every attempt, requeue and continuing re-enqueue of an
// operation, differs between operations, effects, items and after each refusal,
// and holds no data of the job: 43 characters of [a-z0-9-].
func OutsideKey(operation ID, name, item string, refusals int) string {
	h := sha256.New()
	for _, part := range []string{operation.String(), name, item, strconv.Itoa(refusals)} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "nj-" + hex.EncodeToString(h.Sum(nil)[:20])
}
