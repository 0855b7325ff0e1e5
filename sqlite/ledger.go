package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Receipts returns receipts in order.
func (r *rows) Receipts(ctx context.Context, operations []nexjob.ID) ([]nexjob.Receipt, error) {
	var found []nexjob.Receipt
	err := r.each(ctx, "receipts", func(v values) error {
		found = append(found, v.receipt())
		return nil
	}, hexIDs(operations))
	return found, err
}

// receipt reads the columns of {receipt}.
func (v values) receipt() nexjob.Receipt {
	return nexjob.Receipt{
		Operation: v.id(0),
		Sort:      nexjob.ReceiptSort(v.int64(1)), //nolint:gosec // written from a ReceiptSort
		Name:      v.text(2), Item: v.text(3), Turn: v.int(4), Fingerprint: v.fingerprint(5),
		State:  nexjob.EffectState(v.int64(6)), //nolint:gosec // written from an EffectState
		Writer: nexjob.Lease{Job: v.id(7), Fence: v.int64(8)},
		Value:  v.bytes(9), Error: v.text(10), By: v.text(11), At: v.time(12), OutsideKey: v.text(13),
		SendBefore: v.time(14), FirstSent: v.time(15), RepeatableFor: v.duration(16),
		LookupAfter: v.duration(17), Lookup: v.bool(18), AtMostOnce: v.bool(19),
	}
}

// WriteReceipts writes new and changed receipts.
func (r *rows) WriteReceipts(ctx context.Context, put []nexjob.Receipt) error {
	for i := range put {
		p := &put[i]
		if _, err := r.exec(ctx, "put receipt", p.Operation[:], []byte(p.Slot()), int64(p.Sort), p.Name, p.Item,
			p.Turn, p.Fingerprint[:], int64(p.State), p.Writer.Job[:], p.Writer.Fence, blob(p.Value), p.Error, p.By,
			micros(p.At), p.OutsideKey, micros(p.SendBefore), micros(p.FirstSent), int64(p.RepeatableFor),
			int64(p.LookupAfter), flag(p.Lookup), flag(p.AtMostOnce)); err != nil {
			return err
		}
	}
	return nil
}

// DropReceipts removes receipts that nothing holds.
func (r *rows) DropReceipts(ctx context.Context, operations []nexjob.ID) error {
	for _, operation := range operations {
		if _, err := r.exec(ctx, "drop receipts", operation[:]); err != nil {
			return err
		}
	}
	return nil
}

// Entry returns an entry, also an expired one.
func (r *rows) Entry(ctx context.Context, kind, name string) (nexjob.Entry, bool, error) {
	var e nexjob.Entry
	found := false
	err := r.each(ctx, "entry", func(v values) error {
		e, found = v.entry(), true
		return nil
	}, kind, name)
	return e, found, err
}

// entry reads the columns of {entry}.
func (v values) entry() nexjob.Entry {
	return nexjob.Entry{
		Kind: v.text(0), Name: v.text(1), Version: v.int64(2), Value: v.bytes(3),
		ExpiresAt: v.time(4), UpdatedAt: v.time(5),
	}
}

// WriteEntry writes an entry.
func (r *rows) WriteEntry(ctx context.Context, e nexjob.Entry) error {
	_, err := r.exec(ctx, "put entry", e.Kind, e.Name, e.Version, blob(e.Value), micros(e.ExpiresAt),
		micros(e.UpdatedAt))
	return err
}

// DropEntry removes an entry.
func (r *rows) DropEntry(ctx context.Context, kind, name string) error {
	_, err := r.exec(ctx, "drop entry", kind, name)
	return err
}

// DropExpired removes entries whose time is over.
func (r *rows) DropExpired(ctx context.Context, now time.Time, n int) (int, error) {
	dropped, err := r.exec(ctx, "drop expired entries", now.UnixMicro(), n)
	return int(dropped), err
}

