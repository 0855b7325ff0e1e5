package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// Keys locks keys in order and returns those that have a row. What is decided of a key is
// read by a statement that starts after the lock.
func (r *rows) Keys(ctx context.Context, keys []string) ([]nexjob.KeyRow, error) {
	if err := r.lockKeys(ctx, keys); err != nil {
		return nil, err
	}
	var found []nexjob.KeyRow
	at := make(map[string]int, len(keys))
	_, err := r.run(ctx, "keys", func(row wire.Row) error {
		c := column{row: row}
		k := c.key()
		if i, twice := at[k.Key]; twice { // the newest comes last
			found[i] = k
			return nil
		}
		at[k.Key] = len(found)
		found = append(found, k)
		return nil
	}, keyList(keys))
	found = slices.DeleteFunc(found, func(k nexjob.KeyRow) bool { return k.Job.IsZero() })
	for i := range found {
		r.keys.name(found[i].Key, found[i].Job)
	}
	return found, err
}

// lockKeys locks keys that this transaction has not locked yet.
func (r *rows) lockKeys(ctx context.Context, keys []string) error {
	fresh := r.keys.lock(keys)
	if len(fresh) == 0 {
		return nil
	}
	return r.exec(ctx, "lock keys", keyList(fresh))
}

// key reads the columns of {key}.
func (c *column) key() nexjob.KeyRow {
	return nexjob.KeyRow{
		Key: c.text(), Job: c.id(), Kind: c.text(), Fingerprint: c.fingerprint(), Operation: c.id(),
		Ended: c.state(), Until: c.time(), Cleared: c.bool(),
	}
}

// KeysOver names rows whose own life has ended; a unit loads them, and so locks them,
// before it drops them.
func (r *rows) KeysOver(ctx context.Context, now time.Time, n int) ([]nexjob.KeyRow, error) {
	var found []nexjob.KeyRow
	_, err := r.run(ctx, "keys over", func(row wire.Row) error {
		found = append(found, nexjob.KeyRow{Key: row.Text(0)})
		return nil
	}, micros(now), wire.Int8(int64(n)))
	return found, err
}

// WriteKeys writes changed rows, which are locked, after the jobs of the same flush. A
// job that its key does not name any more is told so.
func (r *rows) WriteKeys(ctx context.Context, put []*nexjob.KeyRow, gone []string) error {
	for _, key := range gone {
		r.keys.name(key, nexjob.ID{})
	}
	if len(gone) > 0 {
		if err := r.exec(ctx, "drop keys", keyList(gone)); err != nil {
			return err
		}
		r.keys.unlock(gone)
	}
	if err := r.putKeys(ctx, put); err != nil {
		return err
	}
	left := r.keys.left
	r.keys.left = nil
	if len(left) == 0 {
		return nil
	}
	slices.SortFunc(left, nexjob.ID.Compare)
	return r.exec(ctx, "leave keys", idList(left))
}

func (r *rows) putKeys(ctx context.Context, put []*nexjob.KeyRow) error {
	n := len(put)
	if n == 0 {
		return nil
	}
	names := make([]string, n)
	for i, k := range put {
		names[i] = k.Key
	}
	if err := r.lockKeys(ctx, names); err != nil { // one that was dropped in this transaction
		return err
	}
	keys, jobs, kinds, prints := wire.Byteas(n, 24), wire.UUIDs(n), wire.Texts(n, 16), wire.Byteas(n, 32)
	operations, ended, until, cleared := wire.UUIDs(n), wire.Smallints(n), wire.Bigints(n), wire.Smallints(n)
	for _, k := range put {
		r.keys.name(k.Key, k.Job)
		r.keys.fill(k.Key)
		keys.Text(k.Key)
		jobs.Bytes(k.Job[:])
		until.IntOrNull(stamp(k.Until))
		cleared.Int(bit(k.Cleared))
		ended.IntOrNull(int64(k.Ended))
		if k.Ended == 0 { // its job's record has these
			kinds.Null()
			prints.Null()
			operations.Null()
			continue
		}
		kinds.Text(k.Kind)
		prints.Bytes(k.Fingerprint[:])
		operations.Bytes(k.Operation[:])
	}
	return r.exec(ctx, "put keys", keys.Arg(), jobs.Arg(), kinds.Arg(), prints.Arg(), operations.Arg(), ended.Arg(),
		until.Arg(), cleared.Arg())
}

