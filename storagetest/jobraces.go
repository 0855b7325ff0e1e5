package storagetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// What follows are the races for one job or one record; those for one key stand in
// races.go.

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
		if len(claimed) == 0 { // an engine may pass by a row that somebody holds
			claimed = b.claim(1)
		}
		b.need(len(claimed) == 1 && claimed[0].Job.ID == n.ID, "claimed: %+v", claimed)
		want := argsOne
		if answer.Outcome == nexjob.Replaced {
			want = argsTwo
		}
		b.check(answer.Err == nil && answer.ID == n.ID, "answer: %+v", answer)
		b.check(answer.Started == (answer.Outcome == nexjob.Existing), "answer: %+v", answer)
		b.equal("args that were claimed when the replace was answered "+answer.Outcome.String(), want, string(claimed[0].Job.Args))
		b.finish(claimed[0], nexjob.EndSucceeded)
	}
}

func attachWhileFinishing(b *bench) {
	handles := b.handles()
	for round := range 50 {
		rule, how := nexjob.Rule(round%3), []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed}[round%2]
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
		first := rand.IntN(2)
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
