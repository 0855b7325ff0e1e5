package nexjob

import (
	"context"
	"fmt"
	"time"
)

// JobExplanation is all that is known of one job, and why it stands where it stands.
// It is read in several steps, as an Explanation is.
type JobExplanation struct {
	At       time.Time // the storage's time
	Sentence string    // the cause and the remedy, for people
	Job      Job
	Receipts []Receipt // steps and effects of its operation, also those of its former jobs
	Children []Job     // jobs that wait or waited for it, oldest first
	// MoreChildren says that there are more than are shown.
	MoreChildren bool
}

// ExplainJob answers "why has this job not run, or not ended?": its record, the steps
// and effects of its operation, its children, and a sentence of cause and remedy. It
// never writes. The error is ErrNotFound if no such job is stored.
func (c *Client) ExplainJob(ctx context.Context, id ID) (JobExplanation, error) {
	var e JobExplanation
	err := c.do(ctx, "explain", func(now time.Time) error {
		page, err := c.store.Find(ctx, now, Query{IDs: []ID{id}, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) == 0 {
			return fmt.Errorf("job %s: %w", id, ErrNotFound)
		}
		e = JobExplanation{At: now, Job: page.Jobs[0]}
		return c.gatherJob(ctx, now, &e)
	})
	return e, err
}

func (c *Client) gatherJob(ctx context.Context, now time.Time, e *JobExplanation) error {
	job := &e.Job
	f := keyFacts{key: job.Key, now: now, jobs: []Job{*job}}
	if job.Key != "" {
		if err := c.gatherHolder(ctx, &f); err != nil {
			return err
		}
	}
	page, err := c.store.Find(ctx, now, Query{Of: Effects, Operations: []ID{job.Operation}, Limit: MaxReceipts})
	if err != nil {
		return err
	}
	f.receipts, e.Receipts = page.Effects, page.Effects
	children, err := c.store.Find(ctx, now, Query{Parent: job.ID, Limit: explainedJobs})
	if err != nil {
		return err
	}
	e.Children, e.MoreChildren = children.Jobs, children.Next != ""
	e.Sentence = f.jobSentence(job)
	return nil
}

// jobSentence says why a job stands where it stands, and what helps.
func (f *keyFacts) jobSentence(job *Job) string {
	name := fmt.Sprintf("Job %s of kind %q", job.ID, job.Kind)
	if state := job.ReportedState(f.now); state.Active() {
		return fmt.Sprintf("%s %s", name, f.activeClause(job, state))
	}
	return fmt.Sprintf("%s %s. %s", name, endClause(job), f.jobRemedy(job))
}

// jobRemedy says what can be done after a job's end.
func (f *keyFacts) jobRemedy(job *Job) string {
	free := job.Key == "" || f.row == nil || f.over()
	switch {
	case free && job.State == Succeeded:
		return "The work is done."
	case free:
		return "Requeue it: that continues its operation, so confirmed effects are not repeated."
	case f.row.Job != job.ID:
		return fmt.Sprintf("Its key %q has gone on to job %s: look at that one.", f.key, f.row.Job)
	}
	return f.remedy(f.last())
}
