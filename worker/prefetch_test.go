package worker_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// many enqueues n jobs whose args are n.
func (b *bench) many(count, n int) (ids []nexjob.ID) {
	b.Helper()
	jobs := make([]nexjob.NewJob, count)
	for i := range jobs {
		jobs[i] = kindA.New(args{n}, nexjob.Options{})
		jobs[i].ID = nexjob.NewID()
		ids = append(ids, jobs[i].ID)
	}
	if _, err := b.store.Store.Enqueue(b.Context(), time.Now(), jobs); err != nil {
		b.Fatal(err)
	}
	return ids
}

const (
	quick = iota // a handler that takes a millisecond
	slow         // one that waits until it is let go, or told to end
)

// stocked is a worker with four slots that has worked quick jobs and has come upon slow
// ones, some of which wait in it.
type stocked struct {
	*bench
	worker  *worker.Worker
	stop    func() error
	slow    []nexjob.ID
	started atomic.Int64  // slow ones
	letGo   chan struct{} // closed: slow ones return
}

// stocks makes a stocked worker; begin is how long it has run when the quick jobs come.
func stocks(b *bench, o worker.Options, begin time.Duration) *stocked {
	b.Helper()
	s := &stocked{bench: b, letGo: make(chan struct{})}
	if o.Slots == 0 {
		o.Slots = 4
	}
	s.worker, s.stop = b.run(o, func(ctx context.Context, _ *worker.Run, a args) error {
		if a.N == quick {
			time.Sleep(time.Millisecond)
			return nil
		}
		s.started.Add(1)
		select {
		case <-s.letGo:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b.sleep(begin)
	b.many(200, quick)
	s.slow = b.many(20, slow)
	b.sleep(60 * time.Millisecond)
	if h := s.worker.Health(); h.Busy != o.Slots || h.Waiting == 0 || h.Waiting > 8 {
		b.Fatalf("%d handlers run and %d jobs wait", h.Busy, h.Waiting)
	}
	return s
}

// waits returns the slow jobs that are leased and have not been started.
func (s *stocked) waits() []nexjob.ID {
	s.Helper()
	leased := len(s.find(nexjob.Query{IDs: s.slow, States: []nexjob.State{nexjob.Processing}, Limit: 100}).Jobs)
	running := int(s.started.Load())
	if leased-running != s.worker.Health().Waiting {
		s.Errorf("%d jobs are leased, %d started, %d wait", leased, running, s.worker.Health().Waiting)
	}
	return s.slow[running:leased]
}

// While quick handlers run, the next claim is under way: a storage that takes as long as
// they do costs no time.
func TestPrefetchHidesTheWay(t *testing.T) {
	const slots, jobs, way = 20, 2000, 5 * time.Millisecond
	for prefetch, want := range map[int]struct{ least, most time.Duration }{
		-1: {jobs / slots * 2 * way, time.Hour},
		0:  {jobs / slots * way, jobs / slots * way * 3 / 2},
	} {
		bubble(t, func(b *bench) {
			b.store.set(func(s *storage) {
				s.before = func(method string) error {
					if method == "claim" || method == "settle" {
						time.Sleep(way)
					}
					return nil
				}
			})
			b.many(jobs, quick)
			var live, most, ended atomic.Int64
			w, _ := b.run(worker.Options{Slots: slots, Prefetch: prefetch}, func(context.Context, *worker.Run, args) error {
				most.Store(max(most.Load(), live.Add(1)))
				defer live.Add(-1)
				time.Sleep(way)
				ended.Store(int64(b.at()))
				return nil
			})
			b.sleep(time.Minute)
			if h := w.Health(); h.Succeeded != jobs || h.ClaimsDropped != 0 || most.Load() != slots {
				t.Errorf("prefetch %d: %d at once, health %+v", prefetch, most.Load(), h)
			}
			if last := time.Duration(ended.Load()); last < want.least || last > want.most {
				t.Errorf("prefetch %d: the last of %d jobs ended after %s, want %s to %s in %d claims",
					prefetch, jobs, last, want.least, want.most, b.store.count("claim"))
			}
		})
	}
}

// B098: what is leased and does not run is bounded by the pace, and nothing is while
// handlers are slow or their pace is not known.
func TestPrefetchFollowsThePace(t *testing.T) {
	const slots = 20
	for _, tt := range []struct {
		took time.Duration
		most int
	}{
		{2 * time.Millisecond, 400}, // 500 in 50 ms
		{40 * time.Millisecond, slots * 50 / 40 * 11 / 10},
		{150 * time.Millisecond, 0},
		{time.Second, 0},
		{3 * time.Second, 0},
	} {
		took, most := tt.took, tt.most
		t.Run(took.String(), func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.many(3000, quick)
				w, _ := b.run(worker.Options{Slots: slots}, func(context.Context, *worker.Run, args) error {
					time.Sleep(took)
					return nil
				})
				seen := 0
				synctest.Wait()
				if n := w.Health().Waiting; n != 0 {
					t.Errorf("%d jobs wait at the beginning", n)
				}
				for range 50 {
					b.sleep(took + took/7)
					seen = max(seen, w.Health().Waiting)
				}
				if h := w.Health(); seen > most || (seen == 0) != (most == 0) || h.ClaimsDropped != 0 {
					t.Errorf("up to %d jobs waited, want %d; health %+v", seen, most, h)
				}
			})
		})
	}
}

