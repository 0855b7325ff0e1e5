package onewriter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Unit is the work of one write transaction at one time. It is used by one
// goroutine and thrown away with its transaction. After an error nothing of it may
// be committed.
type Unit struct {
	rows Rows
	now  time.Time

	jobs     map[nexjob.ID]*jobSlot
	touched  []*jobSlot // since the last flush, in order of their first change: that is most often by ID
	keys     map[string]*keySlot
	noJob    jobSlot // stands for every job that is known not to be stored
	noKey    keySlot // the like
	receipts map[nexjob.ID]*ledger
	ends     map[nexjob.ID]nexjob.State // of settled jobs, not yet weighed for their children
	loose    map[nexjob.ID]bool         // operations that may have lost their last holder
	last     rules.Pulse                // as it was read
	pulse    rules.Pulse
	beat     bool // pulse was read and goes with what is written
	quiet    bool // the last write lies so far back that one is due
	wrote    bool // something but the pulse was written
	family   bool // a job with parents was added
	chosen   bool // a body was chosen
	rang     bool
}

type jobSlot struct {
	job   nexjob.Job
	was   *nexjob.Job // as loaded; nil: not stored
	there bool        // the record exists now
	body  bool        // its body was chosen anew
	dirty bool
}

type keySlot struct {
	row   nexjob.KeyRow
	there bool
	dirty bool
}

// Begin starts a unit in a transaction of the engine's own and notes the write, so
// that claims can tell a dead worker from a storage that refused writes. Several
// processes may reckon the time a little differently: the unit's time is never
// before the last write, unless the clock went back by more than a second.
func Begin(ctx context.Context, rows Rows, now time.Time) (*Unit, error) {
	pulse, err := rows.Pulse(ctx)
	if err != nil {
		return nil, err
	}
	was := pulse
	wentBack := pulse.Beat(now)
	if !wentBack && now.Before(was.LastWrite) {
		now = was.LastWrite
		pulse.LastWrite = now
	}
	u := Join(rows, now)
	u.last, u.pulse, u.beat = was, pulse, true
	if wentBack {
		u.wrote = true
		return u, rows.Rewind(ctx, u.now)
	}
	return u, nil
}

// Join starts a unit in a caller's transaction. It leaves no note of the write: the
// caller may keep everybody waiting after it.
func Join(rows Rows, now time.Time) *Unit {
	return &Unit{
		rows: rows, now: rules.Micro(now),
		jobs:     make(map[nexjob.ID]*jobSlot),
		keys:     make(map[string]*keySlot),
		receipts: make(map[nexjob.ID]*ledger),
		ends:     make(map[nexjob.ID]nexjob.State),
		loose:    make(map[nexjob.ID]bool),
	}
}

// Advance moves the unit's time on, for steps that join it after others were done. It
// never goes back.
func (u *Unit) Advance(now time.Time) {
	if now = rules.Micro(now); !now.After(u.now) {
		return
	}
	u.now = now
	if u.beat {
		u.pulse.Beat(now)
	}
}

// notBefore moves the unit's time on to an event that it comes after. Callers reckon the
// time a little differently; a clock that went back by more than a second is believed.
func (u *Unit) notBefore(event time.Time) {
	if event.Sub(u.now) <= time.Second {
		u.Advance(event)
	}
}

// Rings reports whether the unit made a job claimable or ended one.
func (u *Unit) Rings() bool { return u.rang }

// Flush writes what changed. It may be called several times in one transaction.
func (u *Unit) Flush(ctx context.Context) error { return u.flush(ctx, false) }

// flush writes what changed. After the last one nothing needs to know what was written.
func (u *Unit) flush(ctx context.Context, last bool) error {
	if err := u.flushJobs(ctx, last); err != nil {
		return err
	}
	if err := u.flushKeys(ctx); err != nil {
		return err
	}
	return u.flushReceipts(ctx)
}

// End flushes and writes the pulse: the last call before the commit. It reports
// whether anything was written. A step that changed nothing writes no pulse either,
// so that an idle engine has nothing to commit, unless a claim finds that the last
// write lies so far back that the silence could be taken for a stall.
func (u *Unit) End(ctx context.Context) (wrote bool, err error) {
	if err := u.flush(ctx, true); err != nil {
		return false, err
	}
	if !u.wrote && !u.quiet {
		return false, nil
	}
	if u.beat {
		return true, u.rows.WritePulse(ctx, u.pulse)
	}
	return true, nil
}

func (u *Unit) flushJobs(ctx context.Context, last bool) error {
	writes := make([]JobWrite, 0, len(u.touched))
	for _, s := range u.touched {
		if s.dirty && (s.there || s.was != nil) {
			writes = append(writes, JobWrite{Job: &s.job, Was: s.was, Body: s.body, Gone: !s.there})
		}
		s.dirty, s.body = false, false
	}
	u.touched = u.touched[:0]
	if len(writes) == 0 {
		return nil
	}
	u.wrote = true
	slices.SortFunc(writes, func(a, b JobWrite) int { return a.Job.ID.Compare(b.Job.ID) })
	if err := u.rows.WriteJobs(ctx, writes); err != nil || last {
		return err
	}
	for i := range writes {
		s := u.jobs[writes[i].Job.ID]
		s.was = nil
		if s.there {
			was := s.job
			s.was = &was
		}
	}
	return nil
}

