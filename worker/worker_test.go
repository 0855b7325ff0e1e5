package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

func TestRunJob(t *testing.T) {
	bubble(t, func(b *bench) {
		var got args
		_, stop := b.run(worker.Options{}, func(_ context.Context, run *worker.Run, a args) error {
			got = a
			if err := run.SetResult(map[string]int{"sum": 3}); err != nil {
				return err
			}
			return run.Next(kindA.New(args{9}, nexjob.Options{Queue: "later", IdempotencyKey: "next"}))
		})
		id := b.add(kindA.New(args{7}, nexjob.Options{IdempotencyKey: "k"}))
		synctest.Wait()
		j := b.want(id, nexjob.Succeeded, 0, 0, 0)
		if got.N != 7 || string(j.Result) != `{"sum":3}` || !strings.Contains(j.Worker, "-") {
			t.Errorf("handler got %v, result %s, worker %q", got, j.Result, j.Worker)
		}
		if b.at() != 0 {
			t.Errorf("the job started after %s: the bell was not heard", b.at())
		}
		if next := b.find(nexjob.Query{Key: "next"}).Jobs; len(next) != 1 || next[0].State != nexjob.Enqueued {
			t.Errorf("follower: %+v", next)
		}
		if err := stop(); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestMistakesComeOutOfRun(t *testing.T) {
	handler := func(context.Context, *worker.Run, args) error { return nil }
	tests := []struct {
		name string
		make func(b *bench) *worker.Worker
		want []string
	}{
		{"no handler", func(b *bench) *worker.Worker { return b.worker(worker.Options{}) }, []string{"no handler"}},
		{"no storage", func(*bench) *worker.Worker { return worker.New(nil, worker.Options{}) }, []string{"no storage"}},
		{"kind twice", func(b *bench) *worker.Worker {
			w := b.worker(worker.Options{})
			worker.Handle(w, kindA, handler)
			worker.Handle(w, nexjob.KindOf[args]("b", nexjob.Defaults{Aliases: []string{"a"}}), handler)
			return w
		}, []string{`kind "a" has a handler already`}},
		{"nil handler and zero kind", func(b *bench) *worker.Worker {
			w := b.worker(worker.Options{})
			worker.Handle[args](w, kindA, nil)
			worker.Handle(w, nexjob.Kind[args]{}, handler)
			return w
		}, []string{"is nil", "KindOf"}},
		{"options", func(b *bench) *worker.Worker {
			w := b.worker(worker.Options{
				Lease: time.Millisecond, Slots: -1, Name: "a\nb",
				Queues: []worker.Queue{{Name: "q"}, {Name: "q", Weight: 2}, {Name: " "}},
			})
			worker.Handle(w, kindA, handler)
			return w
		}, []string{"Lease", "negative", "Name", `"q" twice`, "set Weighted", "queue"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				err := tt.make(b).Run(b.Context())
				for _, want := range tt.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("Run returned %v, want a word of %q", err, want)
					}
				}
			})
		})
	}
	t.Run("after Run", func(t *testing.T) {
		bubble(t, func(b *bench) {
			w := b.worker(worker.Options{})
			worker.Handle(w, kindA, handler)
			done := make(chan error)
			go func() { done <- w.Run(b.Context()) }()
			synctest.Wait()
			worker.Handle(w, nexjob.KindOf[args]("b", nexjob.Defaults{}), handler)
			if err := <-done; err == nil || !strings.Contains(err.Error(), "after Run had begun") {
				t.Errorf("Run returned %v", err)
			}
			if err := w.Run(b.Context()); err == nil || !strings.Contains(err.Error(), "twice") {
				t.Errorf("a second Run returned %v", err)
			}
		})
	})
}

