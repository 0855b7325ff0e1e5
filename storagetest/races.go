package storagetest

import (
	"context"
	"fmt"
	"math/rand/v2"
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

func claimedOnce(b *bench) {
	const jobs = 300
	var batch []nexjob.NewJob
	for range jobs {
		batch = append(batch, newJob(""))
	}
	b.enqueue(batch...)
	claims := make([][]nexjob.Claimed, 8)
	b.together(len(claims), func(i int, s nexjob.Storage) error {
		for {
			claimed, err := persist(b.ctx, func() ([]nexjob.Claimed, error) {
				return s.Claim(b.ctx, b.now(), claimAsk(1+i))
			})
			if err != nil || len(claimed) == 0 {
				return err
			}
			claims[i] = append(claims[i], claimed...)
		}
	})
	jobsSeen, fences := make(map[nexjob.ID]int), make(map[int64]bool)
	for i, claimed := range claims {
		for _, c := range claimed {
			b.check(!fences[c.Job.Fence], "fence %d was drawn twice", c.Job.Fence)
			if other, twice := jobsSeen[c.Job.ID]; twice {
				b.t.Errorf("job %s was claimed by actors %d and %d", c.Job.ID, other, i)
			}
			fences[c.Job.Fence], jobsSeen[c.Job.ID] = true, i
		}
	}
	b.equal("claimed jobs", jobs, len(jobsSeen))
}

func recoveredOnce(b *bench) {
	const jobs = 40
	for range jobs {
		b.add(newJob(""))
	}
	b.equal("claimed", jobs, len(b.claim(jobs)))
	b.pass(over)
	b.together(6, func(_ int, s nexjob.Storage) error {
		_, err := persist(b.ctx, func() ([]nexjob.Claimed, error) {
			return s.Claim(b.ctx, b.now(), nexjob.ClaimRequest{Worker: "upkeep", Lease: lease, Recover: 7})
		})
		return err
	})
	for range jobs {
		b.upkeep(0)
	}
	for _, j := range b.dump().Jobs {
		b.check(j.Crashes == 1 && j.State == nexjob.Enqueued, "after one crash and six recoveries: %s", brief(j))
	}
}

func settledOnce(b *bench) {
	for round := range 10 {
		c := b.run(newJob("k"))
		accepted := make([]bool, 4)
		endings := []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndRetry, nexjob.EndCancelled}
		b.together(len(accepted), func(i int, s nexjob.Storage) error {
			got, err := persist(b.ctx, func() ([]nexjob.Settled, error) {
				end := nexjob.Settlement{Lease: c.Job.Lease(), As: endings[i], Delay: 10 * time.Hour}
				if i == 0 {
					end.Followers = []nexjob.NewJob{childOf(fmt.Sprintf("f%d", round))}
				}
				return s.Settle(b.ctx, b.now(), []nexjob.Settlement{end})
			})
			if err == nil {
				accepted[i] = got[0].Err == nil
			}
			return err
		})
		stands := 0
		for i, ok := range accepted {
			if ok {
				stands++
				b.equal("ending that stands", endings[i], b.job(c.Job.ID).SettledAs)
			}
		}
		b.check(stands == 1, "%d settlements of one lease stand", stands)
		_, followed := b.key(fmt.Sprintf("f%d", round))
		b.check(followed == accepted[0], "the success was accepted: %v, its follower added: %v", accepted[0], followed)
		b.amend(nexjob.Query{}, nexjob.Action{Act: nexjob.ActDelete})
	}
}

func cancelOrFinish(b *bench) {
	handles := b.handles()
	for range 30 {
		c := b.run(newJob(""))
		b.togetherOn(handles, 2, func(i int, s nexjob.Storage) error {
			if i == 0 {
				_, err := persist(b.ctx, func() ([]nexjob.Settled, error) {
					return s.Settle(b.ctx, b.now(), []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}})
				})
				return err
			}
			_, err := persist(b.ctx, func() (nexjob.Amended, error) {
				return s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{c.Job.ID}},
					nexjob.Action{Act: nexjob.ActCancel, By: someone, Reason: "race"}, 1)
			})
			return err
		})
		b.state(c.Job.ID, nexjob.Succeeded, "its handler succeeded, whenever the cancel came")
	}
}

