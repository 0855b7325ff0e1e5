package memory

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
)

var _ onewriter.Rows = (*tables)(nil)

// Jobs returns stored jobs.
func (t *tables) Jobs(_ context.Context, ids []nexjob.ID) ([]nexjob.Job, error) {
	var found []nexjob.Job
	for _, id := range ids {
		if j, ok := t.jobs[id]; ok {
			found = append(found, j)
		}
	}
	return found, nil
}

// Due returns claimable jobs in order.
func (t *tables) Due(
	_ context.Context, now time.Time, queue string, kinds []string, n int,
) ([]nexjob.Job, error) {
	var found []nexjob.Job
	for _, priority := range nexjob.Priorities() {
		l := t.due[lane{queue, priority}]
		if l == nil {
			continue
		}
		for _, m := range l.items {
			if len(found) == n || m.at.After(now) {
				break
			}
			if j := t.jobs[m.id]; slices.Contains(kinds, j.Kind) {
				found = append(found, j)
			}
		}
	}
	return found, nil
}

// nextDue returns the earliest due time after now of a claimable job; zero: there is none.
func (t *tables) nextDue(now time.Time, queues, kinds []string) time.Time {
	var next time.Time
	for _, queue := range queues {
		for _, priority := range nexjob.Priorities() {
			l := t.due[lane{queue, priority}]
			if l == nil {
				continue
			}
			from := sort.Search(len(l.items), func(i int) bool { return l.items[i].at.After(now) })
			for _, m := range l.items[from:] {
				if !next.IsZero() && !m.at.Before(next) {
					break
				}
				if slices.Contains(kinds, t.jobs[m.id].Kind) {
					next = m.at
					break
				}
			}
		}
	}
	return next
}

// Leased returns jobs whose lease has ended.
func (t *tables) Leased(_ context.Context, now time.Time, n int) ([]nexjob.Job, error) {
	var found []nexjob.Job
	for _, m := range t.leased.items {
		if len(found) == n || m.at.After(now) {
			break
		}
		found = append(found, t.jobs[m.id])
	}
	return found, nil
}

// Select returns the oldest jobs that a query selects.
func (t *tables) Select(_ context.Context, now time.Time, q nexjob.Query, n int) ([]nexjob.Job, error) {
	var found []nexjob.Job
	for _, id := range t.candidates(&q) {
		if len(found) == n {
			break
		}
		if j, ok := t.jobs[id]; ok && rules.Selects(&q, &j, now) {
			found = append(found, j)
		}
	}
	return found, nil
}

// candidates returns the IDs that a query can select, in order.
func (t *tables) candidates(q *nexjob.Query) []nexjob.ID {
	if len(q.IDs) == 0 {
		return t.order.items
	}
	ids := slices.Clone(q.IDs)
	slices.SortFunc(ids, nexjob.ID.Compare)
	return slices.Compact(ids)
}

// Children returns the jobs that wait for parents.
func (t *tables) Children(_ context.Context, parents []nexjob.ID) ([]nexjob.Job, error) {
	seen := make(map[nexjob.ID]bool)
	for _, parent := range parents {
		for id := range t.children[parent] {
			seen[id] = true
		}
	}
	found := make([]nexjob.Job, 0, len(seen))
	for id := range seen {
		found = append(found, t.jobs[id])
	}
	slices.SortFunc(found, func(a, b nexjob.Job) int { return a.ID.Compare(b.ID) })
	return found, nil
}

// AnyChild does not know, so a job may have parents.
func (t *tables) AnyChild(context.Context) (bool, error) { return true, nil }

// Bodies has nothing to fill in: records are whole here.
func (t *tables) Bodies(context.Context, []*nexjob.Job) error { return nil }

// WriteJobs keeps changed records.
func (t *tables) WriteJobs(_ context.Context, writes []onewriter.JobWrite) error {
	for i := range writes {
		if writes[i].Gone {
			t.setJob(writes[i].Job.ID, nil)
			continue
		}
		t.setJob(writes[i].Job.ID, writes[i].Job)
	}
	return nil
}

// Keys returns key rows.
func (t *tables) Keys(_ context.Context, keys []string) ([]nexjob.KeyRow, error) {
	var found []nexjob.KeyRow
	for _, key := range keys {
		if row, ok := t.keys[key]; ok {
			found = append(found, row)
		}
	}
	return found, nil
}