func (u *Unit) flushKeys(ctx context.Context) error {
	put := make([]*nexjob.KeyRow, 0, len(u.keys))
	var gone []string
	for _, s := range u.keys {
		switch {
		case !s.dirty:
		case s.there:
			put = append(put, &s.row)
		default:
			gone = append(gone, s.row.Key)
		}
		s.dirty = false
	}
	if len(put)+len(gone) == 0 {
		return nil
	}
	u.wrote = true
	slices.SortFunc(put, func(a, b *nexjob.KeyRow) int { return cmp.Compare(a.Key, b.Key) })
	slices.Sort(gone)
	return u.rows.WriteKeys(ctx, put, gone)
}

// load brings the records of jobs into the unit.
func (u *Unit) load(ctx context.Context, ids []nexjob.ID) error {
	if len(u.jobs) == 0 {
		u.jobs = make(map[nexjob.ID]*jobSlot, len(ids))
	}
	var missing []nexjob.ID
	for _, id := range ids {
		if _, known := u.jobs[id]; !known && !id.IsZero() {
			u.jobs[id] = &u.noJob
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := u.rows.Jobs(ctx, missing)
	if err != nil {
		return err
	}
	u.adopt(found)
	return nil
}

// adopt takes records that a query returned, unless the unit knows them already. They
// belong to the unit from then on.
func (u *Unit) adopt(found []nexjob.Job) {
	slots := make([]jobSlot, len(found))
	for i := range found {
		s := u.jobs[found[i].ID]
		if s != nil && (s.there || s.was != nil || s.dirty) {
			continue
		}
		slots[i] = jobSlot{job: found[i], was: &found[i], there: true}
		u.jobs[found[i].ID] = &slots[i]
	}
}

// job returns a loaded job's record, nil when it is not stored.
func (u *Unit) job(id nexjob.ID) *nexjob.Job {
	if s := u.jobs[id]; s != nil && s.there {
		return &s.job
	}
	return nil
}

// changed marks a job's record to be written.
func (u *Unit) changed(j *nexjob.Job) { u.touch(u.jobs[j.ID]) }

// touch marks a slot to be written, once.
func (u *Unit) touch(s *jobSlot) {
	if !s.dirty {
		s.dirty = true
		u.touched = append(u.touched, s)
	}
}

// rechosen marks a job's record to be written with its body.
func (u *Unit) rechosen(j *nexjob.Job) {
	s := u.jobs[j.ID]
	s.body = true
	u.touch(s)
	u.chosen = true
}

func (u *Unit) add(j nexjob.Job) *nexjob.Job {
	u.family = u.family || len(j.Parents) > 0
	u.chosen = true
	s := &jobSlot{job: j, there: true, body: true}
	if old := u.jobs[j.ID]; old != nil {
		s.was, old.dirty = old.was, false // the new slot is written in its stead
	}
	u.jobs[j.ID] = s
	u.touch(s)
	return &s.job
}

func (u *Unit) remove(j *nexjob.Job) {
	s := u.jobs[j.ID]
	s.there = false
	u.touch(s)
	u.loose[j.Operation] = true
}

func (u *Unit) loadKeys(ctx context.Context, keys []string) error {
	if len(u.keys) == 0 {
		u.keys = make(map[string]*keySlot, len(keys))
	}
	var missing []string
	for _, key := range keys {
		if _, known := u.keys[key]; !known && key != "" {
			u.keys[key] = &u.noKey
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := u.rows.Keys(ctx, missing)
	if err != nil {
		return err
	}
	for i := range found {
		u.keys[found[i].Key] = &keySlot{row: found[i], there: true}
	}
	return nil
}

// key returns a loaded key's row, nil when it has none.
func (u *Unit) key(key string) *nexjob.KeyRow {
	if s := u.keys[key]; s != nil && s.there {
		return &s.row
	}
	return nil
}

// holder returns the loaded record of the key's last job, nil when it is gone. A job
// that was made under its ID afterwards, without the key, is another job.
func (u *Unit) holder(row *nexjob.KeyRow) *nexjob.Job {
	if j := u.job(row.Job); j != nil && j.Key == row.Key {
		return j
	}
	return nil
}

func (u *Unit) putKey(row nexjob.KeyRow) {
	if old := u.key(row.Key); old != nil && old.Operation != row.Operation {
		u.loose[old.Operation] = true
	}
	u.keys[row.Key] = &keySlot{row: row, there: true, dirty: true}
}

func (u *Unit) dropKey(key string) {
	if s := u.keys[key]; s != nil && s.there {
		s.there, s.dirty = false, true
		u.loose[s.row.Operation] = true
	}
}

func sortedIDs[V any](m map[nexjob.ID]V) []nexjob.ID {
	return slices.SortedFunc(maps.Keys(m), nexjob.ID.Compare)
}