// end removes the rows that only served to lock what has none. It is the last step before
// the commit.
func (r *rows) end(ctx context.Context) error {
	if vacant := r.keys.vacant(); len(vacant) > 0 {
		if err := r.exec(ctx, "drop vacant keys", keyList(vacant)); err != nil {
			return err
		}
	}
	for _, e := range r.vacant {
		if err := r.exec(ctx, "drop vacant entry", wire.Text(e.Kind), wire.Text(e.Name)); err != nil {
			return err
		}
	}
	r.vacant = nil
	return nil
}

// keyNotes follow, for the length of a transaction, which keys are locked and which job
// each names, so that jobs which lose their keys are found without looking for them.
type keyNotes struct {
	of   map[string]keyNote
	left []nexjob.ID // jobs whose keys have gone on
}

type keyNote struct {
	job    nexjob.ID // zero: none
	locked bool
	filled bool // its row has a job, or had one when it was locked
}

func (n *keyNotes) note(key string) keyNote {
	if n.of == nil {
		n.of = make(map[string]keyNote)
	}
	return n.of[key]
}

// lock notes keys as locked and returns those that were not, in order.
func (n *keyNotes) lock(keys []string) []string {
	var fresh []string
	for _, key := range keys {
		if note := n.note(key); !note.locked {
			note.locked = true
			n.of[key] = note
			fresh = append(fresh, key)
		}
	}
	slices.Sort(fresh)
	return fresh
}

// unlock notes that keys have no row any more.
func (n *keyNotes) unlock(keys []string) {
	for _, key := range keys {
		n.of[key] = keyNote{}
	}
}

// fill notes that a key's row has a job.
func (n *keyNotes) fill(key string) {
	note := n.note(key)
	note.filled = true
	n.of[key] = note
}

// vacant names the keys that were locked and may have a row without a job.
func (n *keyNotes) vacant() []string {
	var vacant []string
	for key, note := range n.of {
		if note.locked && !note.filled && note.job.IsZero() {
			vacant = append(vacant, key)
		}
	}
	slices.Sort(vacant)
	return vacant
}

// name notes that a key names a job, zero for none.
func (n *keyNotes) name(key string, job nexjob.ID) {
	if key == "" {
		return
	}
	note := n.note(key)
	if note.job == job {
		return
	}
	if !note.job.IsZero() {
		n.left = append(n.left, note.job)
	}
	note.job = job
	n.of[key] = note
}

// Receipts returns receipts in order.
func (r *rows) Receipts(ctx context.Context, operations []nexjob.ID) ([]nexjob.Receipt, error) {
	return r.receipts(ctx, operations)
}

func (s session) receipts(ctx context.Context, operations []nexjob.ID) ([]nexjob.Receipt, error) {
	var found []nexjob.Receipt
	_, err := s.run(ctx, "receipts", func(row wire.Row) error {
		c := column{row: row}
		found = append(found, c.receipt())
		return nil
	}, idList(operations))
	return found, err
}

// receipt reads the columns of {receipt}.
func (c *column) receipt() nexjob.Receipt {
	return nexjob.Receipt{
		Operation: c.id(),
		Sort:      nexjob.ReceiptSort(c.int64()), //nolint:gosec // written from a ReceiptSort
		Name:      c.text(), Item: c.text(), Turn: c.int(), Fingerprint: c.fingerprint(),
		State:  nexjob.EffectState(c.int64()), //nolint:gosec // written from an EffectState
		Writer: nexjob.Lease{Job: c.id(), Fence: c.int64()},
		Value:  c.bytes(), Error: c.text(), By: c.text(), At: c.time(), OutsideKey: c.text(),
		SendBefore: c.time(), FirstSent: c.time(), RepeatableFor: c.duration(),
		LookupAfter: c.duration(), Lookup: c.bool(), AtMostOnce: c.bool(),
	}
}

