package record

import (
	"fmt"
	"io"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// How much of a key's history fits on one screen, the newest first. --json has all.
const (
	shownJobs      = 5
	shownAttempts  = 5
	shownEffects   = 10
	shownDecisions = 5
)

// WriteKey writes the explanation of a key for people: one screen, ending in the
// commands that help and in the sentence of cause and remedy.
func WriteKey(w io.Writer, e *nexjob.Explanation) error {
	p := &page{w: w}
	p.table(func(t *view.Table) { holder(t, e) })
	p.section("An enqueue now", len(e.Next), func(t *view.Table) {
		for _, next := range e.Next {
			t.Row("  under "+next.Policy.String(), ruled(next))
		}
	})
	jobs := e.Jobs[:min(len(e.Jobs), shownJobs)]
	p.section("Jobs with this key", len(jobs), func(t *view.Table) {
		for i := range jobs {
			j := &jobs[i]
			t.Row("  "+j.ID.String(), j.State, j.Kind, fmt.Sprintf("%d/%d", j.Tries, j.MaxAttempts), keyJobWhen(j), firstLine(j.Reason))
		}
	}, "  ID", "STATE", "KIND", "TRIES", "WHEN", "REASON")
	if len(e.Jobs) > len(jobs) || e.MoreJobs {
		p.line("  and older ones: nexjob jobs list --key %s", view.ShellKey(e.Key))
	}
	newestAttempts(p, jobs)
	told := operationEffects(jobs)
	p.section("Effects", len(told), func(t *view.Table) { effects(t, told[:min(len(told), shownEffects)]) }, effectHeads()...)
	decisions(p, &e.Decisions)
	for _, command := range remedies(e) {
		p.line("%s", command)
	}
	p.line("\n%s", e.Sentence)
	return p.err
}

func holder(t *view.Table, e *nexjob.Explanation) {
	t.Row("Key", view.Key(e.Key))
	h := e.Holder
	if h == nil {
		t.Row("Holder", "nobody")
		return
	}
	t.Row("Holder", fmt.Sprintf("job %s of kind %s, %s", h.Job, h.Kind, h.State))
	t.Row("Operation", h.Operation)
	if !h.Since.IsZero() {
		t.Row("Since", h.Since)
	}
	if !h.Ended.IsZero() {
		t.Row("Ended", h.Ended)
	}
	switch {
	case !h.Until.IsZero():
		t.Row("Held until", h.Until)
	case h.Active:
		t.Row("Held until", "it ends, and then as long as its record is kept")
	case !h.RecordGone:
		t.Row("Held until", "its record is purged or deleted")
	}
	if h.RecordGone {
		t.Row("Record", "purged")
	}
	if h.Cleared {
		t.Row("Cleared", "yes, after review")
	}
}

func ruled(next nexjob.NextEnqueue) string {
	switch next.Ruling {
	case nexjob.RuleExisting:
		return "answers the job that holds the key"
	case nexjob.RuleReject:
		return "is rejected"
	case nexjob.RuleCreate:
		if next.Continues {
			return "creates a job that continues the operation"
		}
		return "creates a job of a new operation"
	}
	return next.Ruling.String()
}

func keyJobWhen(j *nexjob.KeyJob) string {
	switch {
	case !j.EndedAt.IsZero():
		return "ended " + second(j.EndedAt)
	case j.State == nexjob.Processing || j.DueAt.IsZero():
		return "enqueued " + second(j.EnqueuedAt)
	}
	return "due " + second(j.DueAt)
}

// newestAttempts tells the newest ended runs of the newest job that has any.
func newestAttempts(p *page, jobs []nexjob.KeyJob) {
	for i := range jobs {
		all := jobs[i].Attempts
		if len(all) == 0 {
			continue
		}
		all = all[max(0, len(all)-shownAttempts):]
		p.section("Attempts of job "+jobs[i].ID.String(), len(all), func(t *view.Table) { attempts(t, all, firstLine) })
		return
	}
}

// operationEffects returns each effect once: jobs of one operation share them.
func operationEffects(jobs []nexjob.KeyJob) []Effect {
	var all []Effect
	seen := make(map[nexjob.ID]bool)
	for i := range jobs {
		if seen[jobs[i].Operation] {
			continue
		}
		seen[jobs[i].Operation] = true
		for _, e := range jobs[i].Effects {
			all = append(all, Effect{KeyEffect: e})
		}
	}
	return all
}

func decisions(p *page, d *nexjob.KeyDecisions) {
	p.section("Duplicates so far", len(d.Counts), func(t *view.Table) {
		for _, n := range d.Counts {
			t.Row(fmt.Sprintf("  %d %s", n.Count, n.Outcome), "kind "+n.Kind)
		}
	})
	last := d.Last[:min(len(d.Last), shownDecisions)]
	p.section("The last ones", len(last), func(t *view.Table) {
		for _, one := range last {
			differ := ""
			if one.ArgsDiffer {
				differ = "args differed"
			}
			t.Row("  "+second(one.At), one.Outcome, "under "+one.Policy.String(), "job "+one.Job.String(), differ)
		}
	})
}

// remedies are the commands that the sentence speaks of.
func remedies(e *nexjob.Explanation) []string {
	h := e.Holder
	if h == nil {
		return nil
	}
	var lines []string
	switch h.State {
	case nexjob.Uncertain:
		lines = append(lines, resolveCommand(h.Job))
	case nexjob.Enqueued, nexjob.Scheduled, nexjob.Processing, nexjob.AwaitingContinuation:
		lines = append(lines, "nexjob jobs cancel "+h.Job.String())
	case nexjob.Failed, nexjob.Expired, nexjob.Cancelled:
		if !h.RecordGone {
			lines = append(lines, "nexjob jobs requeue "+h.Job.String())
		}
		fallthrough
	case nexjob.Succeeded:
		if !h.Cleared {
			lines = append(lines, "nexjob jobs clear-key --key "+view.ShellKey(e.Key)+" --reason …")
		}
	}
	if !h.RecordGone {
		lines = append(lines, "nexjob jobs show "+h.Job.String())
	}
	return commands(lines)
}

func resolveCommand(job nexjob.ID) string {
	return "nexjob jobs resolve " + job.String() + " --verdict applied|not-applied|compensate --reason …"
}

// commands puts commands below their heading, if there are any.
func commands(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return append([]string{"\nCommands"}, lines...)
}
