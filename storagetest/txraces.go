package storagetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// txRaceChecks are races against a caller's open transaction.
func txRaceChecks() []check {
	return []check{
		{"an enqueue beside an open one that rolls back creates the job", func(b *bench) { besideOpen(b, false) }},
		{"an enqueue beside an open one that commits finds the job", func(b *bench) { besideOpen(b, true) }},
		{"many enqueues beside an open one that rolls back", manyBesideOpen},
		{"an enqueue beside an open settlement", besideSettlement},
		{"nothing of an open transaction is seen", unseenBeforeCommit},
		{"a renewal does not wait for an open settlement", renewBesideSettlement},
	}
}

// besideOpen: transaction A enqueues K and stays open; B enqueues K; A ends. B's
// answer fits what A did, and in the end the key has exactly one job.
func besideOpen(b *bench, commit bool) {
	handles := b.handles()
	for round := range 20 {
		policy := nexjob.Policies()[round%3]
		key := fmt.Sprintf("k%d", round)
		first, second := under(policy, newJob(key)), under(policy, newJob(key))
		tx := b.begin()
		b.must(tx.enqueue(first)[0].Err, "Enqueue in the transaction")
		var got []nexjob.Answer
		var err error
		var wait sync.WaitGroup
		started := make(chan struct{})
		wait.Go(func() {
			close(started)
			got, err = enqueueOn(b.ctx, handles[len(handles)-1], b.now(), second)
		})
		<-started
		if commit {
			tx.commit()
		} else {
			tx.rollback()
		}
		wait.Wait()
		b.must(err, "Enqueue beside the transaction")
		b.must(got[0].Err, "Enqueue beside the transaction")
		want := nexjob.Answer{ID: second.ID, Outcome: nexjob.Created, State: nexjob.Enqueued, Operation: second.ID}
		if commit {
			want = nexjob.Answer{ID: first.ID, Outcome: nexjob.Existing, State: nexjob.Enqueued, Operation: first.ID}
			if got[0].Outcome == nexjob.Created {
				b.t.Fatalf("key %q has two jobs: %s was committed and %s created beside it", key, first.ID, second.ID)
			}
		}
		b.equal("answer beside the transaction", want, got[0])
		b.equal("jobs with the key", []nexjob.ID{want.ID}, ids(b.find(nexjob.Query{Key: key}).Jobs))
	}
}

// renewBesideSettlement: a lease whose row an open transaction holds is busy, at once:
// neither lost nor waited for, whatever patience the caller has.
func renewBesideSettlement(b *bench) {
	c := b.run(newJob("k"))
	tx := b.begin()
	b.must(tx.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}).Err, "Settle in the transaction")
	renewal, err := b.s.Renew(b.ctx, b.now(), b.now().Add(60*time.Millisecond), []nexjob.Lease{c.Job.Lease()})
	b.must(err, "Renew beside the transaction")
	b.equal("renewal beside the transaction", nexjob.Busy, renewal[0].Status)
	tx.rollback()
	b.equal("renewal after its rollback", nexjob.Renewed, b.renew(c.Job.Lease())[0].Status)
}

func manyBesideOpen(b *bench) {
	const n = 12
	b.handles() // before the transaction: to open a storage may take a write
	tx := b.begin()
	b.must(tx.enqueue(newJob("k"))[0].Err, "Enqueue in the transaction")
	answers := make([]nexjob.Answer, n)
	var started sync.WaitGroup
	started.Add(n)
	b.together(n+1, func(i int, s nexjob.Storage) error {
		if i == n {
			started.Wait()
			return tx.caller.Rollback()
		}
		started.Done()
		got, err := enqueueOn(b.ctx, s, b.now(), newJob("k"))
		if err == nil {
			answers[i] = got[0]
		}
		return err
	})
	created := 0
	for i, a := range answers {
		b.check(a.Err == nil && a.ID == answers[0].ID, "enqueue %d: %+v", i, a)
		if a.Outcome == nexjob.Created {
			created++
		}
	}
	b.check(created == 1, "%d of %d enqueues beside a transaction that rolled back were created", created, n)
	b.equal("jobs with the key", 1, len(b.find(nexjob.Query{Key: "k"}).Jobs))
}

// besideSettlement: the holder is settled in a transaction that stays open. An
// enqueue beside it sees the holder active or ended, as the transaction ends.
func besideSettlement(b *bench) {
	handles := b.handles()
	for round := range 20 {
		key := fmt.Sprintf("k%d", round)
		c := b.run(newJob(key))
		commit := round%2 == 0
		tx := b.begin()
		b.must(tx.settle(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}).Err, "Settle in the transaction")
		var got []nexjob.Answer
		var err error
		var wait sync.WaitGroup
		wait.Go(func() {
			got, err = enqueueOn(b.ctx, handles[len(handles)-1], b.now(), under(nexjob.RejectAlways, newJob(key)))
		})
		if commit {
			tx.commit()
		} else {
			tx.rollback()
		}
		wait.Wait()
		b.must(err, "Enqueue beside the transaction")
		switch got[0].Outcome {
		case nexjob.Existing: // it looked before the commit, or there was none
			b.equal("holder", c.Job.ID, got[0].ID)
		case nexjob.Rejected:
			b.check(commit, "the enqueue was rejected because of a settlement that was rolled back")
		default:
			b.t.Fatalf("an enqueue beside an open settlement is answered %+v", got[0])
		}
		if !commit {
			b.finish(c, nexjob.EndSucceeded)
		}
	}
}

// unseenBeforeCommit reads beside an open transaction. An engine may make the
// reader wait for its end; then there is nothing to see.
func unseenBeforeCommit(b *bench) {
	n := newJob("k")
	tx := b.begin()
	b.must(tx.enqueue(n)[0].Err, "Enqueue in the transaction")
	read := make(chan int, 1)
	var wait sync.WaitGroup
	wait.Go(func() {
		page, err := b.s.Find(b.ctx, b.now(), nexjob.Query{})
		if err != nil {
			b.t.Errorf("Find beside the transaction: %v", err)
		}
		read <- len(page.Jobs)
	})
	tx.rollback()
	wait.Wait()
	b.equal("jobs seen by a reader beside a transaction that was rolled back", 0, <-read)
}
