package onewriter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// errNotKept answers a follower of a repeated settlement of which nothing is known.
var errNotKept = errors.New("nexjob: what became of this follower was not kept: the job had too many that were not created")

// Settle ends attempts, as nexjob.Queue says.
func (u *Unit) Settle(ctx context.Context, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	ids := make([]nexjob.ID, len(ends))
	for i := range ends {
		ids[i] = ends[i].Lease.Job
	}
	if err := u.load(ctx, ids); err != nil {
		return nil, err
	}
	answers := make([]nexjob.Settled, len(ends))
	for i := range ends {
		var err error
		if answers[i], err = u.settleOne(ctx, &ends[i]); err != nil {
			return nil, err
		}
	}
	return answers, u.endFamilies(ctx)
}

func (u *Unit) settleOne(ctx context.Context, s *nexjob.Settlement) (nexjob.Settled, error) {
	if err := checkSettlement(s); err != nil {
		return nexjob.Settled{Err: err}, nil
	}
	if len(s.Followers) > 0 { // what they meet is what the ends before have left
		if err := u.endFamilies(ctx); err != nil {
			return nexjob.Settled{}, err
		}
	}
	j := u.job(s.Lease.Job)
	if !rules.Current(j, s.Lease) {
		if rules.Stands(j, s) {
			return u.settledBefore(ctx, j, s)
		}
		return nexjob.Settled{Err: nexjob.ErrLeaseLost}, nil
	}
	open, err := u.open(ctx, j)
	if err != nil {
		return nexjob.Settled{}, err
	}
	rules.Settle(j, s, open, u.now)
	u.changed(j)
	u.rang = true
	answer := nexjob.Settled{}
	if j.State == nexjob.Succeeded && len(s.Followers) > 0 {
		if answer.Followers, err = u.follow(ctx, j, s.Followers); err != nil {
			return nexjob.Settled{}, err
		}
	}
	answer.State = j.ReportedState(u.now)
	if !j.State.Terminal() {
		return answer, nil
	}
	u.ends[j.ID] = j.State
	return answer, u.ended(ctx, j)
}

// endFamilies weighs the ends that settlements have gathered: one look for children
// serves many jobs.
func (u *Unit) endFamilies(ctx context.Context) error {
	ends := u.ends
	u.ends = make(map[nexjob.ID]nexjob.State)
	return u.bereave(ctx, ends)
}

func checkSettlement(s *nexjob.Settlement) error {
	refuse := func(field, why, remedy string) error {
		return &nexjob.InvalidError{Field: field, Why: why, Remedy: remedy}
	}
	switch {
	case s.As < nexjob.EndSucceeded || s.As > nexjob.EndCancelled:
		return refuse("ending", s.As.String(), "use one of EndSucceeded to EndCancelled")
	case len(s.Result) > nexjob.MaxResult:
		return refuse("result", fmt.Sprintf("%d bytes", len(s.Result)), fmt.Sprintf("at most %d", nexjob.MaxResult))
	case len(s.Followers) > nexjob.MaxFollowers:
		return refuse("followers", fmt.Sprint(len(s.Followers)), fmt.Sprintf("at most %d", nexjob.MaxFollowers))
	case len(s.Followers) > 0 && s.As != nexjob.EndSucceeded:
		return refuse("followers", "the attempt ended "+s.As.String(), "add followers with EndSucceeded")
	case s.Delay < 0 || s.Delay > nexjob.MaxDuration:
		return refuse("delay", s.Delay.String(), fmt.Sprintf("0 to %s", nexjob.MaxDuration))
	}
	return nil
}

// follow adds the jobs of a settlement. A follower that is rejected, mismatched or
// invalid does not undo the settlement; what became of it is kept on the job.
func (u *Unit) follow(ctx context.Context, j *nexjob.Job, items []nexjob.NewJob) ([]nexjob.Answer, error) {
	answers, err := u.Enqueue(ctx, items)
	if err != nil {
		return nil, err
	}
	for i, answer := range answers {
		if answer.Outcome == nexjob.Created && answer.Err == nil || len(j.Followers) >= nexjob.MaxFollowerKept {
			continue
		}
		follower := nexjob.Follower{ID: answer.ID, Key: keptKey(items[i].IdempotencyKey), Outcome: answer.Outcome}
		if answer.Err != nil {
			follower.Error = nexjob.CutText(answer.Err.Error(), nexjob.MaxName*4)
		}
		j.Followers = append(slices.Clip(j.Followers), follower)
	}
	return answers, nil
}