// Fences draws numbers. A rollback gives them back: nobody has seen them. Where the
// file has lost writes, at a power failure under Normal or by being put back from a
// backup, numbers that were handed out are forgotten; so none is drawn below a floor
// that the time of Open sets, which no store opened earlier has reached, nor below those
// that this one has drawn.
func (r *rows) Fences(ctx context.Context, n int) (int64, error) {
	last := int64(0)
	err := r.each(ctx, "draw fences", func(v values) error {
		last = v.int64(0)
		return nil
	}, r.floor, n)
	if err == nil && last == 0 {
		err = errors.New("draw fences: the counter is missing")
	}
	r.floor = max(r.floor, last)
	return last - int64(n) + 1, err
}

// Pulse returns what is remembered of writes.
func (r *rows) Pulse(ctx context.Context) (rules.Pulse, error) {
	if r.keeps && r.beaten {
		return rules.Pulse{LastWrite: r.pulse.LastWrite, Gaps: slices.Clone(r.pulse.Gaps)}, nil
	}
	var p rules.Pulse
	err := r.each(ctx, "pulse", func(v values) error {
		if v.int64(0) == 0 {
			return nil
		}
		p.LastWrite = v.time(0)
		var err error
		p.Gaps, err = r.pulses.read(v.text(1))
		return err
	})
	return p, err
}

// WritePulse remembers writes.
func (r *rows) WritePulse(ctx context.Context, p rules.Pulse) error {
	text, err := r.pulses.write(p.Gaps)
	if err != nil {
		return err
	}
	_, err = r.exec(ctx, "put pulse", p.LastWrite.UnixMicro(), text)
	r.pulse, r.beaten = rules.Pulse{LastWrite: p.LastWrite, Gaps: slices.Clone(p.Gaps)}, err == nil
	return err
}

// Rewind shortens leases after the clock went back. It changes jobs behind the back of
// what is remembered of them.
func (r *rows) Rewind(ctx context.Context, now time.Time) error {
	r.leased = nil
	_, err := r.exec(ctx, "rewind leases", now.UnixMicro())
	return err
}

// pulseText turns the gaps of a pulse into text and back. It is asked in every
// transaction and they change seldom, so it remembers the newest.
type pulseText struct {
	text string
	gaps []rules.Gap
}

func (t *pulseText) read(text string) ([]rules.Gap, error) {
	if text == "" {
		return nil, nil
	}
	if text != t.text {
		var pairs [][2]int64
		if err := json.Unmarshal([]byte(text), &pairs); err != nil {
			return nil, fmt.Errorf("gaps of the pulse: %w", err)
		}
		t.text, t.gaps = text, make([]rules.Gap, len(pairs))
		for i, pair := range pairs {
			t.gaps[i] = rules.Gap{Start: time.UnixMicro(pair[0]).UTC(), End: time.UnixMicro(pair[1]).UTC()}
		}
	}
	return append([]rules.Gap(nil), t.gaps...), nil
}

func (t *pulseText) write(gaps []rules.Gap) (string, error) {
	same := len(gaps) == len(t.gaps)
	for i := 0; same && i < len(gaps); i++ {
		same = gaps[i] == t.gaps[i]
	}
	if same {
		return t.text, nil
	}
	pairs := make([][2]int64, len(gaps))
	for i, g := range gaps {
		pairs[i] = [2]int64{g.Start.UnixMicro(), g.End.UnixMicro()}
	}
	text, err := json.Marshal(pairs)
	if err != nil {
		return "", err
	}
	t.text, t.gaps = string(text), append([]rules.Gap(nil), gaps...)
	return t.text, nil
}

// Keys returns key rows.
func (r *rows) Keys(ctx context.Context, keys []string) ([]nexjob.KeyRow, error) {
	return r.keyRows(ctx, "keys", hexKeys(keys))
}

// KeysOver returns rows whose own life has ended.
func (r *rows) KeysOver(ctx context.Context, now time.Time, n int) ([]nexjob.KeyRow, error) {
	return r.keyRows(ctx, "keys over", now.UnixMicro(), n)
}

func (r *rows) keyRows(ctx context.Context, name string, args ...any) ([]nexjob.KeyRow, error) {
	var found []nexjob.KeyRow
	err := r.each(ctx, name, func(v values) error {
		row := v.key()
		r.keys.name(row.Key, row.Job)
		r.keys.written(row.Key, true)
		found = append(found, row)
		return nil
	}, args...)
	return found, err
}

