package outside

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"
)

// ledger is the record of a service that honours idempotency keys: what it did, and
// the answer it gave under each key. A real service keeps its keys for a day or
// more and then forgets them; this one lives shorter than that.
type ledger[T any] struct {
	mu       sync.Mutex
	keys     map[string]*keyed
	done     []T
	replayed int
}

// keyed is what is remembered of an idempotency key.
type keyed struct {
	request [sha256.Size]byte
	worked  bool   // until it is answered
	answer  []byte // of the request that was applied
}

// refusal is an answer that changed nothing.
type refusal struct {
	status int
	why    string
}

func newLedger[T any]() ledger[T] { return ledger[T]{keys: make(map[string]*keyed)} }

// begin looks the key up, and marks a new one as being worked. known is the key's
// entry if this is a repeat of a request that was applied.
func (l *ledger[T]) begin(key string, request [sha256.Size]byte) (known *keyed, refused *refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, ok := l.keys[key]
	switch {
	case !ok:
		l.keys[key] = &keyed{request: request, worked: true}
		return nil, nil
	case entry.request != request:
		return nil, &refusal{http.StatusUnprocessableEntity, "this Idempotency-Key was used for another request"}
	case entry.worked:
		return nil, &refusal{http.StatusConflict, inProgress}
	}
	return entry, nil
}

const inProgress = "a request with this Idempotency-Key is still being worked"

// abandon frees a key whose request was not applied, as a service does that rolled
// back.
func (l *ledger[T]) abandon(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.keys, key)
}

// finish applies the request under key: record and stored answer change together.
// do is told how many were applied before, and when this one is.
func (l *ledger[T]) finish(key string, do func(before int, at time.Time) (T, []byte)) (answer []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	applied, answer := do(len(l.done), time.Now().UTC())
	l.done = append(l.done, applied)
	entry := l.keys[key]
	entry.worked, entry.answer = false, answer
	return answer
}

// replay counts a repeat that was recognised.
func (l *ledger[T]) replay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replayed++
}

// list returns what was applied, oldest first.
func (l *ledger[T]) list() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.done)
}

// replays returns how many repeats were recognised.
func (l *ledger[T]) replays() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replayed
}
