package record

import (
	"context"
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

// Changes writes what an action did to each job, as soon as it is known, and counts it.
type Changes struct {
	act     nexjob.Act
	out     view.Printer
	notes   io.Writer // where the sum goes
	counts  map[string]int
	written int
}

// NewChanges writes changes to out and their sum to notes.
func NewChanges(act nexjob.Act, out view.Printer, notes io.Writer) *Changes {
	return &Changes{act: act, out: out, notes: notes, counts: make(map[string]int)}
}

// Write writes the next changes.
func (n *Changes) Write(changes []Change) error {
	for i := range changes {
		n.counts[changes[i].Answer]++
		if n.out.JSON {
			if err := view.WriteJSON(n.out.Out, changes[i]); err != nil {
				return err
			}
		}
	}
	first := n.written == 0
	n.written += len(changes)
	if n.out.JSON {
		return nil
	}
	return WriteChanges(n.out.Out, changes, first)
}

// sum says how many were answered in which way.
func (n *Changes) sum() string {
	text := ""
	for _, answer := range []string{Would, Done, Held, Refused, Skipped} {
		if n.counts[answer] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", n.counts[answer], answer)
	}
	if n.counts[Would] > 0 {
		text += " be touched; nothing was changed"
	}
	return fmt.Sprintf("%s: %s", n.act, text)
}

// End is the command's end: an error if a job was refused, or a stop came between.
func (n *Changes) End(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped half-way: %s", n.sum())
	}
	if n.counts[Refused] > 0 {
		return fmt.Errorf("%s", n.sum())
	}
	fmt.Fprintln(n.notes, n.sum())
	return nil
}

// Unfinished says, beside an error, how far it came; nil if it did not begin.
func (n *Changes) Unfinished() error {
	if n.written == 0 {
		return nil
	}
	return fmt.Errorf("before that: %s", n.sum())
}
