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
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// rude is a value whose encoding does not return.
type rude struct {
	Goexit bool
}

func (r rude) MarshalJSON() ([]byte, error) {
	if r.Goexit {
		runtime.Goexit()
	}
	panic("no JSON of me")
}

// choosy has no encoding of its zero value.
type choosy struct{ word string }

func (c choosy) MarshalText() ([]byte, error) {
	if c.word == "" {
		return nil, errors.New("no word")
	}
	return []byte(c.word), nil
}

func (c *choosy) UnmarshalText(text []byte) error { c.word = string(text); return nil }

// An answer whose encoding panics has come all the same: the effect is confirmed.
func TestAnswerWhoseEncodingPanics(t *testing.T) {
	bubble(t, func(b *bench) {
		sent := 0
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			_, err := worker.Effect[any]{
				Name: "charge", AtMostOnce: true,
				Send: func(context.Context, string) (any, error) { sent++; return rude{}, nil },
			}.Do(ctx, run)
			return err
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		if j := b.want(id, nexjob.Failed, 1, 0, 0); sent != 1 || !strings.Contains(j.Reason, "could not be kept") {
			t.Errorf("sent %d times: %s", sent, j.Reason)
		}
		b.effect(id, nexjob.Confirmed)
	})
}

// A type may have values that do not encode, as its zero value: only a type that
// never does is refused.
func TestAnswerWhoseZeroDoesNotEncode(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			got, err := worker.Effect[choosy]{
				Name: "charge", AtMostOnce: true,
				Send: func(context.Context, string) (choosy, error) { return choosy{"done"}, nil },
			}.Do(ctx, run)
			if err == nil && got.word != "done" {
				err = fmt.Errorf("got %q", got.word)
			}
			return err
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
	})
}

// awkward is an error whose text ends the goroutine that asks for it.
type awkward struct{}

func (awkward) Error() string { runtime.Goexit(); return "" }

// Whatever an error does when it is looked at, its attempt ends.
func TestErrorThatEndsTheGoroutine(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		w, stop := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error {
			if runs++; runs == 1 {
				return awkward{}
			}
			return nil
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Hour)
		b.want(id, nexjob.Succeeded, 1, 0, 0)
		if err := stop(); err != nil || w.Health().Busy != 0 {
			t.Errorf("Run returned %v, health %+v", err, w.Health())
		}
	})
}