func TestOutcomes(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name        string
		err         error
		maxAttempts int
		state       nexjob.State
		tries       int
		wait        [2]time.Duration // bounds of the due time
	}{
		{"nil", nil, 0, nexjob.Succeeded, 0, [2]time.Duration{}},
		{"error", boom, 0, nexjob.Scheduled, 1, [2]time.Duration{16 * time.Second, 77 * time.Second}},
		{"error on the last try", boom, 1, nexjob.Failed, 1, [2]time.Duration{}},
		{"permanent", fmt.Errorf("x: %w", worker.Permanent(boom)), 0, nexjob.Failed, 1, [2]time.Duration{}},
		{"permanent of nil", worker.Permanent(nil), 0, nexjob.Succeeded, 0, [2]time.Duration{}},
		{"retry after", worker.RetryAfter(time.Hour, boom), 0, nexjob.Scheduled, 1, [2]time.Duration{time.Hour, 66 * time.Minute}},
		{"retry after on the last try", worker.RetryAfter(time.Hour, boom), 1, nexjob.Failed, 1, [2]time.Duration{}},
		{"retry after a moment", worker.RetryAfter(time.Millisecond, boom), 0, nexjob.Scheduled, 1, [2]time.Duration{time.Millisecond, 2 * time.Millisecond}},
		{"retry after nothing said", worker.RetryAfter(0, boom), 0, nexjob.Scheduled, 1, [2]time.Duration{16 * time.Second, 77 * time.Second}},
		{"retry after a time gone by", worker.RetryAfter(-time.Hour, boom), 0, nexjob.Scheduled, 1, [2]time.Duration{16 * time.Second, 77 * time.Second}},
		{"snooze", worker.Snooze(time.Hour), 1, nexjob.Scheduled, 0, [2]time.Duration{time.Hour, time.Hour}},
		{"mismatch", &nexjob.EffectMismatchError{Name: "x"}, 0, nexjob.Failed, 1, [2]time.Duration{}},
		{"an error whose method panics", badError{}, 0, nexjob.Scheduled, 1, [2]time.Duration{16 * time.Second, 77 * time.Second}},
		{"cancelled without a reason of ours", context.Canceled, 0, nexjob.Scheduled, 1, [2]time.Duration{16 * time.Second, 77 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				runs := 0
				_, stop := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error {
					runs++
					return tt.err
				})
				id := b.enqueue(nexjob.Options{MaxAttempts: tt.maxAttempts})
				synctest.Wait()
				j := b.want(id, tt.state, tt.tries, 0, 0)
				if due := j.DueAt.Sub(b.began); tt.state == nexjob.Scheduled && (due < tt.wait[0] || due > tt.wait[1]) {
					t.Errorf("due after %s, want %v", due, tt.wait)
				}
				if err := stop(); err != nil || runs != 1 {
					t.Errorf("Run returned %v after %d runs", err, runs)
				}
			})
		})
	}
}

type nilError struct{ n int }

func (e *nilError) act(*worker.Run) error {
	e.n++
	return nil
}

// badError panics wherever somebody looks at it.
type badError struct{}

func (badError) Error() string   { panic("Error") }
func (badError) Is(error) bool   { panic("Is") }
func (badError) As(any) bool     { panic("As") }
func (badError) Unwrap() []error { panic("Unwrap") }

// B050: nothing that a handler does to its goroutine kills the process.
func TestPanicIsAnError(t *testing.T) {
	tests := map[string]struct {
		handler func(run *worker.Run) error
		want    string
	}{
		"panic":  {func(*worker.Run) error { panic("ouch") }, "handler panicked: ouch"},
		"goexit": {func(*worker.Run) error { runtime.Goexit(); return nil }, "runtime.Goexit"},
		"in a goroutine of the run": {func(run *worker.Run) error {
			run.Go(func() error { panic("far ouch") })
			return nil
		}, "handler panicked: far ouch"},
		"error in a goroutine of the run": {func(run *worker.Run) error {
			run.Go(func() error { time.Sleep(time.Second); return errors.New("late ouch") })
			return nil
		}, "late ouch"},
		"nil pointer": {func(run *worker.Run) error { return (*nilError)(nil).act(run) }, "nil pointer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				w, stop := b.run(worker.Options{}, func(_ context.Context, run *worker.Run, a args) error {
					if a.N == 1 {
						return nil
					}
					return tt.handler(run)
				})
				id := b.enqueue(nexjob.Options{})
				good := b.add(kindA.New(args{1}, nexjob.Options{}))
				b.sleep(2 * time.Second)
				j := b.want(id, nexjob.Scheduled, 1, 0, 0)
				if !strings.Contains(j.Reason, tt.want) {
					t.Errorf("reason %q lacks %q", j.Reason, tt.want)
				}
				if strings.Contains(tt.want, "panicked") && !strings.Contains(j.Reason, "worker_test.go") {
					t.Errorf("reason %q has no stack", j.Reason)
				}
				b.want(good, nexjob.Succeeded, 0, 0, 0)
				if err := stop(); err != nil || w.Health().Busy != 0 {
					t.Errorf("Run returned %v with %d busy", err, w.Health().Busy)
				}
			})
		})
	}
}

// B049: a kind that no worker here serves is not claimed and spends nothing; a
// former name of a kind is served.
func TestKinds(t *testing.T) {
	bubble(t, func(b *bench) {
		w := b.worker(worker.Options{})
		ran := 0
		renamed := nexjob.KindOf[args]("new-name", nexjob.Defaults{Aliases: []string{"a"}})
		worker.Handle(w, renamed, func(context.Context, *worker.Run, args) error { ran++; return nil })
		b.start(w)
		old := b.enqueue(nexjob.Options{})
		foreign := b.add(nexjob.KindOf[args]("b", nexjob.Defaults{}).New(args{}, nexjob.Options{}))
		b.sleep(time.Minute)
		b.want(old, nexjob.Succeeded, 0, 0, 0)
		if j := b.want(foreign, nexjob.Enqueued, 0, 0, 0); j.Started || ran != 1 {
			t.Errorf("the foreign kind was started: %v; %d runs", j.Started, ran)
		}
	})
}

