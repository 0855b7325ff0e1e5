package nexjob

import (
	"fmt"
	"strings"
	"time"
)

// sentence says the cause and the remedy. Its words are those of the acts: requeue,
// clear the key, resolve, cancel.
func (f *keyFacts) sentence() string {
	last := f.last()
	switch {
	case last == 0:
		return f.freeSentence()
	case f.record() == nil:
		return f.goneSentence(last)
	case last.Active():
		return fmt.Sprintf("Key %q is held by job %s of kind %q, which %s",
			f.key, f.row.Job, f.row.Kind, f.activeClause(f.record(), last))
	}
	job := f.record()
	return fmt.Sprintf("Job %s of kind %q %s. %s", job.ID, job.Kind, endClause(job), f.remedy(last))
}

// freeSentence speaks of a key that nobody holds.
func (f *keyFacts) freeSentence() string {
	switch {
	case f.row != nil:
		return fmt.Sprintf("Nobody holds key %q: its life ended at %s, after job %s. "+
			"An enqueue creates a job of a new operation under every policy.",
			f.key, clockTime(f.row.Until), f.row.Job)
	case len(f.jobs) > 0:
		job := &f.jobs[0]
		return fmt.Sprintf("Nobody holds key %q any more: its life is over. Its last job %s %s. "+
			"An enqueue creates a job of a new operation under every policy.", f.key, job.ID, endClause(job))
	case len(f.decisions.Counts) > 0:
		return fmt.Sprintf("Nobody holds key %q: the jobs it was used for were deleted, or purged after their "+
			"retention. An enqueue creates a job.", f.key)
	}
	return fmt.Sprintf("Key %q was never used, or the jobs it was used for were deleted or purged. "+
		"If a job was expected, its enqueue never arrived or was rolled back; an enqueue creates one.", f.key)
}

// goneSentence speaks of a key that outlived its job's record.
func (f *keyFacts) goneSentence(last State) string {
	life := "has no end: it lives until it is cleared"
	if !f.row.Until.IsZero() {
		life = "ends at " + clockTime(f.row.Until)
	}
	return fmt.Sprintf("Job %s of kind %q ended %s and its record is purged; the life of key %q %s. %s",
		f.row.Job, f.row.Kind, last, f.key, life, f.remedy(last))
}

// activeClause says why an active job has not ended, and what helps.
func (f *keyFacts) activeClause(job *Job, state State) string {
	switch state {
	case Processing:
		return f.processingClause(job)
	case Uncertain:
		return f.uncertainClause(job)
	case AwaitingContinuation:
		return fmt.Sprintf("waits for %s; it runs or is cancelled when they end.", waitedFor(job))
	case Scheduled:
		if job.Tries > 0 {
			return fmt.Sprintf("failed in %s%s; it is tried again at %s.",
				times(job.Tries, "try", "tries"), because(job.Reason), clockTime(job.DueAt))
		}
		return fmt.Sprintf("is due at %s%s.", clockTime(job.DueAt), because(job.Reason))
	case Enqueued, Succeeded, Failed, Expired, Cancelled:
	}
	before := "has been due since "
	if job.Tries > 0 {
		before = fmt.Sprintf("failed in %s%s; it has been due again since ",
			times(job.Tries, "try", "tries"), because(job.Reason))
	}
	return fmt.Sprintf("%s%s and waits for a free worker. If it stays so, see whether a worker "+
		"serves queue %q and kind %q, and whether they are paused.", before, clockTime(job.DueAt), job.Queue, job.Kind)
}

func (f *keyFacts) processingClause(job *Job) string {
	switch {
	case !job.LeaseUntil.After(f.now):
		return fmt.Sprintf("was claimed by worker %q, whose lease ended at %s: that worker is lost or cannot reach "+
			"the storage. The next claim recovers the job by itself.", job.Worker, clockTime(job.LeaseUntil))
	case job.Stop:
		return fmt.Sprintf("is run by worker %q since %s and has been asked to stop%s.",
			job.Worker, clockTime(job.StartedAt), because(job.StopReason))
	}
	return fmt.Sprintf("is run by worker %q since %s under a lease until %s; wait for it, or cancel it.",
		job.Worker, clockTime(job.StartedAt), clockTime(job.LeaseUntil))
}