// A job that Next accepted while another goroutine of the run completed it is added,
// or was refused.
func TestNextBesideCompleteIn(t *testing.T) {
	const rounds = 300
	store := memory.New(memory.Options{})
	w := worker.New(store, worker.Options{Logger: quiet(), Poll: 10 * time.Millisecond})
	var accepted atomic.Int64
	worker.Handle(w, kindA, func(ctx context.Context, run *worker.Run, _ args) error {
		var ready sync.WaitGroup
		ready.Add(1)
		run.Go(func() error {
			ready.Wait()
			for range 20 {
				if run.Next(kindA.New(args{}, nexjob.Options{Queue: "later"})) == nil {
					accepted.Add(1)
				}
			}
			return nil
		})
		return memory.InTx(ctx, store, func(tx *memory.Tx) error {
			ready.Done()
			return run.CompleteIn(ctx, tx)
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	for range rounds {
		answer, err := client.Enqueue(ctx, kindA.New(args{}, nexjob.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if j, err := client.Wait(ctx, answer.ID); err != nil || j.State != nexjob.Succeeded {
			t.Fatalf("%v: %+v", err, j)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	tallies, err := client.Count(t.Context(), nexjob.Query{Queues: []string{"later"}})
	stored := int64(0)
	for _, tally := range tallies {
		stored += tally.Jobs
	}
	if err != nil || stored != accepted.Load() {
		t.Errorf("%d jobs were accepted, %d are stored, %v", accepted.Load(), stored, err)
	}
}

// hung is a storage whose calls do not heed their context once it hangs.
type hung struct {
	*storage
	hang atomic.Bool
	free chan struct{}
}

func (h *hung) wait() {
	if h.hang.Load() {
		<-h.free
	}
}

func (h *hung) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	h.wait()
	return h.storage.Put(ctx, now, puts)
}

func (h *hung) Clock(ctx context.Context) (time.Time, error) {
	h.wait()
	return h.storage.Clock(ctx)
}

// Run returns in time also from a storage that hangs and does not heed any context.
func TestStopOfAHungStorage(t *testing.T) {
	bubble(t, func(b *bench) {
		store := &hung{storage: b.store, free: make(chan struct{})}
		w := worker.New(store, worker.Options{Logger: quiet(), ShutdownTimeout: 5 * time.Second})
		worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error { return nil })
		stop := b.start(w)
		b.sleep(time.Minute)
		store.hang.Store(true)
		b.sleep(time.Minute)
		began := time.Now()
		returned := make(chan error, 1)
		go func() { returned <- stop() }()
		select {
		case err := <-returned:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("Run does not return")
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("Run returned after %s", took)
		}
		close(store.free)
		synctest.Wait()
	})
}

// A worker whose settlements piled up until it claimed nothing more goes on when
// they are let go, though nothing rings.
func TestPiledUpSettlementsAreLetGo(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int64
		w, _ := b.run(worker.Options{Lease: 3 * time.Second, CrashLimit: 100},
			func(context.Context, *worker.Run, args) error { runs.Add(1); return nil })
		b.cut("settle", 0, time.Minute)
		ids := make([]nexjob.ID, 800)
		for i := range ids {
			ids[i] = b.enqueue(nexjob.Options{})
		}
		b.sleep(time.Hour)
		for _, id := range ids {
			if j := b.job(id); j.State != nexjob.Succeeded || j.Tries != 0 {
				t.Fatalf("job %+v; health %+v", j, w.Health())
			}
		}
	})
}

// What panics or ends its goroutine, wherever user code runs, fails one try.
func TestPanicsEverywhere(t *testing.T) {
	quick := nexjob.KindOf[args]("a", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Second}})
	effect := func(send func()) worker.Effect[paid] {
		return worker.Effect[paid]{
			Name: "charge", RepeatableFor: time.Hour,
			Send: func(context.Context, string) (paid, error) { send(); return paid{}, nil },
		}
	}
	spots := map[string]func(ctx context.Context, run *worker.Run, harm func()) error{
		"handler":  func(_ context.Context, _ *worker.Run, harm func()) error { harm(); return nil },
		"deferred": func(_ context.Context, _ *worker.Run, harm func()) error { defer harm(); return nil },
		"deferred after an error": func(_ context.Context, _ *worker.Run, harm func()) error {
			defer harm()
			return errTorn
		},
		"send": func(ctx context.Context, run *worker.Run, harm func()) error {
			_, err := effect(harm).Do(ctx, run)
			return err
		},
		"step": func(ctx context.Context, run *worker.Run, harm func()) error {
			_, err := worker.Step(ctx, run, "s", func(context.Context) (int, error) { harm(); return 1, nil })
			return err
		},
		"goroutine": func(_ context.Context, run *worker.Run, harm func()) error {
			run.Go(func() error { harm(); return nil })
			return nil
		},
	}
	var nothing any
	harms := map[string]func(){
		"panic": func() { panic("boom") }, "nil panic": func() { panic(nothing) }, "goexit": runtime.Goexit,
		"error panic": func() { panic(fmt.Errorf("boom: %w", worker.Permanent(errTorn))) },
	}
	for spot, call := range spots {
		for harm, do := range harms {
			t.Run(spot+"/"+harm, func(t *testing.T) {
				bubble(t, func(b *bench) {
					runs := 0
					w := b.worker(worker.Options{Slots: 1})
					worker.Handle(w, quick, func(ctx context.Context, run *worker.Run, _ args) error {
						if runs++; runs > 1 {
							if _, err := effect(func() {}).Do(ctx, run); err != nil {
								return err
							}
							return nil
						}
						return call(ctx, run, do)
					})
					stop := b.start(w)
					id := b.enqueue(nexjob.Options{})
					b.sleep(time.Minute)
					state, tries := nexjob.Succeeded, 1
					if harm == "error panic" {
						state = nexjob.Failed
						if spot == "send" {
							state = nexjob.Uncertain
						}
					}
					b.want(id, state, tries, 0, 0)
					if h := w.Health(); h.Panics != 1 || h.Busy != 0 || h.Unsettled != 0 {
						t.Errorf("health %+v", h)
					}
					if err := stop(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// careless answers claims with jobs of whatever kind.
type careless struct{ *memory.Store }

func (s careless) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	ask.Kinds = []string{kindA.Name(), "stray"}
	return s.Store.Claim(ctx, now, ask)
}

// TestStrayKindsAreGivenBack: jobs of kinds that nobody asked for go back at once, and
// those beside them that return at once do not wait for them.
func TestStrayKindsAreGivenBack(t *testing.T) {
	bubble(t, func(b *bench) {
		var ids []nexjob.ID
		for i := range 20 {
			if i%2 == 0 {
				ids = append(ids, b.enqueue(nexjob.Options{}))
			} else {
				ids = append(ids, b.add(nexjob.RawJob("stray", nil, nexjob.Options{})))
			}
		}
		w := worker.New(careless{b.store.Store}, worker.Options{Slots: 20, Logger: quiet()})
		worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error { return nil })
		b.start(w)
		synctest.Wait()
		for i, id := range ids {
			want := nexjob.Succeeded
			if i%2 == 1 {
				want = nexjob.Scheduled
			}
			if j := b.job(id); j.ReportedState(time.Now()) != want {
				t.Errorf("job %d is %s at once, want %s", i, j.ReportedState(time.Now()), want)
			}
		}
	})
}
