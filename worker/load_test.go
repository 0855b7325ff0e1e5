package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// BenchmarkJobs works jobs whose handler does nothing: what the worker itself costs
// on the memory engine.
func BenchmarkJobs(b *testing.B) {
	store := memory.New(memory.Options{})
	jobs := make([]nexjob.NewJob, b.N)
	for i := range jobs {
		jobs[i] = kindA.New(args{i}, nexjob.Options{})
		jobs[i].ID = nexjob.NewID()
	}
	for from := 0; from < len(jobs); from += 1000 {
		if _, err := store.Enqueue(b.Context(), time.Now(), jobs[from:min(from+1000, len(jobs))]); err != nil {
			b.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var left atomic.Int64
	left.Store(int64(b.N))
	w := worker.New(store, worker.Options{Slots: 100, Logger: quiet()})
	worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error {
		if left.Add(-1) == 0 {
			stop()
		}
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Run(ctx); err != nil {
		b.Fatal(err)
	}
}
