package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// Tidying makes the answers of two storages comparable. Equal must be everything
// but numbers that each storage draws by itself: fences, the IDs of operations that
// a requeue began, and the little that a lease is longer for waiting.

// poolSize is how many job IDs a history uses.
const poolSize = 16

// poolID is a job ID of the histories: made up, in order.
func poolID(n int) nexjob.ID {
	id := nexjob.ID{0x01, 0xa0, 0, 0, 0, 0, 0x70, 0, 0x80}
	id[15] = byte(n) //nolint:gosec // a small number
	return id
}

// operation renames an operation that an engine named: the first is 100, and so on.
func (p *player) operation(id nexjob.ID) nexjob.ID {
	prefix := poolID(0)
	if id.IsZero() || slices.Equal(id[:15], prefix[:15]) {
		return id
	}
	if _, known := p.operations[id]; !known {
		p.operations[id] = poolID(100 + len(p.operations))
	}
	return p.operations[id]
}

// fence renames a fence by the order of the claims.
func (p *player) fence(f int64) int64 {
	if f == 0 {
		return 0
	}
	if _, known := p.fences[f]; !known {
		p.fences[f] = int64(len(p.fences) + 1)
	}
	return p.fences[f]
}

func (p *player) tidyJob(j nexjob.Job) nexjob.Job {
	j.Operation = p.operation(j.Operation)
	j.Fence, j.SettledFence = p.fence(j.Fence), p.fence(j.SettledFence)
	j.LeaseUntil = tidyUntil(j.LeaseUntil)
	j.Attempts = slices.Clone(j.Attempts)
	for i := range j.Attempts {
		j.Attempts[i].Fence = p.fence(j.Attempts[i].Fence)
	}
	return j
}

// tidyUntil keeps of a lease's end that there is one.
func tidyUntil(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return someTime()
}

func (p *player) tidyReceipt(r nexjob.Receipt) nexjob.Receipt {
	if r.OutsideKey == nexjob.OutsideKey(r.Operation, r.Name, r.Item, r.Turn) {
		r.OutsideKey = "derived"
	}
	r.Operation, r.Writer.Fence = p.operation(r.Operation), p.fence(r.Writer.Fence)
	return r
}

func (p *player) tidyAnswer(a nexjob.Answer) nexjob.Answer {
	a.Operation, a.Err = p.operation(a.Operation), p.tidyError(a.Err)
	return a
}

func (p *player) tidyPage(page nexjob.Page) nexjob.Page {
	page.Jobs, page.Keys, page.Effects = slices.Clone(page.Jobs), slices.Clone(page.Keys), slices.Clone(page.Effects)
	for i := range page.Jobs {
		page.Jobs[i] = p.tidyJob(page.Jobs[i])
	}
	for i := range page.Keys {
		page.Keys[i].Operation = p.operation(page.Keys[i].Operation)
	}
	for i := range page.Effects {
		page.Effects[i] = p.tidyReceipt(page.Effects[i])
	}
	// Operations that an engine named sort by its own names.
	slices.SortStableFunc(page.Effects, func(x, y nexjob.Receipt) int { return x.Operation.Compare(y.Operation) })
	return page
}

// told is an error as the comparison sees it: its type and data, or the facts that
// it matches. Its words are each engine's own.
type told string

// Error is what the comparison sees.
func (t told) Error() string { return string(t) }

// Is makes equal what is told equally.
func (t told) Is(target error) bool {
	other, ok := target.(told)
	return ok && other == t
}

func (p *player) tidyError(err error) error {
	if err == nil {
		return nil
	}
	var (
		duplicate *nexjob.DuplicateJobError
		mismatch  *nexjob.KeyMismatchError
		reused    *nexjob.IDReusedError
		invalid   *nexjob.InvalidError
		effect    *nexjob.EffectMismatchError
		unknown   *nexjob.StillUnknownError
	)
	switch {
	case errors.As(err, &duplicate):
		return told(fmt.Sprintf("duplicate %+v", *duplicate))
	case errors.As(err, &mismatch):
		return told(fmt.Sprintf("mismatch %+v", *mismatch))
	case errors.As(err, &reused):
		return told(fmt.Sprintf("ID reused %+v", *reused))
	case errors.As(err, &invalid):
		return told("invalid " + invalid.Field)
	case errors.As(err, &effect):
		e := *effect
		e.Operation = p.operation(e.Operation)
		return told(fmt.Sprintf("effect mismatch %+v", e))
	case errors.As(err, &unknown):
		return told(fmt.Sprintf("still unknown %s %s until %s", unknown.Name, unknown.Item, unknown.Until.UTC()))
	}
	text := []string{"error"}
	for _, fact := range facts() {
		if errors.Is(err, fact) {
			text = append(text, fact.Error())
		}
	}
	return told(strings.Join(text, "; "))
}