// keptKey is a follower's key as it is kept on the job: one that is none may be of
// any size and bytes, and is cut to what every engine can hold.
func keptKey(key string) string {
	if key == "" || nexjob.ValidateKey(key) == nil {
		return key
	}
	return nexjob.CutText(key, nexjob.MaxKey)
}

// settledBefore answers a repeated settlement. A follower that was created is found
// by its own ID; what became of another one is kept on the job.
func (u *Unit) settledBefore(
	ctx context.Context, j *nexjob.Job, s *nexjob.Settlement,
) (nexjob.Settled, error) {
	answer := nexjob.Settled{State: j.ReportedState(u.now)}
	if len(s.Followers) == 0 || j.State != nexjob.Succeeded {
		return answer, nil
	}
	var ids []nexjob.ID
	for i := range s.Followers {
		ids = append(ids, s.Followers[i].ID)
	}
	for i := range j.Followers {
		ids = append(ids, j.Followers[i].ID)
	}
	if err := u.load(ctx, ids); err != nil {
		return nexjob.Settled{}, err
	}
	kept := slices.Clone(j.Followers)
	answer.Followers = make([]nexjob.Answer, len(s.Followers))
	for i := range s.Followers {
		told := nexjob.Answer{ID: s.Followers[i].ID, Outcome: nexjob.Created}
		if u.job(told.ID) == nil {
			kept = tellKept(&told, keptKey(s.Followers[i].IdempotencyKey), kept)
			if told.Err == nil && told.Outcome == nexjob.Created && len(j.Followers) >= nexjob.MaxFollowerKept {
				told.Outcome, told.Err = 0, errNotKept // created and purged since, or refused
			}
		}
		if follower := u.job(told.ID); follower != nil {
			told.State, told.Operation = follower.ReportedState(u.now), follower.Operation
		} else {
			told.RecordGone = told.Err == nil
		}
		answer.Followers[i] = told
	}
	return answer, nil
}

// tellKept answers a follower that is not stored from the first kept answer under
// its key, and returns the other kept ones.
func tellKept(told *nexjob.Answer, key string, kept []nexjob.Follower) []nexjob.Follower {
	i := slices.IndexFunc(kept, func(f nexjob.Follower) bool { return f.Key == key })
	if i < 0 {
		return kept // created, and purged since
	}
	told.ID, told.Outcome = kept[i].ID, kept[i].Outcome
	if kept[i].Error != "" {
		told.Err = errors.New(kept[i].Error)
	}
	return slices.Delete(kept, i, i+1)
}

// endFamily does what follows when a job may just have ended: its key's life is
// counted, its children are weighed, and so on down the generations.
func (u *Unit) endFamily(ctx context.Context, first *nexjob.Job) error {
	if !first.State.Terminal() {
		return nil
	}
	if err := u.ended(ctx, first); err != nil {
		return err
	}
	return u.bereave(ctx, map[nexjob.ID]nexjob.State{first.ID: first.State})
}

// bereave weighs the ends of parents, zero meaning deleted, for their children.
func (u *Unit) bereave(ctx context.Context, ends map[nexjob.ID]nexjob.State) error {
	if len(ends) > 0 && !u.family {
		if has, err := u.rows.AnyChild(ctx); err != nil || !has {
			return err
		}
	}
	for len(ends) > 0 {
		if err := u.Flush(ctx); err != nil { // children are found among written records
			return err
		}
		parents := sortedIDs(ends)
		children, err := u.rows.Children(ctx, parents)
		if err != nil {
			return err
		}
		u.adopt(children)
		next := make(map[nexjob.ID]nexjob.State)
		for i := range children {
			child := u.job(children[i].ID)
			for _, parent := range parents {
				if !names(child, parent) {
					continue
				}
				rules.Weigh(child, parent, ends[parent], u.now)
				u.changed(child)
			}
			u.rang = true
			if child.State.Terminal() {
				if err := u.ended(ctx, child); err != nil {
					return err
				}
				next[child.ID] = child.State
			}
		}
		ends = next
	}
	return nil
}

func names(child *nexjob.Job, parent nexjob.ID) bool {
	for i := range child.Parents {
		if child.Parents[i].ID == parent && !child.Parents[i].Decided {
			return true
		}
	}
	return false
}