// B024: what waits behind handlers that have become slow is given back in time, runs
// elsewhere once, and has spent nothing. Nothing more is claimed ahead.
func TestWhatWaitsTooLongIsGivenBack(t *testing.T) {
	for _, lease := range []time.Duration{2 * time.Second, time.Minute} {
		wait := min(time.Second, lease/3)
		bubble(t, func(b *bench) {
			s := stocks(b, worker.Options{Lease: lease, Prefetch: 8}, 0)
			waiting := s.waits()
			b.sleep(wait)
			for _, id := range waiting {
				b.want(id, nexjob.Enqueued, 0, 0, 1)
			}
			b.sleep(5 * lease)
			if h := s.worker.Health(); h.Waiting != 0 || h.Interrupted != int64(len(waiting)) || h.LeasesLost != 0 {
				t.Errorf("health %+v", h)
			}
			var elsewhere atomic.Int64
			b.run(worker.Options{Slots: 50}, func(context.Context, *worker.Run, args) error { elsewhere.Add(1); return nil })
			b.sleep(time.Second)
			close(s.letGo)
			b.sleep(time.Second)
			if int(s.started.Load()) != 4 || elsewhere.Load() != 16 {
				t.Errorf("%d ran here, %d elsewhere", s.started.Load(), elsewhere.Load())
			}
			for _, id := range s.slow {
				if j := b.job(id); j.State != nexjob.Succeeded || j.Tries+j.Crashes != 0 {
					t.Errorf("job %v: %s", j.State, j.Reason)
				}
			}
		})
	}
}

// A job that is cancelled or lost while it waits does not run.
func TestWhatWaitsLearnsOfItsLease(t *testing.T) {
	for name, tt := range map[string]struct {
		harm  func(s *stocked, waiting []nexjob.ID)
		state nexjob.State
		lost  bool
	}{
		"cancelled": {func(s *stocked, waiting []nexjob.ID) {
			s.amend(nexjob.Action{Act: nexjob.ActCancel}, nexjob.Query{IDs: waiting})
		}, nexjob.Cancelled, false},
		"lost": {func(s *stocked, waiting []nexjob.ID) {
			var ends []nexjob.Settlement
			for _, id := range waiting {
				ends = append(ends, nexjob.Settlement{Lease: nexjob.Lease{Job: id, Fence: s.job(id).Fence}, As: nexjob.EndFailed})
			}
			if _, err := s.store.Store.Settle(s.Context(), time.Now(), ends); err != nil {
				s.Fatal(err)
			}
		}, nexjob.Failed, true},
		"still held": {func(*stocked, []nexjob.ID) {}, nexjob.Processing, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				const lease = 3 * time.Second
				s := stocks(b, worker.Options{Lease: lease, Prefetch: 8}, lease/3-100*time.Millisecond)
				waiting := s.waits()
				before := b.job(waiting[0]).LeaseUntil
				tt.harm(s, waiting)
				b.sleep(50 * time.Millisecond) // the round of renewals is in it
				for _, id := range waiting {
					if j := b.job(id); j.State != tt.state || j.State == nexjob.Processing && !j.LeaseUntil.After(before) {
						t.Errorf("job is %v until %s, was until %s", j.State, j.LeaseUntil, before)
					}
				}
				running := s.started.Load()
				close(s.letGo)
				synctest.Wait()
				if h := s.worker.Health(); (h.LeasesLost == int64(len(waiting))) != tt.lost {
					t.Errorf("health %+v", h)
				}
				if ran := int(s.started.Load()-running) == 20-4; ran != (name == "still held") {
					t.Errorf("%d of 20 slow jobs ran", s.started.Load())
				}
			})
		})
	}
}

