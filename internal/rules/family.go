package rules

import (
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
)

// Weigh weighs the end of a parent for a waiting child: once, by the parent's
// first end. State zero stands for a parent that was deleted. It reports whether
// the child's state changed: released when every parent is decided, or cancelled
// when its rule can no longer be met.
func Weigh(child *nexjob.Job, parent nexjob.ID, state nexjob.State, now time.Time) bool {
	if child.State != nexjob.AwaitingContinuation {
		return false
	}
	undecided := 0
	child.Parents = slices.Clone(child.Parents) // records of others may share the array
	for i := range child.Parents {
		p := &child.Parents[i]
		if p.ID == parent && !p.Decided {
			p.Decided = true
			if !met(p.Rule, state) {
				end(child, nexjob.Cancelled, impossible(p, state), nil, now)
				return true
			}
		}
		if !p.Decided {
			undecided++
		}
	}
	if undecided > 0 {
		return false
	}
	release(child, now)
	return true
}

// Await makes a new job with parents wait for them.
func Await(child *nexjob.Job, item *nexjob.NewJob) {
	child.State, child.DueAt = nexjob.AwaitingContinuation, asked(item)
}

func release(child *nexjob.Job, now time.Time) {
	due := Micro(now.Add(child.Delay))
	if child.DueAt.After(due) {
		due = child.DueAt
	}
	child.State, child.DueAt = nexjob.Enqueued, clamp(due, child.Deadline)
}

func met(rule nexjob.Rule, state nexjob.State) bool {
	switch rule {
	case nexjob.OnSuccess:
		return state == nexjob.Succeeded
	case nexjob.OnFailure:
		return state == nexjob.Failed || state == nexjob.Expired
	case nexjob.OnAnyEnd:
		return true
	}
	return false
}

func impossible(p *nexjob.Parent, state nexjob.State) string {
	how := "was deleted"
	if state != 0 {
		how = "ended " + state.String()
	}
	return fmt.Sprintf("parent %s %s; this job runs %s", p.ID, how, p.Rule)
}
