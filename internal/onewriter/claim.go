package onewriter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

const (
	recoverDefault = 100
	// lateLimit bounds the jobs past their deadline that one claim ends before it
	// answers with fewer jobs than asked for.
	lateLimit = 1000
)

// Claim recovers leases that ran out and leases due jobs, as nexjob.Queue says.
func (u *Unit) Claim(ctx context.Context, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if err := CheckClaim(&ask); err != nil {
		return nil, err
	}
	u.quiet = u.quiet || u.beat && u.last.Quiet(u.now, ask.Lease)
	if err := u.recover(ctx, &ask); err != nil {
		return nil, err
	}
	var claimed []nexjob.Claimed
	late := 0
	for _, queue := range ask.Queues {
		for len(claimed) < ask.N && late < lateLimit {
			if err := u.Flush(ctx); err != nil { // Due reads written records
				return nil, err
			}
			want := ask.N - len(claimed)
			due, err := u.rows.Due(ctx, u.now, queue, ask.Kinds, want)
			if err != nil {
				return nil, err
			}
			u.adopt(due)
			var expired int
			if claimed, expired, err = u.take(ctx, due, &ask, claimed); err != nil {
				return nil, err
			}
			late += expired
			if expired == 0 || len(due) < want {
				break
			}
		}
	}
	if err := u.withBodies(ctx, claimed); err != nil {
		return nil, err
	}
	return claimed, u.withReceipts(ctx, claimed)
}

// CheckClaim refuses a claim that asks for what there is not, and fills in the
// defaults.
func CheckClaim(ask *nexjob.ClaimRequest) error {
	refuse := func(field, why, remedy string) error {
		return &nexjob.InvalidError{Field: field, Why: why, Remedy: remedy}
	}
	switch {
	case len(ask.Throttles) > 0:
		return fmt.Errorf("claim by throttles: %w", nexjob.ErrUnsupported)
	case ask.N < 0 || ask.N > nexjob.MaxPage:
		return refuse("claim", fmt.Sprintf("%d jobs", ask.N), fmt.Sprintf("0 to %d", nexjob.MaxPage))
	case ask.Lease < 10*time.Millisecond || ask.Lease > nexjob.MaxDuration:
		return refuse("lease", ask.Lease.String(), "10 ms to ten years")
	case ask.CrashLimit < 0:
		return refuse("crash limit", fmt.Sprint(ask.CrashLimit), "0 for the default, or more")
	case ask.Recover < 0:
		return refuse("recover", fmt.Sprint(ask.Recover), "0 for the default, or more")
	}
	if ask.CrashLimit == 0 {
		ask.CrashLimit = nexjob.DefaultCrashLimit
	}
	if ask.Recover == 0 {
		ask.Recover = recoverDefault
	}
	ask.Kinds, ask.Queues = distinct(ask.Kinds), distinct(ask.Queues)
	return nil
}

// distinct leaves out what a list names again, so that no engine finds a job twice.
func distinct(names []string) []string {
	for i := range names {
		if slices.Contains(names[:i], names[i]) {
			kept := slices.Clone(names[:i])
			for _, name := range names[i+1:] {
				if !slices.Contains(kept, name) {
					kept = append(kept, name)
				}
			}
			return kept
		}
	}
	return names
}

// recover takes jobs away from workers whose leases ran out.
func (u *Unit) recover(ctx context.Context, ask *nexjob.ClaimRequest) error {
	leased, err := u.rows.Leased(ctx, u.now, ask.Recover)
	if err != nil {
		return err
	}
	u.adopt(leased)
	for i := range leased {
		j := u.job(leased[i].ID)
		if j == nil || j.State != nexjob.Processing || !u.pulse.Dead(j, u.now) {
			continue
		}
		open, err := u.open(ctx, j)
		if err != nil {
			return err
		}
		rules.Recover(j, open, ask.CrashLimit, u.now)
		u.changed(j)
		u.rang = true
		if err := u.endFamily(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// take leases due jobs and ends those that are past their deadline.
func (u *Unit) take(
	ctx context.Context, due []nexjob.Job, ask *nexjob.ClaimRequest, claimed []nexjob.Claimed,
) (all []nexjob.Claimed, expired int, err error) {
	var live []*nexjob.Job
	for i := range due {
		j := u.job(due[i].ID)
		if !rules.Late(j, u.now) {
			live = append(live, j)
			continue
		}
		open, err := u.open(ctx, j)
		if err != nil {
			return nil, 0, err
		}
		rules.Expire(j, open, u.now)
		u.changed(j)
		expired++
		if err := u.endFamily(ctx, j); err != nil {
			return nil, 0, err
		}
	}
	if len(live) == 0 {
		return claimed, expired, nil
	}
	fence, err := u.rows.Fences(ctx, len(live))
	if err != nil {
		return nil, 0, err
	}
	claimed = slices.Grow(claimed, len(live))
	for i, j := range live {
		lookup := j.State == nexjob.Uncertain
		rules.Claim(j, u.now, fence+int64(i), ask)
		u.changed(j)
		claimed = append(claimed, nexjob.Claimed{Job: *j, Lookup: lookup})
	}
	return claimed, expired, nil
}

func (u *Unit) withBodies(ctx context.Context, claimed []nexjob.Claimed) error {
	if len(claimed) == 0 {
		return nil
	}
	jobs := make([]*nexjob.Job, len(claimed))
	for i := range claimed {
		jobs[i] = &claimed[i].Job
	}
	if u.chosen { // in this unit, so it may not be written yet
		if err := u.Flush(ctx); err != nil {
			return err
		}
	}
	return u.rows.Bodies(ctx, jobs)
}

func (u *Unit) withReceipts(ctx context.Context, claimed []nexjob.Claimed) error {
	var operations []nexjob.ID
	for i := range claimed {
		if claimed[i].Job.ReceiptCount > 0 {
			operations = append(operations, claimed[i].Job.Operation)
		}
	}
	if err := u.loadReceipts(ctx, operations); err != nil {
		return err
	}
	for i := range claimed {
		if l := u.receipts[claimed[i].Job.Operation]; l != nil {
			claimed[i].Receipts = append([]nexjob.Receipt(nil), l.receipts...)
		}
	}
	return nil
}

// Renew extends leases by a length from now, as nexjob.Queue says. Nobody else
// writes meanwhile, so no lease is busy; see Patience.
func (u *Unit) Renew(
	ctx context.Context, length time.Duration, leases []nexjob.Lease,
) ([]nexjob.Renewal, error) {
	length = min(length, nexjob.MaxDuration)
	ids := make([]nexjob.ID, len(leases))
	for i := range leases {
		ids[i] = leases[i].Job
	}
	if err := u.load(ctx, ids); err != nil {
		return nil, err
	}
	answers := make([]nexjob.Renewal, len(leases))
	for i, lease := range leases {
		j := u.job(lease.Job)
		if !rules.Current(j, lease) {
			answers[i] = nexjob.Renewal{Status: nexjob.Lost}
			continue
		}
		if until := rules.Micro(u.now.Add(length)); until.After(j.LeaseUntil) {
			j.LeaseUntil, j.LeaseFor = until, length
			u.changed(j)
		}
		answers[i] = nexjob.Renewal{Status: nexjob.Renewed, Until: j.LeaseUntil, Stop: j.Stop}
	}
	return answers, nil
}
