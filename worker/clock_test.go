package worker_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// The storage's clock jumps while jobs run: none is taken from its worker, none runs
// twice, and delayed jobs run by the new time.
func TestStorageClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{
		time.Hour, -time.Hour, 2 * time.Second, -2 * time.Second, 20 * time.Second, -20 * time.Second, 900 * time.Hour,
	} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			bubble(t, func(b *bench) {
				var ahead atomic.Int64
				clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				b.store.Store = memory.New(memory.Options{Clock: clock})
				client := nexjob.NewClient(b.store.Store, nexjob.ClientOptions{Logger: quiet()})
				var runs atomic.Int64
				handler := func(ctx context.Context, run *worker.Run, _ args) error {
					runs.Add(1)
					select {
					case <-time.After(40 * time.Second):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					_, err := worker.Effect[paid]{
						Name: "charge", AtMostOnce: true,
						Send: func(ctx context.Context, _ string) (paid, error) { return paid{}, ctx.Err() },
					}.Do(ctx, run)
					return err
				}
				first, _ := b.run(worker.Options{Slots: 3}, handler)
				second, _ := b.run(worker.Options{Slots: 3}, handler)
				ids := make([]nexjob.ID, 6)
				for i := range ids {
					answer, err := client.Enqueue(b.Context(), kindA.New(args{}, nexjob.Options{}))
					if err != nil {
						t.Fatal(err)
					}
					ids[i] = answer.ID
				}
				for range 3 {
					b.sleep(11 * time.Second)
					ahead.Add(int64(jump))
				}
				b.sleep(5 * time.Minute)
				for _, id := range ids {
					if j, err := client.Job(b.Context(), id); err != nil || j.State != nexjob.Succeeded || len(j.Attempts) != 1 {
						t.Errorf("%v: %+v", err, j)
					}
				}
				for _, w := range []*worker.Worker{first, second} {
					if h := w.Health(); h.LeasesLost+h.StaleWritesRefused+h.LetGo != 0 {
						t.Errorf("health %+v", h)
					}
				}
				if runs.Load() != 6 {
					t.Errorf("%d runs of 6 jobs", runs.Load())
				}
			})
		})
	}
}

// Of 10,000 jobs some fail, some panic, some snooze: every count is exact, and never
// do more handlers run than there are slots.
func TestManyJobsAreCounted(t *testing.T) {
	const jobs, slots = 10_000, 100
	bubble(t, func(b *bench) {
		kind := nexjob.KindOf[args]("a", nexjob.Defaults{MaxAttempts: 3, Retry: nexjob.Retry{Initial: time.Second}})
		var live, most, started atomic.Int64
		w := b.worker(worker.Options{Slots: slots})
		worker.Handle(w, kind, func(_ context.Context, run *worker.Run, a args) error {
			n := live.Add(1)
			defer live.Add(-1)
			for was := most.Load(); n > was; was = most.Load() {
				if most.CompareAndSwap(was, n) {
					break
				}
			}
			started.Add(1)
			time.Sleep(50 * time.Millisecond)
			switch {
			case a.N%10 == 1:
				return errTorn // each time
			case a.N%10 == 2 && run.Try() == 1:
				panic("once")
			case a.N%10 == 3:
				return worker.Permanent(errTorn)
			}
			return nil
		})
		stop := b.start(w)
		list := make([]nexjob.NewJob, jobs)
		for i := range list {
			list[i] = kind.New(args{i}, nexjob.Options{})
			list[i].ID = nexjob.NewID()
		}
		if _, err := b.store.Store.Enqueue(b.Context(), time.Now(), list); err != nil {
			b.Fatal(err)
		}
		b.sleep(5 * time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		h := w.Health()
		if h.Claimed != jobs*13/10 || started.Load() != h.Claimed || h.Succeeded != jobs*8/10 || h.Failed != jobs*2/10 ||
			h.Retried != jobs*3/10 || h.Panics != jobs/10 || most.Load() != slots || h.Busy+h.Unsettled != 0 ||
			h.LeasesLost+h.StaleWritesRefused+h.LetGo+h.StorageErrors+h.LateResults+h.ClaimsDropped != 0 {
			t.Errorf("%d started, at most %d at once, health %+v", started.Load(), most.Load(), h)
		}
		for i, item := range list {
			j := b.job(item.ID)
			state, tries := nexjob.Succeeded, 0
			switch i % 10 {
			case 1:
				state, tries = nexjob.Failed, 3
			case 2:
				tries = 1
			case 3:
				state, tries = nexjob.Failed, 1
			}
			if j.State != state || j.Tries != tries || j.Crashes+j.Interruptions != 0 {
				t.Fatalf("job %d is %v after %d tries", i, j.State, j.Tries)
			}
		}
	})
}
