package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// tables hold all records. Their methods are called by the holder of the writer's
// token alone. Every change leaves how to undo it, so that a step or a caller's
// transaction can be rolled back.
type tables struct {
	jobs     map[nexjob.ID]nexjob.Job
	order    sorted[nexjob.ID]                // all job IDs
	due      map[lane]*sorted[moment]         // claimable jobs
	leased   sorted[moment]                   // Processing jobs by the end of their lease
	children map[nexjob.ID]map[nexjob.ID]bool // of a parent: those that still wait for it
	holders  map[nexjob.ID]int                // jobs per operation
	keys     map[string]nexjob.KeyRow
	keyHolds map[nexjob.ID]int // key rows per operation
	receipts map[nexjob.ID]map[string]nexjob.Receipt
	entries  map[entryName]nexjob.Entry
	fence    int64
	pulse    rules.Pulse

	undo []func()
}

// lane is what a claim reads in order: one priority of one queue.
type lane struct {
	queue    string
	priority nexjob.Priority
}

// moment orders jobs by a time, then by ID.
type moment struct {
	at time.Time
	id nexjob.ID
}

type entryName struct{ kind, name string }

func byMoment(a, b moment) int {
	return cmp.Or(a.at.Compare(b.at), a.id.Compare(b.id))
}

func newTables() *tables {
	return &tables{
		jobs:     make(map[nexjob.ID]nexjob.Job),
		order:    sorted[nexjob.ID]{compare: nexjob.ID.Compare},
		due:      make(map[lane]*sorted[moment]),
		leased:   sorted[moment]{compare: byMoment},
		children: make(map[nexjob.ID]map[nexjob.ID]bool),
		holders:  make(map[nexjob.ID]int),
		keys:     make(map[string]nexjob.KeyRow),
		keyHolds: make(map[nexjob.ID]int),
		receipts: make(map[nexjob.ID]map[string]nexjob.Receipt),
		entries:  make(map[entryName]nexjob.Entry),
	}
}

func (t *tables) commit() { t.undo = nil }

func (t *tables) rollback() {
	for _, f := range slices.Backward(t.undo) {
		f()
	}
	t.undo = nil
}

// setJob replaces the record of a job, nil removing it, with all that is derived
// from it.
func (t *tables) setJob(id nexjob.ID, next *nexjob.Job) {
	was, existed := t.jobs[id]
	t.undo = append(t.undo, func() {
		if existed {
			t.replaceJob(id, &was)
		} else {
			t.replaceJob(id, nil)
		}
	})
	t.replaceJob(id, next)
}

func (t *tables) replaceJob(id nexjob.ID, next *nexjob.Job) {
	if was, existed := t.jobs[id]; existed {
		t.unlink(&was)
		if next == nil {
			t.order.remove(id)
		}
	} else if next != nil {
		t.order.add(id)
	}
	if next == nil {
		delete(t.jobs, id)
		return
	}
	t.jobs[id] = *next
	t.link(next)
}

func (t *tables) link(j *nexjob.Job) {
	t.holders[j.Operation]++
	switch j.State {
	case nexjob.Enqueued, nexjob.Uncertain:
		if !j.DueAt.IsZero() {
			l := lane{j.Queue, j.Priority}
			if t.due[l] == nil {
				t.due[l] = &sorted[moment]{compare: byMoment}
			}
			t.due[l].add(moment{j.DueAt, j.ID})
		}
	case nexjob.Processing:
		t.leased.add(moment{j.LeaseUntil, j.ID})
	case nexjob.AwaitingContinuation:
		for _, p := range j.Parents {
			if !p.Decided {
				if t.children[p.ID] == nil {
					t.children[p.ID] = make(map[nexjob.ID]bool)
				}
				t.children[p.ID][j.ID] = true
			}
		}
	case nexjob.Succeeded, nexjob.Failed, nexjob.Expired, nexjob.Cancelled, nexjob.Scheduled:
	}
}

func (t *tables) unlink(j *nexjob.Job) {
	release(t.holders, j.Operation)
	switch j.State {
	case nexjob.Enqueued, nexjob.Uncertain:
		if l := t.due[lane{j.Queue, j.Priority}]; l != nil {
			l.remove(moment{j.DueAt, j.ID})
		}
	case nexjob.Processing:
		t.leased.remove(moment{j.LeaseUntil, j.ID})
	case nexjob.AwaitingContinuation:
		for _, p := range j.Parents {
			delete(t.children[p.ID], j.ID)
			if len(t.children[p.ID]) == 0 {
				delete(t.children, p.ID)
			}
		}
	case nexjob.Succeeded, nexjob.Failed, nexjob.Expired, nexjob.Cancelled, nexjob.Scheduled:
	}
}

func release(counts map[nexjob.ID]int, operation nexjob.ID) {
	if counts[operation]--; counts[operation] <= 0 {
		delete(counts, operation)
	}
}

// setKey replaces a key's row, nil removing it.
func (t *tables) setKey(key string, next *nexjob.KeyRow) {
	was, existed := t.keys[key]
	put := func(row *nexjob.KeyRow) {
		if old, ok := t.keys[key]; ok {
			release(t.keyHolds, old.Operation)
			delete(t.keys, key)
		}
		if row != nil {
			t.keys[key] = *row
			t.keyHolds[row.Operation]++
		}
	}
	t.undo = append(t.undo, func() {
		if existed {
			put(&was)
		} else {
			put(nil)
		}
	})
	put(next)
}

// setIn replaces a value of a map, nil removing it.
func setIn[K comparable, V any](t *tables, m map[K]V, k K, next *V) {
	was, existed := m[k]
	t.undo = append(t.undo, func() {
		if existed {
			m[k] = was
		} else {
			delete(m, k)
		}
	})
	if next == nil {
		delete(m, k)
		return
	}
	m[k] = *next
}

// sorted is a set in order. Adding at the end and taking from the front, what a
// queue does, are cheap.
type sorted[T any] struct {
	compare func(a, b T) int
	items   []T
}

func (s *sorted[T]) add(v T) {
	if n := len(s.items); n == 0 || s.compare(s.items[n-1], v) < 0 {
		s.items = append(s.items, v)
		return
	}
	if i, found := slices.BinarySearchFunc(s.items, v, s.compare); !found {
		s.items = slices.Insert(s.items, i, v)
	}
}

func (s *sorted[T]) remove(v T) {
	i, found := slices.BinarySearchFunc(s.items, v, s.compare)
	switch {
	case !found:
	case i == 0:
		s.items = s.items[1:]
	default:
		s.items = slices.Delete(s.items, i, i+1)
	}
}
