// Package bulk enqueues JSON Lines, a job per line, in constant memory. Bad lines are
// named and the rest goes in; a run that is cut short can simply be made again, because
// the lines carry their idempotency keys. It stands on a client and on package input,
// and knows no flags. Start at Run.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Bounds of a batch. A batch is one commit, so many lines share one flush of the disk.
const (
	batchLines = 1000
	batchBytes = 8 << 20                // what a batch may hold of long lines
	linger     = 100 * time.Millisecond // a batch that does not fill is sent after this
	lastCall   = 10 * time.Second       // what an interrupt leaves the batch under way
)

// Enqueuer is what a run needs of a client.
type Enqueuer interface {
	EnqueueMany(ctx context.Context, jobs []nexjob.NewJob) ([]nexjob.Answer, error)
}

// Options are the choices of a run.
type Options struct {
	Kind    string
	Job     nexjob.Options // of every line; its IdempotencyKey is not used
	Key     *input.Field   // where a line's idempotency key stands; nil: lines have none
	Prefix  string         // before each key
	Invalid io.Writer      // gets a Bad as JSON for every bad line as it is met; may be nil
	// Progress is told after each batch how many lines are done; may be nil.
	Progress func(lines int)
}

// Run enqueues the lines of from. When ctx ends it finishes the batch under way and
// answers what was done, with the context's error; the same holds, with what was met,
// when reading or the storage fails. A line that cannot become a job, or that the
// storage refuses, is an entry of the summary and no error.
func Run(ctx context.Context, to Enqueuer, from io.Reader, o Options) (*Summary, error) {
	r := &run{to: to, o: o, summary: &Summary{Bad: []Bad{}}}
	defer r.summary.sort()
	stop := make(chan struct{})
	defer close(stop)
	lines := feed(input.NewLines(from, nexjob.MaxArgs), stop)
	var timer *time.Timer
	var due <-chan time.Time // when the batch goes though it is not full
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-due:
			due = nil
			if err := r.flush(ctx); err != nil {
				return r.summary, err
			}
		case f, ok := <-lines:
			if !ok || f.err != nil {
				return r.summary, errors.Join(r.flush(ctx), f.err)
			}
			if err := r.add(ctx, f.line); err != nil {
				return r.summary, err
			}
			switch {
			case len(r.jobs) == 0:
				due = nil
			case due == nil:
				if timer != nil {
					timer.Stop()
				}
				timer = time.NewTimer(linger)
				due = timer.C
			}
		}
	}
	return r.summary, ctx.Err()
}

// fed is a line, or why there is no more.
type fed struct {
	line input.Line
	err  error
}

// feed reads ahead by a few lines, so that a reader that blocks, such as a terminal or
// a pipe, keeps nobody from hearing an interrupt. Its goroutine ends with the input, or
// with stop; only a read that never returns outlives the run, until the process ends.
func feed(lines *input.Lines, stop <-chan struct{}) <-chan fed {
	out := make(chan fed, 16)
	go func() {
		defer close(out)
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case out <- fed{line, err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// run is one run under way.
type run struct {
	to      Enqueuer
	o       Options
	summary *Summary

	jobs    []nexjob.NewJob // the batch
	numbers []int           // of their lines
	bytes   int
}

// add puts a line into the batch, or names it, and sends a batch that is full.
func (r *run) add(ctx context.Context, line input.Line) error {
	job, err := r.job(line)
	if err != nil {
		return r.bad(line.Number, &r.summary.Invalid, err)
	}
	r.jobs, r.numbers = append(r.jobs, job), append(r.numbers, line.Number)
	r.bytes += len(job.Args)
	if len(r.jobs) < batchLines && r.bytes < batchBytes {
		return nil
	}
	return r.flush(ctx)
}

// job is what a line asks for.
func (r *run) job(line input.Line) (nexjob.NewJob, error) {
	if line.Err != nil {
		return nexjob.NewJob{}, line.Err
	}
	job := nexjob.RawJob(r.o.Kind, line.Text, r.o.Job)
	if job.Err != nil {
		return job, fault(line.Text, job.Err)
	}
	if r.o.Key != nil {
		key, err := r.o.Key.Text(line.Text)
		if err != nil {
			return job, err
		}
		job.IdempotencyKey = r.o.Prefix + key
	}
	return job, nil
}

// fault words for who wrote the line what the client found in it.
func fault(text []byte, err error) error {
	wrong, ok := errors.AsType[*nexjob.InvalidError](err)
	if !ok {
		return err
	}
	why := wrong.Field + ": " + wrong.Why
	if place := input.Place(text); place != "" {
		why += ", " + place
	}
	return fmt.Errorf("%s; %s", why, wrong.Remedy)
}

// flush sends the batch. An interrupt does not tear it: it is let finish for a while,
// so that what the summary counts is what happened.
func (r *run) flush(ctx context.Context) error {
	if len(r.jobs) == 0 {
		return nil
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	forget := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(lastCall)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-whole.Done():
		}
	})
	defer forget()
	answers, err := r.to.EnqueueMany(whole, r.jobs)
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", r.numbers[0], r.numbers[len(r.numbers)-1], err)
	}
	for i := range answers {
		if err := r.count(&answers[i], &r.jobs[i], r.numbers[i]); err != nil {
			return err
		}
	}
	clear(r.jobs) // lets the lines' memory go
	r.jobs, r.numbers, r.bytes = r.jobs[:0], r.numbers[:0], 0
	if r.o.Progress != nil {
		r.o.Progress(r.summary.Lines)
	}
	return nil
}

func (r *run) count(answer *nexjob.Answer, job *nexjob.NewJob, line int) error {
	s := r.summary
	switch {
	case errors.Is(answer.Err, nexjob.ErrDuplicateJob):
		s.Rejected++
	case errors.Is(answer.Err, nexjob.ErrKeyMismatch):
		return r.bad(line, &s.Mismatched, answer.Err)
	case answer.Err != nil:
		return r.bad(line, &s.Invalid, fault(job.Args, answer.Err))
	case answer.Outcome == nexjob.Replaced:
		s.Replaced++
	case answer.Outcome == nexjob.Existing:
		s.Existing++
	default:
		s.Created++
	}
	s.Lines++
	if answer.ArgsDiffer && answer.Err == nil {
		s.ArgsDiffer++
	}
	return nil
}

// bad counts a line that is not in, and names it.
func (r *run) bad(line int, counter *int, why error) error {
	s := r.summary
	s.Lines++
	*counter++
	entry := Bad{Line: line, Why: why.Error()}
	if len(s.Bad) < maxNamed {
		s.Bad = append(s.Bad, entry)
	} else {
		s.LeftOut++
	}
	if r.o.Invalid == nil {
		return nil
	}
	if err := view.WriteJSON(r.o.Invalid, entry); err != nil {
		return fmt.Errorf("writing down bad line %d: %w", line, err)
	}
	return nil
}
