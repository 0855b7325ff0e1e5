package storagetest

import (
	"errors"
	"fmt"

	"github.com/nexjob/nexjob"
)

// overtakenChecks are about a caller's transaction that has looked at the storage before
// others changed what it is about. Its answer is right, or it is a transient error, after
// which the transaction is rolled back and done anew; it is never what was true once.
func overtakenChecks() []check {
	checks := []check{
		{"a job was settled under a later lease", func(b *bench) {
			old := b.run(newJob("k"))
			b.overtaken(func() {
				b.pass(over)
				b.finish(b.claimOnly(old.Job.ID), nexjob.EndSucceeded)
			}, func(tx *openTx) error {
				got, err := only(tx.joined.Settle(b.ctx, b.now(), []nexjob.Settlement{{Lease: old.Job.Lease(), As: nexjob.EndFailed}}))
				if err == nil {
					b.is(got.Err, nexjob.ErrLeaseLost, "Settle by a stale lease")
				}
				return err
			})
			b.state(old.Job.ID, nexjob.Succeeded, "the later lease has settled it")
		}},
		{"a lease was renewed", func(b *bench) {
			c := b.run(newJob("k"))
			b.overtaken(func() { b.renew(c.Job.Lease()) }, func(tx *openTx) error {
				got, err := only(tx.joined.Settle(b.ctx, b.now(), []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}}))
				return errors.Join(err, got.Err)
			})
			b.state(c.Job.ID, nexjob.Succeeded, "its lease was current")
		}},
		{"a receipt was written", func(b *bench) {
			c := b.run(newJob("k"))
			b.overtaken(func() { b.write(step(c, "render", "first")) }, func(tx *openTx) error {
				_, err := only(tx.joined.Record(b.ctx, b.now(), []nexjob.Receipt{step(c, "render", "second")}))
				return err
			})
			b.equal("value", "first", string(b.receipts(c.Job.Operation)[0].Value))
		}},
	}
	for _, policy := range nexjob.Policies() {
		for _, o := range overtakings() {
			checks = append(checks, check{fmt.Sprintf("%s/%s", o.name, policy), func(b *bench) { o.check(b, policy) }})
		}
	}
	return checks
}

// overtaking is what others do with a key while a transaction is open that enqueues it.
type overtaking struct {
	name   string
	before func(b *bench, key string) nexjob.Job
	since  func(b *bench, key string, last nexjob.Job)
	// held says that the holder was active when the transaction looked. It may be answered
	// then: the transaction comes before the holder's end, and nothing is lost.
	held bool
}

func overtakings() []overtaking {
	nothing := func(*bench, string) nexjob.Job { return nexjob.Job{} }
	ended := func(how nexjob.Ending) func(b *bench, key string) nexjob.Job {
		return func(b *bench, key string) nexjob.Job {
			c := b.run(newJob(key))
			b.finish(c, how)
			return c.Job
		}
	}
	act := func(do nexjob.Act) func(b *bench, _ string, last nexjob.Job) {
		return func(b *bench, _ string, last nexjob.Job) { b.act(last.ID, do) }
	}
	return []overtaking{
		{name: "a job was created", before: nothing, since: func(b *bench, key string, _ nexjob.Job) { b.add(newJob(key)) }},
		{
			name: "a job was created and has succeeded", before: nothing,
			since: func(b *bench, key string, _ nexjob.Job) { ended(nexjob.EndSucceeded)(b, key) },
		},
		{
			name: "a job was created and has failed", before: nothing,
			since: func(b *bench, key string, _ nexjob.Job) { ended(nexjob.EndFailed)(b, key) },
		},
		{
			name: "the holder has succeeded", held: true,
			before: func(b *bench, key string) nexjob.Job { return b.job(b.add(newJob(key)).ID) },
			since:  func(b *bench, _ string, last nexjob.Job) { b.finish(b.claimOnly(last.ID), nexjob.EndSucceeded) },
		},
		{name: "the last job was requeued", before: ended(nexjob.EndFailed), since: act(nexjob.ActRequeue)},
		{name: "the last job was purged", before: ended(nexjob.EndSucceeded), since: act(nexjob.ActPurge)},
		{
			name: "the last job was purged and the key used again", before: ended(nexjob.EndSucceeded),
			since: func(b *bench, key string, last nexjob.Job) {
				b.act(last.ID, nexjob.ActPurge)
				ended(nexjob.EndFailed)(b, key)
			},
		},
	}
}

// check demands the answer that an enqueue outside gets, on a storage where the same
// happened.
func (o overtaking) check(b *bench, policy nexjob.DuplicatePolicy) {
	const key = "k"
	twin := open(b.t, b.h)
	o.since(twin, key, o.before(twin, key))
	want := twin.enqueue(under(policy, newJob(key)))[0]
	last := o.before(b, key)
	var got nexjob.Answer
	b.overtaken(func() { o.since(b, key, last) }, func(tx *openTx) (err error) {
		got, err = only(tx.joined.Enqueue(b.ctx, b.now(), []nexjob.NewJob{under(policy, newJob(key))}))
		return err
	})
	if o.held && got.Outcome == nexjob.Existing && got.ID == last.ID {
		return
	}
	b.check(got.Outcome == want.Outcome && got.Continues == want.Continues,
		"an enqueue in an older transaction is answered %+v, one outside %+v", got, want)
	b.check(got.Outcome != nexjob.Created || b.job(got.ID).State == nexjob.Enqueued, "the created job %s is not stored", got.ID)
}

// overtaken plays a step in a transaction that has looked before others did something,
// and again in a new one as long as the storage says that it may.
func (b *bench) overtaken(others func(), inside func(tx *openTx) error) {
	b.t.Helper()
	tx := b.begin()
	tx.look(nexjob.NewID())
	others()
	for tries := 1; ; tries++ {
		err := inside(tx)
		if err == nil {
			err = tx.caller.Commit()
		} else {
			tx.rollback()
		}
		if err == nil {
			return
		}
		b.need(nexjob.IsTransient(err) && tries < 3, "try %d in an older transaction: %v", tries, err)
		tx = b.begin()
	}
}
