package onewriter

import (
	"context"
	"errors"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Amend applies one action to at most limit jobs that a query selects, as
// nexjob.Archive says.
func (u *Unit) Amend(
	ctx context.Context, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if err := CheckAction(q, &do, limit); err != nil {
		return nexjob.Amended{}, err
	}
	if q.Of == nexjob.Keys {
		return u.clearKey(ctx, q.Key)
	}
	found, err := u.rows.Select(ctx, u.now, q, limit+1)
	if err != nil {
		return nexjob.Amended{}, err
	}
	if do.FollowUp != nil && len(found) > 1 {
		return nexjob.Amended{}, &nexjob.InvalidError{
			Field: "query", Why: "it selects several jobs for one follow-up", Remedy: "resolve them one by one",
		}
	}
	done := nexjob.Amended{More: len(found) > limit}
	found = found[:min(len(found), limit)]
	u.adopt(found)
	if err := u.loadAround(ctx, found, do.Act); err != nil {
		return nexjob.Amended{}, err
	}
	for i := range found {
		change := nexjob.Change{Job: found[i].ID, Key: found[i].Key}
		if err := u.amendOne(ctx, u.job(found[i].ID), &do, &change); err != nil {
			return nexjob.Amended{}, err
		}
		done.Changes = append(done.Changes, change)
	}
	if do.Act == nexjob.ActPurge {
		err = u.sweep(ctx, limit, &done)
		return done, err
	}
	return done, nil
}

// loadAround brings in what an action on jobs is about: their keys, and, where it
// matters what the operation did, its receipts. The tallies on a former job do not
// know what the jobs that continued it have recorded.
func (u *Unit) loadAround(ctx context.Context, jobs []nexjob.Job, act nexjob.Act) error {
	var keys []string
	var operations []nexjob.ID
	for i := range jobs {
		if jobs[i].Key != "" && (TakesKey(act) || jobs[i].KeepKeyFor != 0) {
			keys = append(keys, jobs[i].Key)
		}
		if act == nexjob.ActDelete || act == nexjob.ActRequeue {
			operations = append(operations, jobs[i].Operation)
		}
	}
	if err := u.loadKeys(ctx, keys); err != nil {
		return err
	}
	return u.loadReceipts(ctx, operations)
}

// TakesKey reports whether an act takes, frees or changes the keys of jobs. Others touch
// a key only where its life begins with a job's end.
func TakesKey(act nexjob.Act) bool {
	switch act {
	case nexjob.ActRequeue, nexjob.ActDelete, nexjob.ActPurge, nexjob.ActClearKey:
		return true
	default:
		return false
	}
}

// CheckAction refuses an action that makes no sense, whatever is stored. An engine
// asks before it gathers calls, so that a bad one does not undo its neighbours.
func CheckAction(q nexjob.Query, do *nexjob.Action, limit int) error {
	refuse := func(field, why, remedy string) error {
		return &nexjob.InvalidError{Field: field, Why: why, Remedy: remedy}
	}
	switch {
	case do.Act == 0 || do.Act > nexjob.ActMove:
		return refuse("action", do.Act.String(), "use one of ActCancel to ActMove")
	case limit < 1 || limit > nexjob.MaxPage:
		return refuse("limit", "it is out of range", "1 to 1000")
	case q.Of == nexjob.Effects || q.Of == nexjob.Keys && do.Act != nexjob.ActClearKey:
		return refuse("query", do.Act.String()+" is for jobs", "leave Of out")
	case q.Of == nexjob.Keys && q.Key == "":
		return refuse("query", "no key is named", "set Key")
	case do.Act == nexjob.ActReschedule && (do.DueAt.IsZero() || !rules.Storable(do.DueAt)):
		return refuse("due at", "it is zero or out of range", "a year from 1970 to 9999")
	case do.Act == nexjob.ActResolve && do.Verdict > nexjob.Compensate:
		return refuse("verdict", do.Verdict.String(), "use Applied, NotApplied or Compensate")
	case do.Act == nexjob.ActPrioritise && (do.Priority == 0 || do.Priority > nexjob.Low):
		return refuse("priority", do.Priority.String(), "use Critical, High, Normal or Low")
	case do.Act == nexjob.ActResolve && do.Verdict == nexjob.Compensate && do.FollowUp == nil:
		return refuse("follow-up", "there is none", "name the job that compensates")
	case do.Act == nexjob.ActResolve && len(do.Value) > nexjob.MaxReceiptBytes:
		return refuse("value", "it is too large", "keep its name")
	case do.Act == nexjob.ActMove:
		return nexjob.ValidateName("queue", do.Queue)
	}
	return nil
}

// amendOne applies an action to one job. A refusal is the change's own error.
func (u *Unit) amendOne(ctx context.Context, j *nexjob.Job, do *nexjob.Action, change *nexjob.Change) error {
	open, err := u.open(ctx, j)
	if err != nil {
		return err
	}
	switch do.Act {
	case nexjob.ActCancel:
		change.Err = rules.Cancel(j, do, open, u.now)
	case nexjob.ActExpire:
		change.Err = rules.ExpireWaiting(j, open, u.now)
	case nexjob.ActReschedule, nexjob.ActPrioritise, nexjob.ActMove:
		change.Err = rules.Alter(j, do)
	case nexjob.ActRequeue:
		change.Err, err = u.requeue(ctx, j, do)
	case nexjob.ActClearKey:
		change.Err = u.clearKeyOf(j)
	case nexjob.ActPurge:
		if change.Err = rules.Purge(j); change.Err == nil {
			u.purge(j)
		}
	case nexjob.ActDelete:
		err = u.delete(ctx, j, do, open, change)
	case nexjob.ActResolve:
		err = u.resolve(ctx, j, do, open, change)
	}
	if err != nil {
		return err
	}
	change.Done = change.Err == nil
	record := u.job(change.Job)
	if record != nil {
		change.State = record.ReportedState(u.now)
	}
	if !change.Done || record == nil {
		return nil
	}
	u.changed(record)
	u.rang = true
	if do.Act == nexjob.ActClearKey {
		return nil
	}
	return u.endFamily(ctx, record)
}

// requeue puts a job back; a refusal names the job that its key has gone on to.
func (u *Unit) requeue(ctx context.Context, j *nexjob.Job, do *nexjob.Action) (refused, err error) {
	old, row := j.Operation, u.key(j.Key)
	var last *nexjob.Job
	if row != nil {
		if err := u.load(ctx, []nexjob.ID{row.Job}); err != nil {
			return nil, err
		}
		last = u.holder(row)
	}
	if refused := rules.Requeue(j, row, last, do, u.now); refused != nil {
		return refused, nil
	}
	if old != j.Operation {
		u.loose[old] = true
	} else {
		if err := u.loadReceipts(ctx, []nexjob.ID{j.Operation}); err != nil {
			return nil, err
		}
		u.count(j)
	}
	if j.Key != "" {
		u.putKey(rules.KeyFor(j))
	}
	return nil, nil
}

func (u *Unit) clearKeyOf(j *nexjob.Job) error {
	row := u.key(j.Key)
	if row == nil || row.Job != j.ID {
		return nexjob.ErrNotFound
	}
	if err := rules.ClearKey(row, j, u.now); err != nil {
		return err
	}
	u.putKey(*row)
	return nil
}

// clearKey lifts the refusal of a key that may have outlived its record.
func (u *Unit) clearKey(ctx context.Context, key string) (nexjob.Amended, error) {
	if err := u.loadKeys(ctx, []string{key}); err != nil {
		return nexjob.Amended{}, err
	}
	row := u.key(key)
	if row == nil || rules.KeyOver(row, u.now) {
		return nexjob.Amended{}, nil
	}
	if err := u.load(ctx, []nexjob.ID{row.Job}); err != nil {
		return nexjob.Amended{}, err
	}
	holder := u.holder(row)
	change := nexjob.Change{Job: row.Job, Key: key, State: row.Ended}
	if holder != nil {
		change.State = holder.ReportedState(u.now)
	}
	if change.Err = rules.ClearKey(row, holder, u.now); change.Err == nil {
		u.putKey(*row)
		change.Done = true
	}
	return nexjob.Amended{Changes: []nexjob.Change{change}}, nil
}

func (u *Unit) delete(
	ctx context.Context, j *nexjob.Job, do *nexjob.Action, open []nexjob.Receipt, change *nexjob.Change,
) error {
	confirmed := 0
	if err := u.loadReceipts(ctx, []nexjob.ID{j.Operation}); err != nil { // a neighbour's delete has let them go
		return err
	}
	for _, r := range u.receipts[j.Operation].receipts {
		if r.Sort == nexjob.EffectReceipt && r.State == nexjob.Confirmed {
			confirmed++
		}
	}
	held, err := rules.Delete(j, do, open, confirmed, u.now)
	if err != nil || held {
		change.Err = err
		return nil //nolint:nilerr // a refusal is the change's own error
	}
	if row := u.key(j.Key); row != nil && row.Job == j.ID {
		u.dropKey(j.Key)
	}
	u.remove(j)
	u.rang = true
	if j.State.Terminal() {
		return nil // its children were decided by its end
	}
	return u.bereave(ctx, map[nexjob.ID]nexjob.State{j.ID: 0})
}

// purge removes an ended job as retention does. A key that outlives the record
// keeps the state it ended in.
func (u *Unit) purge(j *nexjob.Job) {
	if row := u.key(j.Key); row != nil && row.Job == j.ID {
		if row.Until.IsZero() || rules.KeyOver(row, u.now) {
			u.dropKey(j.Key)
		} else {
			row.Ended = j.State
			u.putKey(*row)
		}
	}
	u.remove(j)
}

// sweep removes what nothing holds any more: keys whose own life is over, with the
// receipts that only they held, and expired entries. At most limit of each go at
// once; whether there are more is told, for else a storage whose keys outlive their
// records would fill up while retention thinks that it is done.
func (u *Unit) sweep(ctx context.Context, limit int, done *nexjob.Amended) error {
	if err := u.Flush(ctx); err != nil {
		return err
	}
	over, err := u.rows.KeysOver(ctx, u.now, limit)
	if err != nil {
		return err
	}
	keys := make([]string, len(over))
	for i := range over {
		keys[i] = over[i].Key
	}
	if err := u.loadKeys(ctx, keys); err != nil {
		return err
	}
	swept := 0
	for _, key := range keys {
		if row := u.key(key); row != nil && rules.KeyOver(row, u.now) { // still, now that it is locked
			u.dropKey(key)
			swept++
		}
	}
	dropped, err := u.rows.DropExpired(ctx, u.now, limit)
	u.wrote = u.wrote || dropped > 0
	done.Swept = swept + dropped
	done.More = done.More || len(keys) == limit || dropped == limit
	return err
}

func (u *Unit) resolve(
	ctx context.Context, j *nexjob.Job, do *nexjob.Action, open []nexjob.Receipt, change *nexjob.Change,
) error {
	if do.FollowUp != nil {
		if change.Err = do.FollowUp.Validate(); change.Err != nil {
			return nil //nolint:nilerr // a refusal is the change's own error
		}
	}
	before := *j
	written, err := rules.Resolve(j, do, open, u.now)
	if err != nil {
		change.Err = err
		return nil //nolint:nilerr // a refusal is the change's own error
	}
	if err := u.loadReceipts(ctx, []nexjob.ID{j.Operation}); err != nil {
		return err
	}
	receipts := slices.Clone(u.receipts[j.Operation].receipts)
	u.putReceipt(j, written)
	if do.FollowUp == nil {
		return nil
	}
	// The job's own key is free for the follow-up if its end is decided above.
	answers, err := u.Enqueue(ctx, []nexjob.NewJob{*do.FollowUp})
	if err != nil {
		return err
	}
	change.FollowUp = &answers[0]
	change.Err = answers[0].Err
	if change.Err == nil && answers[0].ID == j.ID {
		change.Err = errHoldsFollowUp
	}
	if change.Err != nil { // nothing would make up for the effect: no verdict then
		*j = before
		u.receipts[j.Operation].receipts = receipts
	}
	return nil
}

// errHoldsFollowUp refuses a follow-up under the key of a job that, with another effect
// open, is still active.
var errHoldsFollowUp = errors.New("nexjob: the follow-up's key is held by the job itself; " +
	"resolve its other effects first, or give the follow-up another key")

// Put compares and swaps entries, as nexjob.Registry says.
func (u *Unit) Put(ctx context.Context, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	answers := make([]nexjob.PutAnswer, len(puts))
	for i := range puts {
		var err error
		if answers[i], err = u.putOne(ctx, &puts[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (u *Unit) putOne(ctx context.Context, p *nexjob.Put) (nexjob.PutAnswer, error) {
	for field, name := range map[string]string{"entry kind": p.Entry.Kind, "entry name": p.Entry.Name} {
		if err := nexjob.ValidateName(field, name); err != nil {
			return nexjob.PutAnswer{Err: err}, nil
		}
	}
	if len(p.Entry.Value) > nexjob.MaxEntryValue {
		return nexjob.PutAnswer{Err: &nexjob.InvalidError{
			Field: "entry " + p.Entry.Name, Why: "its value is too large", Remedy: "at most 65536 bytes",
		}}, nil
	}
	if !rules.Storable(p.Entry.ExpiresAt) {
		return nexjob.PutAnswer{Err: &nexjob.InvalidError{
			Field: "entry " + p.Entry.Name, Why: "it expires at " + p.Entry.ExpiresAt.String(),
			Remedy: "a year from 1970 to 9999, or zero for never",
		}}, nil
	}
	stands, found, err := u.rows.Entry(ctx, p.Entry.Kind, p.Entry.Name)
	if err != nil {
		return nexjob.PutAnswer{}, err
	}
	version := int64(0)
	if found && (stands.ExpiresAt.IsZero() || stands.ExpiresAt.After(u.now)) {
		version = stands.Version
	}
	switch {
	case !p.Always && version != p.If:
		return nexjob.PutAnswer{Version: version}, nil
	case p.Delete && !found:
		return nexjob.PutAnswer{Done: true}, nil
	}
	u.wrote = true
	if p.Delete {
		return nexjob.PutAnswer{Done: true}, u.rows.DropEntry(ctx, p.Entry.Kind, p.Entry.Name)
	}
	e := p.Entry
	e.Version, e.UpdatedAt = version+1, u.now
	if found {
		e.Version = stands.Version + 1 // also after it expired: versions grow
	}
	if !e.ExpiresAt.IsZero() {
		e.ExpiresAt = rules.Micro(e.ExpiresAt)
	}
	e.Value = slices.Clone(e.Value)
	return nexjob.PutAnswer{Done: true, Version: e.Version}, u.rows.WriteEntry(ctx, e)
}