// A stop gives back at once what waits, and leaves what runs in peace.
func TestStopGivesBackWhatWaits(t *testing.T) {
	bubble(t, func(b *bench) {
		s := stocks(b, worker.Options{Prefetch: 8}, 0)
		waiting := s.waits()
		stopped := make(chan error, 1)
		go func() { stopped <- s.stop() }()
		synctest.Wait()
		for _, id := range waiting {
			b.want(id, nexjob.Enqueued, 0, 0, 1)
		}
		if h := s.worker.Health(); h.Busy != 4 || h.Waiting != 0 || !h.Stopping {
			t.Errorf("health %+v", h)
		}
		close(s.letGo)
		if err := <-stopped; err != nil || s.started.Load() != 4 {
			t.Errorf("Run returned %v, %d slow jobs ran", err, s.started.Load())
		}
	})
}

// More slots start what waits at once, fewer start none of it.
func TestSlotsChangeWhileJobsWait(t *testing.T) {
	bubble(t, func(b *bench) {
		s := stocks(b, worker.Options{Prefetch: 8}, 0)
		s.worker.SetSlots(6)
		synctest.Wait()
		if h := s.worker.Health(); h.Busy != 6 || s.started.Load() != 6 {
			t.Errorf("with six slots: %+v", h)
		}
		s.worker.SetSlots(2)
		synctest.Wait()
		if h := s.worker.Health(); h.Busy != 6 || s.started.Load() != 6 {
			t.Errorf("with two slots: %+v", h)
		}
		close(s.letGo)
		b.sleep(time.Second)
		if h := s.worker.Health(); h.Succeeded != 220 || h.Busy+h.Waiting != 0 {
			t.Errorf("at the end: %+v", h)
		}
	})
}

// Handlers start in the order in which claims answered: the jobs' own.
func TestOrderOfStart(t *testing.T) {
	bubble(t, func(b *bench) {
		for i := range 500 {
			b.add(kindA.New(args{i}, nexjob.Options{}))
		}
		var mu sync.Mutex
		var order []int
		b.run(worker.Options{Slots: 1, Prefetch: 20}, func(_ context.Context, _ *worker.Run, a args) error {
			mu.Lock()
			order = append(order, a.N)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			return nil
		})
		b.sleep(time.Minute)
		if len(order) != 500 || !slices.IsSorted(order) {
			t.Errorf("%d jobs started, in the order %v", len(order), order)
		}
		if n := b.store.count("claim"); n > 200 {
			t.Errorf("%d claims for 500 jobs", n)
		}
	})
}

// A handler that ends its goroutine takes no slot with it while others wait for one.
func TestGoexitWhileJobsWait(t *testing.T) {
	bubble(t, func(b *bench) {
		b.many(500, quick)
		w, _ := b.run(worker.Options{Slots: 4}, func(context.Context, *worker.Run, args) error {
			time.Sleep(time.Millisecond)
			runtime.Goexit()
			return nil
		})
		b.sleep(time.Second)
		if h := w.Health(); h.Retried != 500 || h.Panics != 500 || h.Busy+h.Waiting != 0 {
			t.Errorf("health %+v", h)
		}
	})
}
