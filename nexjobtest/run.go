package nexjobtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// Result is what became of a job whose handler ran once.
type Result struct {
	Err       error            // what the handler returned; *worker.PanicError if it did not return
	State     nexjob.State     // of the job afterwards; Scheduled if it would be tried again
	Job       nexjob.Job       // its whole record
	Receipts  []nexjob.Receipt // its steps and effects
	Followers []nexjob.Job     // the jobs of Run.Next, enqueued with its success
}

// Decode reads what the handler left with Run.SetResult into a variable.
func (r Result) Decode(into any) error {
	if len(r.Job.Result) == 0 {
		return fmt.Errorf("nexjobtest: the job is %s and left no result; see Result.Err and Run.SetResult", r.State)
	}
	if err := json.Unmarshal(r.Job.Result, into); err != nil {
		return fmt.Errorf("nexjobtest: result %q: %w", r.Job.Result, err)
	}
	return nil
}

// Run enqueues one job of a kind on a fresh store in memory, lets a worker run its
// handler once, and answers what the handler returned and how the worker settled
// it. A job that would be tried again is not: it is left as the settlement left it.
// Steps, effects, time-outs and panics are treated as in production; what the
// handler logs through Run.Logger is written to the test's log. Run works inside
// testing/synctest and outside of it.
func Run[T any](
	t testing.TB, k nexjob.Kind[T], h func(context.Context, *worker.Run, T) error, args T,
) Result {
	t.Helper()
	if h == nil {
		t.Fatal("nexjobtest: the handler is nil")
	}
	job := k.New(args, nexjob.Options{})
	job.ID = nexjob.NewID()
	if _, err := k.Decode(job.Args); job.Err == nil && err != nil {
		t.Fatalf("nexjobtest: no handler could be called: %v", err)
	}
	store := memory.New(memory.Options{})
	answers, err := store.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{job})
	if err == nil {
		err = answers[0].Err
	}
	if err != nil {
		t.Fatalf("nexjobtest: enqueue: %v", err)
	}
	result := work(t, store, job.ID, job.QueueOrDefault(), k, h)
	result.read(t, store, job.ID)
	return result
}

// work runs the handler of the only job in the store.
func work[T any](
	t testing.TB, store nexjob.Storage, id nexjob.ID, queue string, k nexjob.Kind[T],
	h func(context.Context, *worker.Run, T) error,
) Result {
	t.Helper()
	// The worker stops claiming before the handler returns, so that it cannot claim
	// the job again; the stop waits for the settlement.
	ctx, stop := context.WithCancel(t.Context())
	// A job may end without its handler: a deadline of the kind that is shorter than
	// the way to it.
	var watch sync.WaitGroup
	defer func() {
		stop()
		watch.Wait()
	}()
	watch.Go(func() {
		_, _ = nexjob.NewClient(store, nexjob.ClientOptions{}).Wait(ctx, id) // ends with ctx
		stop()
	})
	var result Result
	handler := func(ctx context.Context, run *worker.Run, args T) error {
		defer stop()
		returned := false
		defer func() {
			value := recover()
			if value == nil && returned {
				return
			}
			result.Err = &worker.PanicError{Value: value, Goexit: value == nil, Stack: string(debug.Stack())}
			if value != nil {
				panic(value)
			}
		}()
		result.Err = h(ctx, run, args)
		returned = true
		return result.Err
	}
	w := worker.New(store, worker.Options{
		Slots: 1, Name: "nexjobtest", Queues: []worker.Queue{{Name: queue}},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	worker.Handle(w, k, handler)
	if err := w.Run(ctx); err != nil {
		t.Errorf("nexjobtest: %v", err)
	}
	return result
}

// read fills in what the store holds afterwards.
func (r *Result) read(t testing.TB, store nexjob.Storage, id nexjob.ID) {
	t.Helper()
	find := func(q nexjob.Query) nexjob.Page {
		q.Limit = nexjob.MaxPage
		page, err := store.Find(context.WithoutCancel(t.Context()), time.Now(), q)
		if err != nil {
			t.Fatalf("nexjobtest: find: %v", err)
		}
		return page
	}
	for _, job := range find(nexjob.Query{}).Jobs {
		if job.ID == id {
			r.Job, r.State = job, job.State
		} else {
			r.Followers = append(r.Followers, job)
		}
	}
	r.Receipts = find(nexjob.Query{Of: nexjob.Effects, Operations: []nexjob.ID{r.Job.Operation}}).Effects
}
