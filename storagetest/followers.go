package storagetest

import (
	"fmt"

	"github.com/nexjob/nexjob"
)

// followerChecks are about jobs that a settlement adds.
func followerChecks() []check {
	return []check{
		{"they are there when the job has succeeded", func(b *bench) {
			c := b.run(newJob("k"))
			first, second := newJob("f1"), newJob("")
			second.Queue = otherQueue
			got := b.succeedWith(c, first, second)
			for i, n := range []nexjob.NewJob{first, second} {
				b.check(got[i].Err == nil && got[i].Outcome == nexjob.Created && got[i].ID == n.ID, "follower %d: %+v", i, got[i])
				b.state(n.ID, nexjob.Enqueued, "a follower")
			}
			b.equal("answers kept on the job: none when all were created", 0, len(b.job(c.Job.ID).Followers))
		}},
		{"equal keys among them are judged in order", func(b *bench) {
			c := b.run(newJob(""))
			first, second := newJob("f"), newJob("f")
			got := b.succeedWith(c, first, second)
			b.check(got[0].Outcome == nexjob.Created && got[1].Outcome == nexjob.Existing && got[1].ID == first.ID, "answers: %+v", got)
		}},
		{"the job's own key is judged after its end", func(b *bench) {
			c := b.run(newJob("k"))
			again, never := newJob("k"), under(nexjob.RejectAlways, newJob("k2"))
			got := b.succeedWith(c, again, never)
			b.check(got[0].Err == nil && got[0].Outcome == nexjob.Created, "a follower under its job's own key: %+v", got[0])
			c = b.claimOnly(again.ID)
			got = b.succeedWith(c, under(nexjob.RejectAlways, newJob("k")))
			b.is(got[0].Err, nexjob.ErrDuplicateJob, "a follower under its job's own key and RejectAlways")
		}},
		{"a mismatch stands on the job", func(b *bench) {
			b.add(newJob("held"))
			c := b.claim(1)[0]
			other := b.run(newJob(""))
			n := newJob("held")
			n.Kind = ship
			got := b.succeedWith(other, n)
			b.is(got[0].Err, nexjob.ErrKeyMismatch, "a follower of another kind")
			kept := b.state(other.Job.ID, nexjob.Succeeded, "the settlement stands").Followers
			b.need(len(kept) == 1, "answers kept: %+v", kept)
			b.check(kept[0].Outcome == nexjob.Mismatched && kept[0].Error != "" && kept[0].Key == "held", "answer kept: %+v", kept[0])
			b.finish(c, nexjob.EndSucceeded)
		}},
		{"a follower may be a child of its job", func(b *bench) {
			c := b.run(newJob(""))
			n := newJob("")
			n.Parents = []nexjob.Parent{{ID: c.Job.ID, Rule: nexjob.OnSuccess}}
			got := b.succeedWith(c, n)
			b.must(got[0].Err, "a follower that is a child of its job")
			b.state(n.ID, nexjob.Enqueued, "its parent has succeeded")
		}},
		{"a wrong follower never leaves half a settlement", func(b *bench) {
			c := b.run(newJob("k"))
			wrong, right := newJob("wrong"), newJob("right")
			wrong.Kind = ""
			got := b.settle(nexjob.Settlement{
				Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{wrong, right},
			})[0]
			_, added := b.look(right.ID)
			state := b.job(c.Job.ID).State
			if got.Err != nil {
				b.is(got.Err, nexjob.ErrInvalid, "a settlement with a wrong follower")
				b.check(!added && state == nexjob.Processing, "refused, yet the job is %s and its other follower added: %v", state, added)
				return
			}
			b.is(got.Followers[0].Err, nexjob.ErrInvalid, "the wrong follower")
			b.check(added && state == nexjob.Succeeded, "accepted, yet the job is %s and its other follower added: %v", state, added)
		}},
		{"too many are refused", func(b *bench) {
			c := b.run(newJob("k"))
			many := make([]nexjob.NewJob, nexjob.MaxFollowers+1)
			for i := range many {
				many[i] = nexjob.NewJob{ID: nexjob.NewID(), Kind: charge}
			}
			b.unchanged("a settlement with too many followers", func() {
				got := b.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: many})[0]
				b.is(got.Err, nexjob.ErrInvalid, "more than MaxFollowers")
			})
		}},
		{"so many answers are kept", func(b *bench) {
			b.add(newJob("held"))
			holder := b.claim(1)[0]
			c := b.run(newJob(""))
			var many []nexjob.NewJob
			for range nexjob.MaxFollowerKept + 20 {
				many = append(many, newJob("held"))
			}
			got := b.succeedWith(c, many...)
			for i, a := range got {
				b.check(a.Outcome == nexjob.Existing && a.ID == holder.Job.ID, "follower %d: %+v", i, a)
			}
			b.equal("answers kept", nexjob.MaxFollowerKept, len(b.job(c.Job.ID).Followers))
		}},
		{"many followers", func(b *bench) {
			c := b.run(newJob(""))
			var many []nexjob.NewJob
			for i := range 500 {
				many = append(many, newJob(fmt.Sprintf("f%d", i)))
			}
			for i, a := range b.succeedWith(c, many...) {
				b.check(a.Outcome == nexjob.Created && a.ID == many[i].ID, "follower %d: %+v", i, a)
			}
			b.equal("claimed", 500, len(b.claim(501)))
		}},
	}
}

// succeedWith settles an attempt as succeeded and returns its followers' answers.
func (b *bench) succeedWith(c nexjob.Claimed, followers ...nexjob.NewJob) []nexjob.Answer {
	b.t.Helper()
	got := b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: followers})
	b.equal("state of the settled job", nexjob.Succeeded, got.State)
	b.need(len(got.Followers) == len(followers), "%d followers have %d answers", len(followers), len(got.Followers))
	return got.Followers
}