func (f *keyFacts) uncertainClause(job *Job) string {
	var open []string
	for i := range f.receipts {
		r := &f.receipts[i]
		if r.Operation != job.Operation || !r.Open() {
			continue
		}
		text := fmt.Sprintf("effect %q (outside key %s", r.Name, r.OutsideKey)
		if r.Item != "" {
			text = fmt.Sprintf("effect %q for %q (outside key %s", r.Name, r.Item, r.OutsideKey)
		}
		if from := r.NotAppliedFrom(); from.After(f.now) {
			text += ", \"not applied\" is accepted from " + clockTime(from)
		}
		open = append(open, text+")")
	}
	what := "is Uncertain: an outside effect"
	if len(open) > 0 {
		what = "is Uncertain: " + strings.Join(open, " and ")
	}
	wish := ""
	if job.Wished != 0 {
		wish = fmt.Sprintf(" It then ends as %s.", job.Wished)
	}
	remedy := "Look at the outside service, then resolve it as applied, not applied or compensate."
	if !job.DueAt.IsZero() {
		remedy = fmt.Sprintf("It is looked up by itself at %s; to be quicker, resolve it as applied, "+
			"not applied or compensate.", clockTime(job.DueAt))
	}
	return fmt.Sprintf("%s may or may not have happened%s. %s%s", what, because(job.Reason), remedy, wish)
}

// endClause says how a job ended.
func endClause(job *Job) string {
	when := " at " + clockTime(job.EndedAt)
	switch job.State {
	case Succeeded:
		return "succeeded" + when
	case Failed:
		if job.Crashes > 0 && job.Tries == 0 {
			return fmt.Sprintf("failed%s after %s%s", when,
				times(job.Crashes, "lost worker", "lost workers"), because(job.Reason))
		}
		return fmt.Sprintf("failed%s after %s%s", when, times(job.Tries, "try", "tries"), because(job.Reason))
	case Expired:
		return fmt.Sprintf("expired%s: it had not started by its deadline %s", when, clockTime(job.Deadline))
	case Cancelled:
		return "was cancelled" + when + because(job.Reason)
	case Enqueued, Scheduled, Processing, AwaitingContinuation, Uncertain:
	}
	return "is " + job.State.String()
}

// remedy says what an enqueue does after an end, and what else can be done.
func (f *keyFacts) remedy(last State) string {
	requeue := ""
	if f.record() != nil {
		requeue = "Requeue it, or " // what is purged cannot be requeued
	}
	switch {
	case f.row.Cleared && last == Succeeded:
		return "Its key was cleared after review: the next enqueue creates a job of a new operation under every policy."
	case f.row.Cleared:
		return "Its key was cleared after review: the next enqueue creates a job under every policy and continues " +
			"its operation, so confirmed effects are not repeated."
	case last == Succeeded:
		return fmt.Sprintf("The work is done. RejectAlways rejects another enqueue %s; the other policies create a "+
			"job of a new operation, which does the work again.", f.lifeClause())
	case last == Failed:
		return requeue + sentenceStart(requeue, "enqueue again under AllowAfterFailed: either continues its operation, "+
			"so confirmed effects are not repeated. RejectIfFailed and RejectAlways reject an enqueue "+
			f.lifeClause()+", unless the key is cleared after review.")
	}
	return requeue + sentenceStart(requeue, "enqueue again under AllowAfterFailed or RejectIfFailed: either continues "+
		"its operation, so confirmed effects are not repeated. RejectAlways rejects an enqueue "+
		f.lifeClause()+", unless the key is cleared after review.")
}

// lifeClause says how long the key goes on to be held.
func (f *keyFacts) lifeClause() string {
	if !f.row.Until.IsZero() {
		return "until " + clockTime(f.row.Until)
	}
	return "as long as the job's record is kept"
}

// sentenceStart gives text a capital unless something stands before it.
func sentenceStart(before, text string) string {
	if before != "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func waitedFor(job *Job) string {
	var ids []string
	for _, p := range job.Parents {
		if !p.Decided {
			ids = append(ids, fmt.Sprintf("job %s (%s)", p.ID, p.Rule))
		}
	}
	const shown = 5
	if len(ids) > shown {
		ids = append(ids[:shown], fmt.Sprintf("%d more", len(ids)-shown))
	}
	return strings.Join(ids, ", ")
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	const shown = 300
	return ": " + strings.TrimRight(CutText(reason, shown), ". ")
}

func times(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
