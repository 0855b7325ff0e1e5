package nexjob

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"
)

// ID names a job or an operation. It is a UUIDv7 made by the client (RFC 9562),
// so that IDs sort by the time they were made and an enqueue whose answer was
// lost can be repeated under the same ID. The zero ID names nothing.
type ID uuid.UUID

// NewID returns a fresh UUIDv7. IDs made by one process increase.
func NewID() ID {
	return ID(uuid.Must(uuid.NewV7()))
}

// ParseID reads the 36 character form that String writes.
func ParseID(text string) (ID, error) {
	if len(text) != 36 {
		return ID{}, fmt.Errorf("nexjob: %q is not an ID: want 36 characters like %s", text, ID{})
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return ID{}, fmt.Errorf("nexjob: %q is not an ID: %w", text, err)
	}
	return ID(id), nil
}

// String returns the lower-case 36 character form.
func (id ID) String() string { return uuid.UUID(id).String() }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders IDs bytewise, which is the order in which they were made.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// MarshalText writes the form of String.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the form of String.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
