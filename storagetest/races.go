package storagetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// raceChecks run real goroutines against one storage, on a second handle too where
// the engine offers one. They are bounded in rounds, and run best with -race.
func raceChecks() []check {
	return []check{
		{"100 concurrent enqueues of one key", hundredEnqueues},
		{"100 concurrent batches with the same keys in opposite orders", oppositeOrders},
		{"one key under every policy while its jobs end, are requeued, deleted and purged", keyUnderFire},
		{"the same ID enqueued concurrently", sameIDAtOnce},
		{"a job is claimed once", claimedOnce},
		{"a lease that ran out is recovered once", recoveredOnce},
		{"one settlement of one lease", settledOnce},
		{"cancelled and finished at the same instant", cancelOrFinish},
		{"replaced and claimed at the same instant", replaceOrClaim},
		{"a child attached while its parent finishes", attachWhileFinishing},
		{"one receipt of one slot", recordedOnce},
		{"one winner of one version", swappedOnce},
		{"requeued and enqueued at the same instant", requeueOrEnqueue},
	}
}

// handles returns the storage under its handles: two, if the engine offers a
// second one, so that actors do not share what a process shares.
func (b *bench) handles() []nexjob.Storage {
	b.t.Helper()
	if b.h.Second == nil {
		return []nexjob.Storage{b.s}
	}
	if b.second == nil {
		b.second = b.h.Second(b.t, b.s, b.clock.Now)
	}
	return []nexjob.Storage{b.s, b.second}
}

// persist repeats a step that a busy storage refused, as every caller must.
func persist[T any](ctx context.Context, step func() (T, error)) (T, error) {
	answer, err := step()
	for tries := 1; err != nil && nexjob.IsTransient(err) && ctx.Err() == nil && tries < 200; tries++ {
		answer, err = step()
	}
	return answer, err
}

// together runs actors that start at the same instant, each on the handle of its
// turn, and reports their errors.
func (b *bench) together(n int, act func(i int, s nexjob.Storage) error) {
	b.t.Helper()
	handles := b.handles()
	b.togetherOn(handles, n, act)
}

func (b *bench) togetherOn(handles []nexjob.Storage, n int, act func(i int, s nexjob.Storage) error) {
	b.t.Helper()
	start := make(chan struct{})
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			<-start
			errs[i] = act(i, handles[i%len(handles)])
		})
	}
	close(start)
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			b.t.Errorf("actor %d: %v", i, err)
		}
	}
	if b.t.Failed() {
		b.t.FailNow()
	}
}

func enqueueOn(ctx context.Context, s nexjob.Storage, now time.Time, jobs ...nexjob.NewJob) ([]nexjob.Answer, error) {
	return persist(ctx, func() ([]nexjob.Answer, error) { return s.Enqueue(ctx, now, jobs) })
}

// hundredEnqueues: one is created, 99 are answered with its ID and no error.
func hundredEnqueues(b *bench) {
	for _, policy := range nexjob.Policies() {
		const n = 100
		answers := make([]nexjob.Answer, n)
		key := "k " + policy.String()
		b.together(n, func(i int, s nexjob.Storage) error {
			got, err := enqueueOn(b.ctx, s, b.now(), under(policy, newJob(key)))
			if err == nil {
				answers[i] = got[0]
			}
			return err
		})
		created := 0
		for i, a := range answers {
			b.check(a.Err == nil, "enqueue %d: %v", i, a.Err)
			b.check(a.ID == answers[0].ID, "enqueue %d is answered job %s, enqueue 0 job %s", i, a.ID, answers[0].ID)
			if a.Outcome == nexjob.Created {
				created++
			}
		}
		b.check(created == 1, "under %s %d of %d concurrent enqueues of one key were created", policy, created, n)
		b.equal("jobs with the key", []nexjob.ID{answers[0].ID}, ids(b.find(nexjob.Query{Key: key}).Jobs))
	}
}

