package worker

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/nexjob/nexjob"
)

// WorkerEntry is the kind of the entries by which live workers are known. The
// entry's name is the worker's, its value a Presence.
const WorkerEntry = "worker"

// Presence is what a worker says of itself. It expires after three leases without
// a renewal.
type Presence struct {
	Name     string    `json:"name"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Slots    int       `json:"slots"`
	Busy     int       `json:"busy"`
	Stuck    int       `json:"stuck"`
	Stopping bool      `json:"stopping"`
	Queues   []Queue   `json:"queues"`
	Kinds    []string  `json:"kinds"`
}

// upkeepBatch bounds one step of upkeep, so that it never holds up a claim for long.
const upkeepBatch = 500

// upkeep does what must happen although no claim comes by: it recovers leases that
// ran out, expires jobs that nobody claims, removes old ones, and says that this
// worker lives. It runs beside the slots, on every worker, and stops with the
// claims. Each round is a third of a lease.
func (w *Worker) upkeep(ctx context.Context) {
	var removeAt time.Time
	for {
		w.step(ctx, "presence", w.putPresence)
		w.step(ctx, "recover", w.recoverLeases)
		w.step(ctx, "expire", w.expire)
		if !time.Now().Before(removeAt) {
			removeAt = time.Now().Add(jittered(w.options.RetentionEvery))
			w.removeOld(ctx)
		}
		if !pause(ctx, jittered(w.options.Lease/3)) {
			return
		}
	}
}

// step does one step of upkeep in the storage's time. One that fails is tried again
// in the next round and does not keep the others from running.
func (w *Worker) step(ctx context.Context, what string, do func(ctx context.Context, now time.Time) error) {
	limited, cancel := context.WithTimeout(ctx, max(w.options.Lease, time.Second))
	defer cancel()
	err := w.clock.Do(limited, func(now time.Time) error { return do(limited, now) })
	if err != nil && ctx.Err() == nil {
		w.storageFailed(what, err)
	}
}

// recoverLeases is a claim of no job: full slots, a paused queue or a kind that
// nobody serves must not keep leases from being recovered.
func (w *Worker) recoverLeases(ctx context.Context, now time.Time) error {
	_, err := w.store.Claim(ctx, now, w.claimRequest(0))
	return err
}

// expire ends waiting jobs whose deadline has passed. A claim would do it too, but
// nobody may ever claim them.
func (w *Worker) expire(ctx context.Context, now time.Time) error {
	waiting := nexjob.Query{
		DeadlineBefore: now,
		States:         []nexjob.State{nexjob.Enqueued, nexjob.Scheduled, nexjob.AwaitingContinuation},
	}
	return w.amendAll(ctx, now, waiting, nexjob.Action{
		Act: nexjob.ActExpire, By: w.name, Reason: "its deadline passed before it was started",
	})
}

// removeOld purges ended jobs by their retention. The step of a state that is kept
// for ever selects nothing, but still clears keys and receipts that are left over.
func (w *Worker) removeOld(ctx context.Context) {
	for _, keep := range []struct {
		state nexjob.State
		d     time.Duration
	}{
		{nexjob.Succeeded, w.options.Retention.Succeeded},
		{nexjob.Failed, w.options.Retention.Failed},
		{nexjob.Expired, w.options.Retention.Expired},
		{nexjob.Cancelled, w.options.Retention.Cancelled},
	} {
		w.step(ctx, "retention", func(ctx context.Context, now time.Time) error {
			before := now.Add(-keep.d)
			if keep.d < 0 {
				before = time.Unix(0, 0).UTC()
			}
			ended := nexjob.Query{States: []nexjob.State{keep.state}, EndedBefore: before}
			return w.amendAll(ctx, now, ended, nexjob.Action{Act: nexjob.ActPurge, By: w.name, Reason: "retention"})
		})
	}
}

// amendAll repeats an action in bounded batches until the query selects nothing
// more, with a breath between them for claims to come by.
func (w *Worker) amendAll(ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action) error {
	began := time.Now()
	for {
		done, err := w.store.Amend(ctx, now.Add(time.Since(began)), q, do, upkeepBatch)
		if err != nil {
			return err
		}
		if !done.More || done.Done()+done.Swept == 0 {
			return nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return nil
		}
	}
}

// putPresence writes the worker's entry.
func (w *Worker) putPresence(ctx context.Context, now time.Time) error {
	health := w.Health()
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	value, err := json.Marshal(Presence{
		Name: w.name, Host: host, PID: os.Getpid(), Started: health.Started, Slots: health.Slots, Busy: health.Busy,
		Stuck: len(health.Stuck), Stopping: health.Stopping, Queues: w.options.Queues, Kinds: w.kinds,
	})
	if err != nil {
		return err
	}
	if len(value) > nexjob.MaxEntryValue {
		value = []byte(`{}`) // thousands of kinds; that the worker lives matters more
	}
	_, err = w.store.Put(ctx, now, []nexjob.Put{{
		Always: true,
		Entry: nexjob.Entry{
			Kind: WorkerEntry, Name: w.name, Value: value, ExpiresAt: now.Add(3 * w.options.Lease),
		},
	}})
	return err
}

// dropPresence removes the worker's entry at a stop.
func (w *Worker) dropPresence(ctx context.Context, now time.Time) error {
	_, err := w.store.Put(ctx, now, []nexjob.Put{{
		Always: true, Delete: true, Entry: nexjob.Entry{Kind: WorkerEntry, Name: w.name},
	}})
	return err
}