func replaceOrClaim(b *bench) {
	handles := b.handles()
	for round := range 30 {
		n := newJob(fmt.Sprintf("k%d", round))
		b.add(n)
		var answer nexjob.Answer
		var claimed []nexjob.Claimed
		b.togetherOn(handles, 2, func(i int, s nexjob.Storage) error {
			if i == 0 {
				got, err := enqueueOn(b.ctx, s, b.now(), replacing(n.IdempotencyKey))
				if err == nil {
					answer = got[0]
				}
				return err
			}
			var err error
			claimed, err = persist(b.ctx, func() ([]nexjob.Claimed, error) { return s.Claim(b.ctx, b.now(), claimAsk(1)) })
			return err
		})
		b.need(len(claimed) == 1 && claimed[0].Job.ID == n.ID, "claimed: %+v", claimed)
		want := map[nexjob.Outcome]string{nexjob.Replaced: argsTwo, nexjob.Existing: argsOne}[answer.Outcome]
		b.check(answer.Err == nil && answer.ID == n.ID, "answer: %+v", answer)
		b.check(answer.Started == (answer.Outcome == nexjob.Existing), "answer: %+v", answer)
		b.equal("args that were claimed when the replace was answered "+answer.Outcome.String(), want, string(claimed[0].Job.Args))
		b.finish(claimed[0], nexjob.EndSucceeded)
	}
}

func attachWhileFinishing(b *bench) {
	handles := b.handles()
	for round := range 50 {
		rule, how := nexjob.Rule(round%3), []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed}[round%2] //nolint:gosec // below 3
		c := b.run(newJob(""))
		child := childOf("", on(rule, c.Job.ID))
		b.togetherOn(handles, 2, func(i int, s nexjob.Storage) error {
			if i == 0 {
				_, err := persist(b.ctx, func() ([]nexjob.Settled, error) {
					return s.Settle(b.ctx, b.now(), []nexjob.Settlement{{Lease: c.Job.Lease(), As: how}})
				})
				return err
			}
			_, err := enqueueOn(b.ctx, s, b.now(), child)
			return err
		})
		want := nexjob.Cancelled
		if rule == nexjob.OnAnyEnd || (rule == nexjob.OnSuccess) == (how == nexjob.EndSucceeded) {
			want = nexjob.Enqueued
		}
		b.state(child.ID, want, fmt.Sprintf("%s, its parent %s at the same instant", rule, how))
		if want == nexjob.Enqueued {
			b.finish(b.claimOnly(child.ID), nexjob.EndSucceeded)
		}
	}
}

func recordedOnce(b *bench) {
	c := b.run(newJob(""))
	ours := make([]bool, 12)
	b.together(len(ours), func(i int, s nexjob.Storage) error {
		got, err := persist(b.ctx, func() ([]nexjob.Recorded, error) {
			return s.Record(b.ctx, b.now(), []nexjob.Receipt{step(c, "render", fmt.Sprint(i))})
		})
		if err == nil {
			ours[i] = got[0].Ours
		}
		return err
	})
	standing := string(b.receipts(c.Job.Operation)[0].Value)
	for i, won := range ours {
		b.check(won == (standing == fmt.Sprint(i)), "writer %d was told ours: %v, and the standing value is that of %s", i, won, standing)
	}
}

func swappedOnce(b *bench) {
	b.put(nexjob.Put{Entry: entry("a", "0")})
	for version := int64(1); version <= 10; version++ {
		var mu sync.Mutex
		winners := 0
		b.together(6, func(i int, s nexjob.Storage) error {
			got, err := persist(b.ctx, func() ([]nexjob.PutAnswer, error) {
				return s.Put(b.ctx, b.now(), []nexjob.Put{{Entry: entry("a", fmt.Sprint(i)), If: version}})
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil && got[0].Done {
				winners++
			}
			return err
		})
		b.check(winners == 1, "%d writers swapped version %d", winners, version)
	}
}

// requeueOrEnqueue: both want to make the key's active job; one does.
func requeueOrEnqueue(b *bench) {
	handles := b.handles()
	for round := range 40 {
		n := newJob(fmt.Sprintf("k%d", round))
		b.finish(b.run(n), nexjob.EndFailed)
		again := newJob(n.IdempotencyKey)
		var answer nexjob.Answer
		var amended nexjob.Amended
		first := rand.IntN(2) //nolint:gosec // which goroutine starts first
		b.togetherOn(handles, 2, func(i int, s nexjob.Storage) error {
			var err error
			if i == first {
				var got []nexjob.Answer
				if got, err = enqueueOn(b.ctx, s, b.now(), again); err == nil {
					answer = got[0]
				}
				return err
			}
			amended, err = persist(b.ctx, func() (nexjob.Amended, error) {
				return s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{n.ID}},
					nexjob.Action{Act: nexjob.ActRequeue, By: someone, Reason: "race"}, 1)
			})
			return err
		})
		requeued := amended.Done() == 1
		b.check(requeued == (answer.Outcome == nexjob.Existing && answer.ID == n.ID) &&
			!requeued == (answer.Outcome == nexjob.Created && answer.ID == again.ID),
			"the requeue was done: %v, and the enqueue is answered %+v", requeued, answer)
		b.oneActivePerKey()
		for _, c := range b.claim(2) {
			b.finish(c, nexjob.EndSucceeded)
		}
	}
}