// key reads the columns of {key}.
func (v values) key() nexjob.KeyRow {
	return nexjob.KeyRow{
		Key: v.text(0), Job: v.id(1), Kind: v.text(2), Fingerprint: v.fingerprint(3), Operation: v.id(4),
		Ended: nexjob.State(v.int64(5)), //nolint:gosec // written from a State
		Until: v.time(6), Cleared: v.bool(7),
	}
}

// WriteKeys writes changed rows, which have been read before, after the jobs of the
// same flush. A job that its key does not name any more is told so.
func (r *rows) WriteKeys(ctx context.Context, put []*nexjob.KeyRow, gone []string) error {
	for _, key := range gone {
		r.keys.name(key, nexjob.ID{})
		r.keys.written(key, false)
		if _, err := r.exec(ctx, "drop key", []byte(key)); err != nil {
			return err
		}
	}
	added := make([]any, 0, addKey.own()*len(put))
	var changed []*nexjob.KeyRow
	for _, k := range put {
		r.keys.name(k.Key, k.Job)
		if r.keys.stored(k.Key) {
			changed = append(changed, k)
			continue
		}
		r.keys.written(k.Key, true)
		added = append(added, []byte(k.Key), k.Job[:])
		if k.Ended != 0 || k.Cleared || !k.Until.IsZero() {
			changed = append(changed, k)
		}
	}
	if err := r.addKeys(ctx, added); err != nil {
		return err
	}
	for _, k := range changed {
		args := []any{k.Job[:], nil, nil, nil, nil, micros(k.Until), flag(k.Cleared), []byte(k.Key)}
		if k.Ended != 0 { // its job's record is gone
			args[1], args[2], args[3], args[4] = k.Kind, k.Fingerprint[:], k.Operation[:], int64(k.Ended)
		}
		if _, err := r.exec(ctx, "change key", args...); err != nil {
			return err
		}
	}
	for _, id := range r.keys.left {
		if _, err := r.exec(ctx, "leave key", id[:]); err != nil {
			return err
		}
	}
	r.keys.left = nil
	return nil
}

// addKeys adds rows of keys to jobs that are stored. Where they are those of the jobs that
// the flush has added, SQLite has the values already. Equal numbers tell: a new row is that
// of a job which is added or put back, and no step does both.
func (r *rows) addKeys(ctx context.Context, added []any) error {
	fresh, keys := r.added, len(added)/addKey.own()
	r.added = span{}
	if fresh.keyed != keys {
		return r.insert(ctx, addKey, nil, added)
	}
	if keys == 0 {
		return nil
	}
	n, err := r.exec(ctx, "add keys of jobs", fresh.first, fresh.last)
	if err == nil && n != int64(keys) {
		err = fmt.Errorf("%d keys were added for %d jobs", n, keys)
	}
	return err
}

// keyNotes follow, for the length of a transaction, which job each key names, so
// that jobs which lose their keys are found without looking for them.
type keyNotes struct {
	of   map[string]keyNote
	left []nexjob.ID // jobs whose keys have gone on
}

type keyNote struct {
	job nexjob.ID // zero: none
	row bool      // the key has a row
}

// expect makes room for keys.
func (n *keyNotes) expect(keys int) {
	if n.of == nil {
		n.of = make(map[string]keyNote, keys)
	}
}

// written notes whether a key has a row.
func (n *keyNotes) written(key string, row bool) {
	note := n.of[key]
	note.row = row
	n.expect(0)
	n.of[key] = note
}

// stored reports whether a key has a row.
func (n *keyNotes) stored(key string) bool { return n.of[key].row }

// name notes that a key names a job, zero for none.
func (n *keyNotes) name(key string, job nexjob.ID) {
	note := n.of[key]
	if note.job == job {
		return
	}
	if !note.job.IsZero() {
		n.left = append(n.left, note.job)
	}
	note.job = job
	n.expect(0)
	n.of[key] = note
}
