package sqlite

import (
	"context"
	"time"

	"github.com/nexjob/nexjob"
)

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
		r.keys.hold(row.Key, row.Job)
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
func (r *rows) WriteKeys(ctx context.Context, put []nexjob.KeyRow, gone []string) error {
	for _, key := range gone {
		r.keys.hold(key, nexjob.ID{})
		if _, err := r.exec(ctx, "drop key", []byte(key)); err != nil {
			return err
		}
	}
	for i := range put {
		k := &put[i]
		r.keys.hold(k.Key, k.Job)
		var ended any
		if k.Ended != 0 {
			ended = int64(k.Ended)
		}
		if _, err := r.exec(ctx, "put key", []byte(k.Key), k.Job[:], k.Kind, k.Fingerprint[:], k.Operation[:],
			ended, micros(k.Until), flag(k.Cleared)); err != nil {
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

// keyNotes follow, for the length of a transaction, which job each key names, so
// that jobs which lose their keys are found without looking for them.
type keyNotes struct {
	holders map[string]nexjob.ID
	left    []nexjob.ID // jobs whose keys have gone on
}

// add notes a new job: its key is about to name it.
func (n *keyNotes) add(j *nexjob.Job) {
	if j.Key != "" {
		n.hold(j.Key, j.ID)
	}
}

// hold notes that a key names a job, zero for none.
func (n *keyNotes) hold(key string, job nexjob.ID) {
	if n.holders == nil {
		n.holders = make(map[string]nexjob.ID)
	}
	if was := n.holders[key]; !was.IsZero() && was != job {
		n.left = append(n.left, was)
	}
	n.holders[key] = job
}
