package rules

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// Window is the page that a query asks for.
type Window struct {
	Limit int
	Job   nexjob.ID // Jobs: the last ID of the page before; zero: none
	After string    // Keys: the last key; Effects: the last position
	First bool      // there is no page before
}

// Paging checks a query's subject and page fields.
func Paging(q *nexjob.Query) (Window, error) {
	refuse := func(field, why, remedy string) (Window, error) {
		return Window{}, &nexjob.InvalidError{Field: "query " + field, Why: why, Remedy: remedy}
	}
	w := Window{Limit: q.Limit, First: q.After == ""}
	if w.Limit == 0 {
		w.Limit = nexjob.DefaultPage
	}
	if w.Limit < 0 || w.Limit > nexjob.MaxPage {
		return refuse("limit", fmt.Sprint(q.Limit), fmt.Sprintf("1 to %d", nexjob.MaxPage))
	}
	if q.Of > nexjob.Effects {
		return refuse("subject", fmt.Sprint(uint8(q.Of)), "use Jobs, Keys or Effects")
	}
	if w.First {
		return w, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil {
		return refuse("after", "it is not a page's Next", "pass Page.Next as it is")
	}
	w.After = string(raw)
	if q.Of == nexjob.Jobs {
		if len(raw) != len(w.Job) {
			return refuse("after", "it is not a page's Next", "pass Page.Next of the same query")
		}
		copy(w.Job[:], raw)
	}
	return w, nil
}

// NextJobs names the position after a job.
func NextJobs(last nexjob.ID) string { return base64.RawURLEncoding.EncodeToString(last[:]) }

// NextKeys names the position after a key.
func NextKeys(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

// NextEffects names the position after a receipt.
func NextEffects(last *nexjob.Receipt) string { return NextKeys(Position(last)) }

// Position orders receipts: by operation, then slot, bytewise.
func Position(r *nexjob.Receipt) string { return string(r.Operation[:]) + r.Slot() }

// Selects reports whether a query selects a job, whatever its page.
func Selects(q *nexjob.Query, j *nexjob.Job, now time.Time) bool {
	return oneOf(q.IDs, j.ID) && oneOf(q.Operations, j.Operation) &&
		oneOf(q.Kinds, j.Kind) && oneOf(q.Queues, j.Queue) &&
		oneOf(q.States, j.ReportedState(now)) &&
		(q.Key == "" || q.Key == j.Key) &&
		(q.KeyPrefix == "" || strings.HasPrefix(j.Key, q.KeyPrefix)) &&
		(q.DeadlineBefore.IsZero() || !j.Deadline.IsZero() && !j.Deadline.After(q.DeadlineBefore)) &&
		(q.EndedBefore.IsZero() || !j.EndedAt.IsZero() && !j.EndedAt.After(q.EndedBefore)) &&
		(q.Parent.IsZero() || slices.ContainsFunc(j.Parents, func(p nexjob.Parent) bool { return p.ID == q.Parent })) &&
		(len(q.AnyTags) == 0 || slices.ContainsFunc(q.AnyTags, func(tag string) bool { return slices.Contains(j.Tags, tag) })) &&
		!slices.ContainsFunc(q.Tags, func(tag string) bool { return !slices.Contains(j.Tags, tag) })
}

func oneOf[T comparable](wanted []T, have T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, have)
}
