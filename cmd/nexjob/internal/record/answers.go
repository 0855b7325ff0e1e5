package record

import (
	"context"
	"fmt"
	"io"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Answers writes what an action did to each job, as soon as it is known, and counts it.
type Answers struct {
	act     nexjob.Act
	out     view.Printer
	notes   io.Writer // where the sum goes
	counts  map[string]int
	written int
}

// NewAnswers writes changes to out and their sum to notes.
func NewAnswers(act nexjob.Act, out view.Printer, notes io.Writer) *Answers {
	return &Answers{act: act, out: out, notes: notes, counts: make(map[string]int)}
}

// Write writes the next changes.
func (n *Answers) Write(changes []Change) error {
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
func (n *Answers) sum() string {
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
func (n *Answers) End(ctx context.Context) error {
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
func (n *Answers) Unfinished() error {
	if n.written == 0 {
		return nil
	}
	return fmt.Errorf("before that: %s", n.sum())
}
