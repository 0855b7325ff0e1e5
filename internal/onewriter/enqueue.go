package onewriter

import (
	"context"
	"fmt"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Enqueue adds jobs, as nexjob.Queue says.
func (u *Unit) Enqueue(ctx context.Context, items []nexjob.NewJob) ([]nexjob.Answer, error) {
	answers := make([]nexjob.Answer, len(items))
	for i := range items {
		if answers[i].Err = items[i].Validate(); answers[i].Err != nil {
			answers[i].ID = items[i].ID
		}
	}
	if err := u.loadFor(ctx, items, answers); err != nil {
		return nil, err
	}
	for i := range items {
		if answers[i].Err != nil {
			continue
		}
		var err error
		if answers[i], err = u.enqueueOne(ctx, &items[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// loadFor brings in everything that the valid items are about: the jobs of the same
// ID, parents, key rows, and their holders.
func (u *Unit) loadFor(ctx context.Context, items []nexjob.NewJob, answers []nexjob.Answer) error {
	ids := make([]nexjob.ID, 0, len(items))
	keys := make([]string, 0, len(items))
	for i := range items {
		if answers[i].Err != nil {
			continue
		}
		ids = append(ids, items[i].ID)
		for _, p := range items[i].Parents {
			ids = append(ids, p.ID)
		}
		if items[i].IdempotencyKey != "" {
			keys = append(keys, items[i].IdempotencyKey)
		}
	}
	if err := u.loadKeys(ctx, keys); err != nil {
		return err
	}
	for _, key := range keys {
		if row := u.key(key); row != nil {
			ids = append(ids, row.Job)
		}
	}
	return u.load(ctx, ids)
}

func (u *Unit) enqueueOne(ctx context.Context, item *nexjob.NewJob) (nexjob.Answer, error) {
	seen := rules.Standing{Same: u.job(item.ID)}
	if item.IdempotencyKey != "" {
		seen.Key = u.key(item.IdempotencyKey)
	}
	if seen.Key != nil {
		seen.Holder = u.holder(seen.Key)
	}
	if seen.Holder != nil {
		u.notBefore(seen.Holder.EndedAt)
	}
	judged := rules.Judge(item, seen, u.now)
	answer := judged.Answer
	switch {
	case judged.Fresh:
		for _, p := range item.Parents {
			if u.job(p.ID) == nil {
				return nexjob.Answer{ID: item.ID, Err: unknownParent(p.ID)}, nil
			}
		}
		j, err := u.create(ctx, item, answer.Operation)
		if err != nil {
			return nexjob.Answer{}, err
		}
		answer.State = j.ReportedState(u.now)
	case answer.Outcome == nexjob.Replaced:
		rules.Replace(seen.Holder, item, u.now)
		u.rechosen(seen.Holder)
		seen.Key.Fingerprint = item.Fingerprint
		u.putKey(*seen.Key)
		answer.State = seen.Holder.ReportedState(u.now)
		u.rang = true
	case answer.Outcome == nexjob.Existing:
		u.tellParents(item, answer.ID)
	}
	return answer, nil
}

// tellParents keeps on the parents of a child that its key was held: the holder
// gains no parent, so else nobody would see why nothing runs after them.
func (u *Unit) tellParents(item *nexjob.NewJob, holder nexjob.ID) {
	told := nexjob.Follower{ID: holder, Key: item.IdempotencyKey, Outcome: nexjob.Existing}
	for _, p := range item.Parents {
		parent := u.job(p.ID)
		if parent == nil || len(parent.Followers) >= nexjob.MaxFollowerKept || slices.Contains(parent.Followers, told) {
			continue
		}
		parent.Followers = append(slices.Clip(parent.Followers), told)
		u.changed(parent)
	}
}

// create adds a job under an operation, gives it its key, and weighs the parents
// that have ended already.
func (u *Unit) create(ctx context.Context, item *nexjob.NewJob, operation nexjob.ID) (*nexjob.Job, error) {
	j := u.add(rules.NewRecord(item, operation, u.now))
	if operation != j.ID {
		if err := u.loadReceipts(ctx, []nexjob.ID{operation}); err != nil {
			return nil, err
		}
		u.count(j)
	}
	if j.Key != "" {
		u.putKey(rules.KeyFor(j))
	}
	if len(j.Parents) > 0 {
		rules.Await(j, item)
		for _, p := range item.Parents {
			if parent := u.job(p.ID); parent.State.Terminal() {
				rules.Weigh(j, p.ID, parent.State, u.now)
			}
		}
	}
	u.rang = true
	if j.State.Terminal() {
		return j, u.ended(ctx, j)
	}
	return j, nil
}

// count takes the tallies of an operation's receipts, which are loaded: other jobs of
// the operation may have written some.
func (u *Unit) count(j *nexjob.Job) {
	j.OpenEffects, j.ReceiptCount, j.ReceiptBytes = 0, 0, 0
	for _, r := range u.receipts[j.Operation].receipts {
		j.ReceiptCount++
		j.ReceiptBytes += len(r.Value)
		if r.Open() {
			j.OpenEffects++
		}
	}
}

// ended does what follows from a job's end, but for its children: its key's life is
// counted from here.
func (u *Unit) ended(ctx context.Context, j *nexjob.Job) error {
	if j.Key == "" || j.KeepKeyFor == 0 {
		return nil
	}
	if err := u.loadKeys(ctx, []string{j.Key}); err != nil {
		return err
	}
	if row := u.key(j.Key); row != nil && row.Job == j.ID {
		row.Until = rules.KeyEnds(j, u.now)
		u.putKey(*row)
	}
	return nil
}

func unknownParent(id nexjob.ID) error {
	return fmt.Errorf("%w %s: enqueue it first; it may have been deleted or purged", nexjob.ErrUnknownParent, id)
}
