package nexjob

import "time"

// Entry is a small versioned document: a worker's presence, a pause, a setting.
type Entry struct {
	Kind      string
	Name      string
	Version   int64 // 1 at its first write, then one more at each
	Value     []byte
	ExpiresAt time.Time // zero: never; an expired entry does not exist
	UpdatedAt time.Time // set by the engine
}

// Put writes an entry if it stands at the expected version: compare and swap.
type Put struct {
	Entry  Entry // Version is ignored
	If     int64 // the version it must have; 0: it must not exist
	Always bool  // write whatever stands
	Delete bool  // remove it instead
}

// PutAnswer answers one Put.
type PutAnswer struct {
	Done    bool
	Version int64 // that stands now; 0: there is none
	Err     error // *InvalidError
}
