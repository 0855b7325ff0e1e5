package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// joinedChecks are about steps inside a caller's transaction: seen inside it at
// once, by others on commit, and gone on rollback.
func joinedChecks() []check {
	return []check{
		{"enqueue: inside at once, outside on commit", func(b *bench) {
			n := newJob("k")
			tx := b.begin()
			a := tx.enqueue(n)[0]
			b.check(a.Err == nil && a.Outcome == nexjob.Created, "answer: %+v", a)
			j, seen := tx.look(n.ID)
			b.check(seen && j.State == nexjob.Enqueued, "inside the transaction the job is seen: %v, %s", seen, j.State)
			again := tx.enqueue(newJob("k"))[0]
			b.check(again.Outcome == nexjob.Existing && again.ID == n.ID, "a second enqueue inside: %+v", again)
			tx.commit()
			b.claimOnly(n.ID)
		}},
		{"enqueue: gone on rollback", func(b *bench) {
			n := newJob("k")
			b.unchanged("a rolled back enqueue", func() {
				tx := b.begin()
				tx.enqueue(n, newJob(""))
				tx.rollback()
			})
			b.claimNone("its transaction was rolled back")
			b.add(n) // the ID and the key are as if never used
		}},
		{"enqueue: a wrong item leaves the transaction whole", func(b *bench) {
			wrong, right := newJob("wrong"), newJob("right")
			wrong.Kind = ""
			tx := b.begin()
			answers := tx.enqueue(wrong, right)
			b.is(answers[0].Err, nexjob.ErrInvalid, "the wrong item")
			duplicate := tx.enqueue(newJob("right"))[0]
			b.check(duplicate.Outcome == nexjob.Existing, "a duplicate inside: %+v", duplicate)
			tx.commit()
			b.claimOnly(right.ID)
		}},
		{"enqueue: replaces and continues inside", func(b *bench) {
			failed := newJob("failed")
			b.finish(b.run(failed), nexjob.EndFailed)
			waiting := newJob("waiting")
			b.add(waiting)
			tx := b.begin()
			answers := tx.enqueue(newJob("failed"), replacing("waiting"))
			b.check(answers[0].Continues && answers[0].Operation == failed.ID, "continuing inside: %+v", answers[0])
			b.check(answers[1].Outcome == nexjob.Replaced && answers[1].ID == waiting.ID, "replacing inside: %+v", answers[1])
			tx.commit()
			b.equal("args", argsTwo, string(b.job(waiting.ID).Args))
		}},
		{"settle: on commit", func(b *bench) {
			c := b.run(newJob("k"))
			child := childOf("", on(nexjob.OnSuccess, c.Job.ID))
			b.add(child)
			follower := newJob("f")
			tx := b.begin()
			got := tx.settle(nexjob.Settlement{
				Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: []byte("done"), Followers: []nexjob.NewJob{follower},
			})
			b.check(got.Err == nil && got.State == nexjob.Succeeded, "answer: %+v", got)
			j, _ := tx.look(c.Job.ID)
			b.equal("state inside", nexjob.Succeeded, j.State)
			tx.commit()
			b.state(c.Job.ID, nexjob.Succeeded, "committed")
			b.state(child.ID, nexjob.Enqueued, "its parent has succeeded")
			b.state(follower.ID, nexjob.Enqueued, "a follower")
		}},
		{"settle: gone on rollback, and the lease stands", func(b *bench) {
			c := b.run(newJob("k"))
			b.add(childOf("", on(nexjob.OnAnyEnd, c.Job.ID)))
			b.unchanged("a rolled back settlement", func() {
				tx := b.begin()
				b.must(tx.settle(nexjob.Settlement{
					Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{newJob("f")},
				}).Err, "Settle")
				tx.rollback()
			})
			b.equal("status of the lease", nexjob.Renewed, b.renew(c.Job.Lease())[0].Status)
			b.finish(c, nexjob.EndSucceeded)
		}},
		{"settle: an open effect holds up the end", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(b.intent(c, "card"))
			tx := b.begin()
			b.equal("state", nexjob.Uncertain, tx.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}).State)
			tx.commit()
			b.equal("the end that was wished", nexjob.Succeeded, b.state(c.Job.ID, nexjob.Uncertain, "an effect is open").Wished)
		}},
		{"settle: with a stop flag it is Succeeded", func(b *bench) {
			c := b.run(newJob("k"))
			b.act(c.Job.ID, nexjob.ActCancel)
			tx := b.begin()
			b.equal("state", nexjob.Succeeded, tx.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}).State)
			tx.commit()
			b.state(c.Job.ID, nexjob.Succeeded, "its transaction has committed")
		}},
		{"settle: repeated after a lost answer", func(b *bench) {
			c := b.run(newJob("k"))
			end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}
			tx := b.begin()
			b.must(tx.settle(end).Err, "Settle")
			tx.commit()
			b.unchanged("the same settlement outside", func() { b.finishWith(end) })
		}},
		{"record: on commit and on rollback", func(b *bench) {
			c := b.run(newJob("k"))
			b.unchanged("a rolled back receipt", func() {
				tx := b.begin()
				b.must(tx.record(step(c, "render", "lost")).Err, "Record")
				tx.rollback()
			})
			tx := b.begin()
			got := tx.record(step(c, "render", "kept"))
			b.check(got.Err == nil && got.Ours, "after a rollback: %+v", got)
			tx.commit()
			b.equal("value", "kept", string(b.receipts(c.Job.Operation)[0].Value))
		}},
		{"stale leases are refused inside", staleInside},
		{"another engine's transaction is refused", func(b *bench) {
			_, err := b.s.Join(foreignTx{})
			b.check(err != nil, "Join takes a transaction of another engine")
		}},
	}
}

type foreignTx struct{}

// Engine names an engine that nobody wrote.
func (foreignTx) Engine() string { return "another engine" }

func staleInside(b *bench) {
	old := b.run(newJob("k"))
	b.pass(over)
	current := b.claimOnly(old.Job.ID)
	b.unchanged("stale writes inside a transaction", func() {
		tx := b.begin()
		for how := nexjob.EndSucceeded; how <= nexjob.EndCancelled; how++ {
			got := tx.settle(nexjob.Settlement{Lease: old.Job.Lease(), As: how, Delay: time.Minute})
			b.is(got.Err, nexjob.ErrLeaseLost, "Settle as "+how.String()+" by a stale lease")
		}
		b.is(tx.record(step(old, "render", "late")).Err, nexjob.ErrLeaseLost, "Record by a stale lease")
		tx.commit()
	})
	tx := b.begin()
	b.must(tx.record(step(current, "render", "in time")).Err, "Record by the current lease")
	b.must(tx.settle(nexjob.Settlement{Lease: current.Job.Lease(), As: nexjob.EndSucceeded}).Err, "Settle by the current lease")
	tx.commit()
	b.state(old.Job.ID, nexjob.Succeeded, "its current attempt has settled it")
}