// Args that do not decode fail at once: the same bytes never decode better.
func TestArgsThatDoNotDecode(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { return nil })
		job := kindA.New(args{}, nexjob.Options{})
		job.Args = []byte(`{"n":"seven"}`)
		id := b.add(job)
		synctest.Wait()
		b.want(id, nexjob.Failed, 1, 0, 0)
	})
}

// B098: never more handlers than slots, and nothing is leased that cannot start.
func TestSlotsBoundHandlersAndClaims(t *testing.T) {
	bubble(t, func(b *bench) {
		const slots, jobs = 4, 100
		var now, most atomic.Int64
		w, _ := b.run(worker.Options{Slots: slots}, func(context.Context, *worker.Run, args) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		})
		for range jobs {
			b.enqueue(nexjob.Options{})
		}
		for range jobs / slots {
			b.sleep(500 * time.Millisecond)
			if n := len(b.find(nexjob.Query{States: []nexjob.State{nexjob.Processing}}).Jobs); n > slots {
				t.Fatalf("%d jobs are leased for %d slots", n, slots)
			}
			b.sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if most.Load() != slots || w.Health().Succeeded != jobs {
			t.Errorf("at most %d handlers at once, %d jobs done in %s", most.Load(), w.Health().Succeeded, b.at())
		}
		w.SetSlots(1)
		for range 3 {
			b.enqueue(nexjob.Options{})
		}
		synctest.Wait()
		if n := now.Load(); n != 1 {
			t.Errorf("%d handlers run with one slot", n)
		}
	})
}

// B024: a job that is due later is leased only when it starts, once.
func TestDelayedJobStartsOnceOnTime(t *testing.T) {
	bubble(t, func(b *bench) {
		var mu sync.Mutex
		var starts []time.Duration
		for range 3 {
			b.run(worker.Options{Lease: 2 * time.Second, Poll: 700 * time.Millisecond},
				func(context.Context, *worker.Run, args) error {
					mu.Lock()
					defer mu.Unlock()
					starts = append(starts, b.at())
					return nil
				})
		}
		id := b.enqueue(nexjob.Options{Delay: 10*time.Second + 321*time.Millisecond})
		b.sleep(9 * time.Second)
		b.want(id, nexjob.Scheduled, 0, 0, 0)
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		mu.Lock()
		defer mu.Unlock()
		if len(starts) != 1 || starts[0] > 10*time.Second+325*time.Millisecond {
			t.Errorf("started at %v", starts)
		}
	})
}

// Retries that the worker wrote itself start on time even if polls are rare.
func TestRetryStartsOnTime(t *testing.T) {
	bubble(t, func(b *bench) {
		var starts []time.Duration
		b.run(worker.Options{Poll: time.Hour}, func(_ context.Context, run *worker.Run, _ args) error {
			starts = append(starts, b.at())
			if len(starts) < 3 {
				return worker.Snooze(7 * time.Second)
			}
			return nil
		})
		b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		if len(starts) != 3 || starts[1] > 7010*time.Millisecond || starts[2] > 14020*time.Millisecond {
			t.Errorf("started at %v", starts)
		}
	})
}

// B041: however many tries have failed, the wait is positive, capped and jittered.
func TestBackoffNeverOverflows(t *testing.T) {
	last := time.Duration(0)
	for _, tries := range []int{1, 31, 40, 63, 64, 1000, 1_000_000} {
		low, high := nexjob.Retry{}.After(tries, 0), nexjob.Retry{}.After(tries, 0.999)
		if low <= 0 || high > nexjob.MaxRetryDelay || low < last {
			t.Errorf("after %d tries: %s to %s", tries, low, high)
		}
		last = low
	}
}

// B042: what fails together does not come back together, and no sooner than asked.
func TestRetriesAreSpread(t *testing.T) {
	for name, err := range map[string]error{
		"back-off": errors.New("boom"), "retry after": worker.RetryAfter(30*time.Second, errors.New("429")),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.run(worker.Options{Slots: 300}, func(context.Context, *worker.Run, args) error { return err })
				for range 300 {
					b.enqueue(nexjob.Options{})
				}
				synctest.Wait()
				seconds := make(map[int64]int)
				for _, j := range b.find(nexjob.Query{Limit: 1000}).Jobs {
					wait := j.DueAt.Sub(b.began)
					if name == "retry after" && wait < 30*time.Second {
						t.Fatalf("due after %s", wait)
					}
					seconds[wait.Milliseconds()/100]++
				}
				for at, n := range seconds {
					if n > 60 {
						t.Errorf("%d jobs are due in the same tenth of a second, at %d", n, at)
					}
				}
			})
		})
	}
}
