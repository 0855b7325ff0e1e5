package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// answers writes what an action did to each job, as soon as it is known, and counts it.
type answers struct {
	act     nexjob.Act
	out     view.Printer
	notes   io.Writer
	counts  map[string]int
	written int
}

func (a *amendment) answers(cmd *cobra.Command) *answers {
	return &answers{act: a.do.Act, out: printer(cmd), notes: cmd.ErrOrStderr(), counts: make(map[string]int)}
}

func (n *answers) write(changes []record.Change) error {
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
	return record.WriteChanges(n.out.Out, changes, first)
}

// sum says how many were answered in which way.
func (n *answers) sum() string {
	text := ""
	for _, answer := range []string{record.Would, record.Done, record.Held, record.Refused, record.Skipped} {
		if n.counts[answer] == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %s", n.counts[answer], answer)
	}
	if n.counts[record.Would] > 0 {
		text += " be touched; nothing was changed"
	}
	return fmt.Sprintf("%s: %s", n.act, text)
}

// end is the command's end: an error if a job was refused, or a stop came between.
func (n *answers) end(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stopped half-way: %s", n.sum())
	}
	if n.counts[record.Refused] > 0 {
		return fmt.Errorf("%s", n.sum())
	}
	fmt.Fprintln(n.notes, n.sum())
	return nil
}

// unfinished says, beside an error, how far it came; nil if it did not begin.
func (n *answers) unfinished() error {
	if n.written == 0 {
		return nil
	}
	return fmt.Errorf("before that: %s", n.sum())
}
