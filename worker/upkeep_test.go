package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// B032: with every slot taken by hung handlers, upkeep goes on: other workers' jobs
// are recovered, deadlines are kept, old jobs are removed, the worker is shown.
func TestUpkeepRunsBesideSlots(t *testing.T) {
	bubble(t, func(b *bench) {
		old := b.enqueue(nexjob.Options{Queue: "old"})
		b.amend(nexjob.Action{Act: nexjob.ActCancel}, nexjob.Query{IDs: []nexjob.ID{old}})
		lost := b.enqueue(nexjob.Options{})
		b.deadClaim(30*time.Second, 5)
		hung := b.add(kindA.New(args{1}, nexjob.Options{}))
		release := make(chan struct{})
		defer close(release)
		short := worker.Retention{Cancelled: time.Hour, Expired: time.Hour}
		w, _ := b.run(worker.Options{Slots: 1, RetentionEvery: 15 * time.Minute, Retention: short},
			func(_ context.Context, _ *worker.Run, a args) error {
				if a.N == 1 {
					<-release
				}
				return nil
			})
		synctest.Wait()
		late := b.enqueue(nexjob.Options{Queue: "nobody", DeadlineAfter: time.Minute})
		b.sleep(2 * time.Minute)
		b.want(hung, nexjob.Processing, 0, 0, 0)
		b.want(lost, nexjob.Enqueued, 0, 1, 0)
		b.want(late, nexjob.Expired, 0, 0, 0)
		b.want(old, nexjob.Cancelled, 0, 0, 0)

		entries, err := b.store.Entries(b.Context(), time.Now(), worker.WorkerEntry)
		var shown worker.Presence
		if err != nil || len(entries) != 1 || json.Unmarshal(entries[0].Value, &shown) != nil {
			t.Fatalf("entries %v, %v", entries, err)
		}
		if shown.Name != w.Name() || shown.Busy != 1 || shown.Slots != 1 || shown.Kinds[0] != "a" {
			t.Errorf("presence %+v", shown)
		}
		b.sleep(2 * time.Hour)
		if n := len(b.find(nexjob.Query{IDs: []nexjob.ID{old, late}}).Jobs); n != 0 {
			t.Errorf("%d old jobs are still stored", n)
		}
	})
}

// Retention is per state, and negative is for ever.
func TestRetention(t *testing.T) {
	bubble(t, func(b *bench) {
		_, stop := b.run(worker.Options{Lease: time.Hour, Retention: worker.Retention{Succeeded: -1, Failed: time.Hour}},
			func(_ context.Context, _ *worker.Run, a args) error {
				if a.N == 1 {
					return worker.Permanent(errUnreachable)
				}
				return nil
			})
		good := b.enqueue(nexjob.Options{})
		for range 700 { // more than one batch
			b.add(kindA.New(args{1}, nexjob.Options{}))
		}
		b.sleep(50 * time.Minute)
		if n := len(b.find(nexjob.Query{Limit: 1000}).Jobs); n != 701 {
			t.Errorf("%d jobs are kept before the time", n)
		}
		b.sleep(4 * time.Hour)
		if jobs := b.find(nexjob.Query{Limit: 1000}).Jobs; len(jobs) != 1 || jobs[0].ID != good {
			t.Errorf("%d jobs are kept", len(jobs))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if entries, err := b.store.Entries(b.Context(), time.Now(), worker.WorkerEntry); err != nil || len(entries) != 0 {
			t.Errorf("entries after the stop: %v, %v", entries, err)
		}
	})
}

// The entry of a worker that died expires.
func TestPresenceExpires(t *testing.T) {
	bubble(t, func(b *bench) {
		_, stop := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { return nil })
		b.sleep(time.Minute)
		b.cut("put", 0, time.Hour)
		_ = stop()
		for _, want := range []int{1, 0} {
			if entries, err := b.store.Entries(b.Context(), time.Now(), worker.WorkerEntry); err != nil || len(entries) != want {
				t.Errorf("%d entries, %v; want %d", len(entries), err, want)
			}
			b.sleep(90 * time.Second)
		}
	})
}

// Health shows how far the host's clock is off, and the worker is not misled by it.
func TestHostClockIsOff(t *testing.T) {
	bubble(t, func(b *bench) {
		b.store.Store = newStoreAhead(3 * time.Hour)
		w := b.worker(worker.Options{Poll: time.Hour})
		ran := false
		worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error { ran = true; return nil })
		job := kindA.New(args{}, nexjob.Options{Delay: time.Minute})
		job.ID = nexjob.NewID()
		now, err := b.store.Clock(b.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.store.Enqueue(b.Context(), now, []nexjob.NewJob{job}); err != nil {
			t.Fatal(err)
		}
		b.start(w)
		b.sleep(59 * time.Second)
		if off := w.Health().ClockOffset; ran || off < 3*time.Hour-time.Second || off > 3*time.Hour+time.Second {
			t.Errorf("ran %v, offset %s", ran, off)
		}
	})
}