// KeysOver returns rows whose own life has ended.
func (t *tables) KeysOver(_ context.Context, now time.Time, n int) ([]nexjob.KeyRow, error) {
	var found []nexjob.KeyRow
	for _, row := range t.keys {
		if rules.KeyOver(&row, now) {
			found = append(found, row)
		}
	}
	slices.SortFunc(found, func(a, b nexjob.KeyRow) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Key, b.Key))
	})
	return found[:min(len(found), n)], nil
}

// WriteKeys keeps changed rows.
func (t *tables) WriteKeys(_ context.Context, put []*nexjob.KeyRow, gone []string) error {
	for _, row := range put {
		t.setKey(row.Key, row)
	}
	for _, key := range gone {
		t.setKey(key, nil)
	}
	return nil
}

// Receipts returns receipts in order.
func (t *tables) Receipts(_ context.Context, operations []nexjob.ID) ([]nexjob.Receipt, error) {
	var found []nexjob.Receipt
	for _, operation := range operations {
		for _, r := range t.receipts[operation] {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, byPosition)
	return found, nil
}

func byPosition(a, b nexjob.Receipt) int {
	return strings.Compare(rules.Position(&a), rules.Position(&b))
}

// WriteReceipts keeps changed receipts.
func (t *tables) WriteReceipts(_ context.Context, put []nexjob.Receipt) error {
	for i := range put {
		operation := put[i].Operation
		if t.receipts[operation] == nil {
			fresh := make(map[string]nexjob.Receipt)
			setIn(t, t.receipts, operation, &fresh)
		}
		setIn(t, t.receipts[operation], put[i].Slot(), &put[i])
	}
	return nil
}

// DropReceipts removes receipts that nothing holds.
func (t *tables) DropReceipts(_ context.Context, operations []nexjob.ID) error {
	for _, operation := range operations {
		if t.holders[operation] == 0 && t.keyHolds[operation] == 0 && t.receipts[operation] != nil {
			setIn(t, t.receipts, operation, nil)
		}
	}
	return nil
}

// Entry returns an entry, also an expired one.
func (t *tables) Entry(_ context.Context, kind, name string) (nexjob.Entry, bool, error) {
	e, found := t.entries[entryName{kind, name}]
	return e, found, nil
}

// WriteEntry keeps an entry.
func (t *tables) WriteEntry(_ context.Context, e nexjob.Entry) error {
	setIn(t, t.entries, entryName{e.Kind, e.Name}, &e)
	return nil
}

// DropEntry removes an entry.
func (t *tables) DropEntry(_ context.Context, kind, name string) error {
	setIn(t, t.entries, entryName{kind, name}, nil)
	return nil
}

// DropExpired removes entries whose time is over.
func (t *tables) DropExpired(_ context.Context, now time.Time, n int) (int, error) {
	dropped := 0
	for name, e := range t.entries {
		if dropped < n && !e.ExpiresAt.IsZero() && !e.ExpiresAt.After(now) {
			setIn(t, t.entries, name, nil)
			dropped++
		}
	}
	return dropped, nil
}

// Fences draws numbers. A rollback does not give them back.
func (t *tables) Fences(_ context.Context, n int) (int64, error) {
	first := t.fence + 1
	t.fence += int64(n)
	return first, nil
}

// Pulse returns what is remembered of writes.
func (t *tables) Pulse(context.Context) (rules.Pulse, error) {
	p := t.pulse
	p.Gaps = slices.Clone(p.Gaps)
	return p, nil
}

// WritePulse remembers writes.
func (t *tables) WritePulse(_ context.Context, p rules.Pulse) error {
	was := t.pulse
	t.undo = append(t.undo, func() { t.pulse = was })
	t.pulse = p
	return nil
}

// Rewind shortens leases after the clock went back.
func (t *tables) Rewind(_ context.Context, now time.Time) error {
	for _, m := range slices.Clone(t.leased.items) {
		j := t.jobs[m.id]
		if limit := now.Add(j.LeaseFor); j.LeaseUntil.After(limit) {
			j.LeaseUntil = limit
			t.setJob(j.ID, &j)
		}
	}
	return nil
}