// written is a receipt as "put receipts" takes it; absent means NULL.
type written struct {
	Operation     string        `json:"operation"`
	Slot          string        `json:"slot"`
	Sort          uint8         `json:"sort"`
	Name          string        `json:"name"`
	Item          string        `json:"item"`
	Turn          int           `json:"turn"`
	Fingerprint   string        `json:"fingerprint"`
	State         uint8         `json:"state"`
	Job           string        `json:"job"`
	Fence         int64         `json:"fence"`
	Value         string        `json:"value,omitempty"`
	Error         string        `json:"error"`
	By            string        `json:"verdict_by"`
	At            int64         `json:"at,omitempty"`
	OutsideKey    string        `json:"outside_key"`
	SendBefore    int64         `json:"send_before,omitempty"`
	FirstSent     int64         `json:"first_sent,omitempty"`
	RepeatableFor time.Duration `json:"repeatable_for_ns"`
	LookupAfter   time.Duration `json:"lookup_after_ns"`
	Lookup        bool          `json:"lookup"`
	AtMostOnce    bool          `json:"at_most_once"`
}

// WriteReceipts writes new and changed receipts.
func (r *rows) WriteReceipts(ctx context.Context, put []nexjob.Receipt) error {
	all := make([]written, len(put))
	for i := range put {
		p := &put[i]
		all[i] = written{
			Operation: p.Operation.String(), Slot: hex.EncodeToString([]byte(p.Slot())), Sort: uint8(p.Sort), Name: p.Name,
			Item: p.Item, Turn: p.Turn, Fingerprint: hex.EncodeToString(p.Fingerprint[:]), State: uint8(p.State),
			Job: p.Writer.Job.String(), Fence: p.Writer.Fence, Value: hex.EncodeToString(p.Value), Error: p.Error, By: p.By,
			At: stamp(p.At), OutsideKey: p.OutsideKey, SendBefore: stamp(p.SendBefore), FirstSent: stamp(p.FirstSent),
			RepeatableFor: p.RepeatableFor, LookupAfter: p.LookupAfter, Lookup: p.Lookup, AtMostOnce: p.AtMostOnce,
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return r.exec(ctx, "put receipts", wire.Text(string(text)))
}

// DropReceipts removes receipts that nothing holds.
func (r *rows) DropReceipts(ctx context.Context, operations []nexjob.ID) error {
	return r.exec(ctx, "drop receipts", idList(operations))
}

// Entry locks an entry and returns it, also an expired one.
func (r *rows) Entry(ctx context.Context, kind, name string) (nexjob.Entry, bool, error) {
	if err := r.exec(ctx, "lock entry", wire.Text(kind), wire.Text(name)); err != nil {
		return nexjob.Entry{}, false, err
	}
	var e nexjob.Entry
	_, err := r.run(ctx, "entry", func(row wire.Row) error {
		c := column{row: row}
		if stands := c.entry(); stands.Version >= e.Version {
			e = stands
		}
		return nil
	}, wire.Text(kind), wire.Text(name))
	if err == nil && e.Version == 0 {
		r.vacant = append(r.vacant, nexjob.Entry{Kind: kind, Name: name})
	}
	return e, e.Version > 0, err
}

// entry reads the columns of {entry}.
func (c *column) entry() nexjob.Entry {
	return nexjob.Entry{
		Kind: c.text(), Name: c.text(), Version: c.int64(), Value: c.bytes(), ExpiresAt: c.time(), UpdatedAt: c.time(),
	}
}

// WriteEntry writes an entry, which is locked.
func (r *rows) WriteEntry(ctx context.Context, e nexjob.Entry) error {
	return r.exec(ctx, "put entry", wire.Text(e.Kind), wire.Text(e.Name), wire.Int8(e.Version), wire.BytesOrNull(e.Value),
		micros(e.ExpiresAt), micros(e.UpdatedAt))
}

// DropEntry removes an entry.
func (r *rows) DropEntry(ctx context.Context, kind, name string) error {
	return r.exec(ctx, "drop entry", wire.Text(kind), wire.Text(name))
}

// DropExpired removes entries whose time is over.
func (r *rows) DropExpired(ctx context.Context, now time.Time, n int) (int, error) {
	dropped := 0
	_, err := r.run(ctx, "drop expired entries", func(wire.Row) error {
		dropped++
		return nil
	}, micros(now), wire.Int8(int64(n)))
	return dropped, err
}
