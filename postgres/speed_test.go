package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// cpu reports the process's own time per job beside the benchmark's.
func cpu(b *testing.B) (report func()) {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	b.ResetTimer()
	before := used()
	return func() {
		b.ReportMetric(float64((used()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/job")
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	}
}

func fast(b *testing.B) *postgres.Store {
	b.Helper()
	url := os.Getenv("SPEEDURL")
	s, err := postgres.Open(b.Context(), url, postgres.Options{Schema: fmt.Sprintf("s%d", time.Now().UnixNano()), Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func keyed(key string) nexjob.NewJob {
	args := []byte(`{"order_id":42,"cents":1999}`)
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: "charge", Args: args, Fingerprint: nexjob.FingerprintOf(args),
		Options: nexjob.Options{IdempotencyKey: key},
	}
}

// BenchmarkEnqueue is callers that each enqueue one keyed job at a time.
func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := fast(b)
			var wg sync.WaitGroup
			report := cpu(b)
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						answers, err := s.Enqueue(b.Context(), time.Now(), []nexjob.NewJob{keyed(fmt.Sprintf("payment-%d-%d", c, i))})
						if err != nil || answers[0].Outcome != nexjob.Created {
							b.Error(err, answers)
							return
						}
					}
				})
			}
			wg.Wait()
			report()
		})
	}
}

func BenchmarkDuplicate(b *testing.B) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := fast(b)
			fill(b, s, 1000)
			var wg sync.WaitGroup
			report := cpu(b)
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						answers, err := s.Enqueue(b.Context(), time.Now(), []nexjob.NewJob{keyed(fmt.Sprintf("payment-%d", (i*7919)%1000))})
						if err != nil || answers[0].Outcome != nexjob.Existing {
							b.Error(err, answers)
							return
						}
					}
				})
			}
			wg.Wait()
			report()
		})
	}
}

func fill(b *testing.B, s *postgres.Store, n int) {
	b.Helper()
	for done := 0; done < n; done += 1000 {
		jobs := make([]nexjob.NewJob, min(1000, n-done))
		for i := range jobs {
			jobs[i] = keyed(fmt.Sprintf("payment-%d", done+i))
		}
		if _, err := s.Enqueue(b.Context(), time.Now(), jobs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBurnDown claims jobs and settles them, so many at a time.
func BenchmarkBurnDown(b *testing.B) {
	for _, n := range []int{100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := fast(b)
			fill(b, s, b.N)
			report := cpu(b)
			for done := 0; done < b.N; {
				claimed, err := s.Claim(b.Context(), time.Now(), nexjob.ClaimRequest{
					Worker: "w", N: n, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
				})
				if err != nil || len(claimed) == 0 {
					b.Fatal(err, len(claimed))
				}
				ends := make([]nexjob.Settlement, len(claimed))
				for i := range claimed {
					ends[i] = nexjob.Settlement{Lease: claimed[i].Job.Lease(), As: nexjob.EndSucceeded}
				}
				settled, err := s.Settle(b.Context(), time.Now(), ends)
				if err != nil || settled[0].State != nexjob.Succeeded {
					b.Fatal(err, settled[0])
				}
				done += len(claimed)
			}
			report()
		})
	}
}

// BenchmarkBatch enqueues a thousand keyed jobs at a time.
func BenchmarkBatch(b *testing.B) {
	s := fast(b)
	report := cpu(b)
	fill(b, s, b.N)
	report()
}

// BenchmarkEndToEnd works jobs that do nothing through the real worker.
func BenchmarkEndToEnd(b *testing.B) {
	for _, slots := range []int{100, 2000} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			s := fast(b)
			kind := nexjob.KindOf[struct{}]("nothing", nexjob.Defaults{})
			client := nexjob.NewClient(s, nexjob.ClientOptions{})
			for done := 0; done < b.N; done += 1000 {
				jobs := make([]nexjob.NewJob, min(1000, b.N-done))
				for i := range jobs {
					jobs[i] = kind.New(struct{}{}, nexjob.Options{IdempotencyKey: fmt.Sprintf("nothing-%d", done+i)})
				}
				if _, err := client.EnqueueMany(b.Context(), jobs); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			var left atomic.Int64
			left.Store(int64(b.N))
			w := worker.New(s, worker.Options{Slots: slots, Logger: slog.New(slog.DiscardHandler)})
			worker.Handle(w, kind, func(context.Context, *worker.Run, struct{}) error {
				if left.Add(-1) == 0 {
					stop()
				}
				return nil
			})
			report := cpu(b)
			if err := w.Run(ctx); err != nil {
				b.Fatal(err)
			}
			report()
		})
	}
}
