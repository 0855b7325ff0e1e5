package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// The answers of a Change.
const (
	Done    = "done"
	Held    = "held"    // an effect without an outcome holds the wished end up
	Refused = "refused" // Why says the reason
	Skipped = "skipped" // it changed between the search and the action
	Would   = "would"   // a dry run
)

// Change is what an action did to one job.
type Change struct {
	Job      nexjob.ID     `json:"id"`
	Key      string        `json:"key,omitempty"`
	Answer   string        `json:"answer"`
	State    *nexjob.State `json:"state,omitempty"` // afterwards; none: the record is gone
	Why      string        `json:"why,omitempty"`
	FollowUp *FollowUp     `json:"follow_up,omitempty"`
}

// FollowUp is the job that makes up for an effect.
type FollowUp struct {
	ID      nexjob.ID      `json:"id"`
	Outcome nexjob.Outcome `json:"outcome"`
}

// ChangeOf makes a Change of what Amend answered.
func ChangeOf(act nexjob.Act, c *nexjob.Change) Change {
	out := Change{Job: c.Job, Key: c.Key, Answer: Done}
	if c.State != 0 {
		out.State = &c.State
	}
	switch {
	case act == nexjob.ActClearKey && errors.Is(c.Err, nexjob.ErrNotFound):
		out.Answer, out.Why = Refused, "its key is free, or has gone on to another job"
	case c.Err != nil:
		out.Answer, out.Why = Refused, view.Reason(c.Err)
	case c.State == nexjob.Uncertain && act != nexjob.ActResolve && act != nexjob.ActClearKey:
		out.Answer = Held
		out.Why = "an effect has no outcome; look at the outside service and resolve it"
	case c.State == nexjob.Uncertain && act == nexjob.ActResolve:
		out.Why = "another effect has no outcome yet"
	case c.State == nexjob.Processing && act == nexjob.ActCancel:
		out.Why = "its worker has been asked to stop"
	}
	if f := c.FollowUp; f != nil && f.Err == nil {
		out.FollowUp = &FollowUp{f.ID, f.Outcome}
		if out.Why == "" {
			out.Why = fmt.Sprintf("follow-up job %s %s", f.ID, f.Outcome)
		}
	}
	return out
}

// WriteChanges writes changes for people; the first part of a long answer has heads.
func WriteChanges(w io.Writer, changes []Change, first bool) error {
	var heads []string
	if first {
		heads = []string{"ID", "ANSWER", "STATE", "KEY", "WHY"}
	}
	t := view.NewTable(w, heads...)
	for i := range changes {
		c := &changes[i]
		state := "-"
		if c.State != nil {
			state = c.State.String()
		}
		t.Row(c.Job, fmt.Sprintf("%-7s", c.Answer), state, keyCell(c.Key), c.Why)
	}
	return t.Flush()
}
