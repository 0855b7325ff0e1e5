package storagetest

import (
	"github.com/nexjob/nexjob"
)

// openTx is a caller's transaction with the storage joined to it.
type openTx struct {
	b      *bench
	caller Transaction
	joined nexjob.Joined
}

func (b *bench) begin() *openTx {
	b.t.Helper()
	caller := b.h.Begin(b.t, b.s)
	joined, err := b.s.Join(caller.Tx())
	b.must(err, "Join")
	return &openTx{b: b, caller: caller, joined: joined}
}

func (x *openTx) enqueue(jobs ...nexjob.NewJob) []nexjob.Answer {
	x.b.t.Helper()
	answers, err := x.joined.Enqueue(x.b.ctx, x.b.now(), jobs)
	x.b.must(err, "Enqueue in the transaction")
	x.b.need(len(answers) == len(jobs), "Enqueue of %d jobs gives %d answers", len(jobs), len(answers))
	return answers
}

func (x *openTx) settle(end nexjob.Settlement) nexjob.Settled {
	x.b.t.Helper()
	settled, err := x.joined.Settle(x.b.ctx, x.b.now(), []nexjob.Settlement{end})
	x.b.must(err, "Settle in the transaction")
	x.b.need(len(settled) == 1, "Settle of one attempt gives %d answers", len(settled))
	return settled[0]
}

func (x *openTx) record(r nexjob.Receipt) nexjob.Recorded {
	x.b.t.Helper()
	recorded, err := x.joined.Record(x.b.ctx, x.b.now(), []nexjob.Receipt{r})
	x.b.must(err, "Record in the transaction")
	x.b.need(len(recorded) == 1, "Record of one receipt gives %d answers", len(recorded))
	return recorded[0]
}

func (x *openTx) look(id nexjob.ID) (nexjob.Job, bool) {
	x.b.t.Helper()
	page, err := x.joined.Find(x.b.ctx, x.b.now(), nexjob.Query{IDs: []nexjob.ID{id}})
	x.b.must(err, "Find in the transaction")
	if len(page.Jobs) == 0 {
		return nexjob.Job{}, false
	}
	return page.Jobs[0], true
}

func (x *openTx) commit() {
	x.b.t.Helper()
	x.b.must(x.caller.Commit(), "commit of the caller's transaction")
}

func (x *openTx) rollback() {
	x.b.t.Helper()
	x.b.must(x.caller.Rollback(), "rollback of the caller's transaction")
}