// oppositeOrders: batches that name the same keys in opposite orders neither
// dead-lock nor create a key twice.
func oppositeOrders(b *bench) {
	const n, keys = 24, 12
	answers := make([][]nexjob.Answer, n)
	b.together(n, func(i int, s nexjob.Storage) error {
		var batch []nexjob.NewJob
		for k := range keys {
			batch = append(batch, newJob(fmt.Sprintf("k%02d", k)))
		}
		if i%2 == 1 {
			slices.Reverse(batch)
		}
		var err error
		answers[i], err = enqueueOn(b.ctx, s, b.now(), batch...)
		if i%2 == 1 {
			slices.Reverse(answers[i])
		}
		return err
	})
	for k := range keys {
		created := 0
		for i := range n {
			a := answers[i][k]
			b.check(a.Err == nil && a.ID == answers[0][k].ID, "batch %d, key %d: %+v", i, k, a)
			if a.Outcome == nexjob.Created {
				created++
			}
		}
		b.check(created == 1, "key %d was created %d times", k, created)
	}
	b.equal("stored jobs", keys, len(b.dump().Jobs))
}

// keyUnderFire: whatever happens to the holder between an enqueue's look at the key
// and its insert, the key has one active job at every moment.
func keyUnderFire(b *bench) {
	const rounds = 120
	handles := b.handles()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	var twice []nexjob.ID
	watcher.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			page, err := b.s.Find(b.ctx, b.now(), nexjob.Query{Key: "k", Limit: nexjob.MaxPage, NewestFirst: true})
			active := slices.DeleteFunc(page.Jobs, func(j nexjob.Job) bool { return !j.State.Active() })
			if err == nil && len(active) > 1 {
				twice = ids(active)
				return
			}
		}
	})
	acts := []nexjob.Act{nexjob.ActRequeue, nexjob.ActDelete, nexjob.ActPurge, nexjob.ActClearKey, nexjob.ActCancel}
	ended := []nexjob.State{nexjob.Failed, nexjob.Succeeded, nexjob.Cancelled}
	b.togetherOn(handles, 6, func(i int, s nexjob.Storage) error {
		for round := range rounds {
			switch i {
			case 0, 1, 2:
				if _, err := enqueueOn(b.ctx, s, b.now(), under(nexjob.Policies()[i], newJob("k"))); err != nil {
					return err
				}
			case 3, 4:
				if err := claimAndSettle(b.ctx, s, b.now(), round); err != nil {
					return err
				}
			default:
				do := nexjob.Action{Act: acts[round%len(acts)], By: someone, Reason: "race", Force: true}
				_, err := persist(b.ctx, func() (nexjob.Amended, error) {
					return s.Amend(b.ctx, b.now(), nexjob.Query{Key: "k", States: ended}, do, 2)
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	close(done)
	watcher.Wait()
	b.check(len(twice) == 0, "key k had the active jobs %v at once", twice)
	b.oneActivePerKey()
}

func claimAndSettle(ctx context.Context, s nexjob.Storage, now time.Time, round int) error {
	claimed, err := persist(ctx, func() ([]nexjob.Claimed, error) { return s.Claim(ctx, now, claimAsk(1)) })
	if err != nil || len(claimed) == 0 {
		return err
	}
	how := []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndCancelled, nexjob.EndRetry}[round%4]
	_, err = persist(ctx, func() ([]nexjob.Settled, error) {
		return s.Settle(ctx, now, []nexjob.Settlement{{Lease: claimed[0].Job.Lease(), As: how}})
	})
	return err
}

func sameIDAtOnce(b *bench) {
	n := newJob("k")
	answers := make([]nexjob.Answer, 20)
	b.together(len(answers), func(i int, s nexjob.Storage) error {
		got, err := enqueueOn(b.ctx, s, b.now(), n)
		if err == nil {
			answers[i] = got[0]
		}
		return err
	})
	for i, a := range answers {
		b.check(a.Err == nil && a.Outcome == nexjob.Created && a.ID == n.ID, "repeat %d: %+v", i, a)
	}
	b.equal("stored jobs", 1, len(b.dump().Jobs))
}
