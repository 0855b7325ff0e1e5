package nexjob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// Decision is one answer about a duplicate: what an enqueue met that created
// nothing new.
type Decision struct {
	At         time.Time       `json:"at"`
	Kind       string          `json:"kind"` // of the enqueue
	Policy     DuplicatePolicy `json:"policy"`
	Outcome    Outcome         `json:"outcome"` // Existing, Replaced, Rejected or Mismatched
	Job        ID              `json:"job"`     // that held the key
	State      State           `json:"state,omitempty"`
	ArgsDiffer bool            `json:"args_differ,omitempty"`
}

// DecisionCount counts the decisions of one outcome about enqueues of one kind.
type DecisionCount struct {
	Kind    string  `json:"kind"` // "" sums up the kinds beyond the first few
	Outcome Outcome `json:"outcome"`
	Count   int64   `json:"count"`
}

// KeyDecisions are the decisions about one key by all processes, as far as they
// were written down: a crash may lose the last second.
type KeyDecisions struct {
	Counts []DecisionCount `json:"counts,omitempty"`
	Last   []Decision      `json:"last,omitempty"` // the newest, newest first
}

// Bounds of what is kept of the decisions about one key.
const (
	keptDecisions = 20                  // of Last
	keptCounts    = 40                  // of Counts: a key is seldom used by two kinds
	decisionLife  = 30 * 24 * time.Hour // of an entry, from its newest decision
)

// add counts a decision and puts it first.
func (k *KeyDecisions) add(d Decision) {
	k.count(DecisionCount{Kind: d.Kind, Outcome: d.Outcome, Count: 1})
	k.Last = slices.Insert(k.Last, 0, d)
	k.cut()
}

// merge adds what another process wrote down.
func (k *KeyDecisions) merge(other KeyDecisions) {
	for _, n := range other.Counts {
		k.count(n)
	}
	k.Last = append(k.Last, other.Last...)
	slices.SortStableFunc(k.Last, func(a, b Decision) int { return b.At.Compare(a.At) })
	k.cut()
}

func (k *KeyDecisions) count(more DecisionCount) {
	same := func(n DecisionCount) bool { return n.Kind == more.Kind && n.Outcome == more.Outcome }
	i := slices.IndexFunc(k.Counts, same)
	if i < 0 && len(k.Counts) >= keptCounts {
		more.Kind = ""
		i = slices.IndexFunc(k.Counts, same)
	}
	if i < 0 {
		k.Counts = append(k.Counts, more)
		slices.SortFunc(k.Counts, func(a, b DecisionCount) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Outcome, b.Outcome))
		})
		return
	}
	k.Counts[i].Count += more.Count
}

func (k *KeyDecisions) cut() {
	if len(k.Last) > keptDecisions {
		k.Last = k.Last[:keptDecisions]
	}
}

// decisionValue is the value of an entry.
type decisionValue struct {
	Key string `json:"key"`
	KeyDecisions
}

// decisionKind is the kind of the entries about one key. Each key has a kind of its
// own, so that explaining a key reads its few entries and not those of all keys; the
// key is hashed, since it may be longer than a name and hold any character.
func decisionKind(key string) string {
	hash := sha256.Sum256([]byte(key))
	return "decisions/" + hex.EncodeToString(hash[:20])
}

// readDecisions sums up the entries about a key, and in place of this process's own
// entry what it knows and may not have written yet.
func (l *decisionLog) readDecisions(ctx context.Context, now time.Time, key string) (KeyDecisions, error) {
	entries, err := l.store.Entries(ctx, now, decisionKind(key))
	if err != nil {
		return KeyDecisions{}, err
	}
	own, sum := l.own(key)
	for i := range entries {
		var value decisionValue
		if err := json.Unmarshal(entries[i].Value, &value); err != nil {
			continue // written by a newer version: better explain the rest than nothing
		}
		if value.Key == key && entries[i].Name != own {
			sum.merge(value.KeyDecisions)
		}
	}
	return sum, nil
}
