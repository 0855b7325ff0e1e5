package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// operationChecks are about which new job continues the operation of the key's
// last one: after Failed, Expired and Cancelled, also with other args; never after
// Succeeded; not when the caller says that a second effect is meant.
func operationChecks() []check {
	checks := []check{
		{"chain of failures is one operation", chainIsOneOperation},
		{"a success ends the chain", successEndsChain},
		{"through a key that outlived its record", throughPurgedKey},
		{"through clear key", throughClearKey},
		{"a job without a key is its own operation", func(b *bench) {
			n := newJob("")
			b.equal("operation", n.ID, b.add(n).Operation)
		}},
		{"jobs of one operation are found together", func(b *bench) {
			first, second := newJob("k"), newJob("k")
			b.finish(b.run(first), nexjob.EndFailed)
			b.add(second)
			page := b.find(nexjob.Query{Operations: []nexjob.ID{first.ID}})
			b.equal("jobs of the operation", []nexjob.ID{first.ID, second.ID}, ids(page.Jobs))
		}},
		{"receipts follow the operation", receiptsFollowOperation},
		{"receipts do not follow NewOperation", receiptsStayBehind},
	}
	for _, e := range ends() {
		checks = append(checks,
			check{"equal args/" + e.name, func(b *bench) { continues(b, e, argsOne) }},
			check{"other args/" + e.name, func(b *bench) { continues(b, e, argsTwo) }},
			check{"NewOperation/" + e.name, func(b *bench) { newOperation(b, e) }})
	}
	return checks
}

func continues(b *bench, e end, args string) {
	last := e.reach(b, newJob("k"))
	n := jobWith("k", args)
	got := b.enqueue(n)[0]
	b.must(got.Err, "Enqueue")
	want := last.Operation
	if e.state == nexjob.Succeeded {
		want = n.ID
	}
	b.equal("operation", want, got.Operation)
	b.equal("continues", e.state != nexjob.Succeeded, got.Continues)
	b.equal("operation stored", want, b.job(n.ID).Operation)
	row, _ := b.key("k")
	b.equal("operation of the key", want, row.Operation)
	b.equal("fingerprint of the key", n.Fingerprint, row.Fingerprint)
}

func newOperation(b *bench, e end) {
	e.reach(b, newJob("k"))
	n := newJob("k")
	n.NewOperation = true
	got := b.add(n)
	b.check(got.Operation == n.ID && !got.Continues, "NewOperation is answered %+v", got)
	b.equal("operation stored", n.ID, b.job(n.ID).Operation)
}

func chainIsOneOperation(b *bench) {
	first := newJob("k")
	b.finish(b.run(first), nexjob.EndFailed)
	for range 3 {
		n := newJob("k")
		b.equal("operation of the next link", first.ID, b.add(n).Operation)
		b.finish(b.claimOnly(n.ID), nexjob.EndFailed)
	}
}

func successEndsChain(b *bench) {
	first, second, third := newJob("k"), newJob("k"), newJob("k")
	b.finish(b.run(first), nexjob.EndFailed)
	b.finish(b.run(second), nexjob.EndSucceeded)
	b.equal("operation after a success", third.ID, b.add(third).Operation)
}

func throughPurgedKey(b *bench) {
	for _, e := range ends() {
		n := newJob("k " + e.name)
		n.KeepKeyFor = time.Hour
		last := e.reach(b, n)
		b.act(last.ID, nexjob.ActPurge)
		next := newJob(n.IdempotencyKey)
		got := b.add(next)
		b.check(got.Continues == (e.state != nexjob.Succeeded), "after %s and a purge: %+v", e.name, got)
		b.act(next.ID, nexjob.ActDelete)
	}
}

func throughClearKey(b *bench) {
	first := newJob("k")
	b.finish(b.run(first), nexjob.EndFailed)
	b.act(first.ID, nexjob.ActClearKey)
	n := jobWith("k", argsTwo)
	n.NewOperation = true
	got := b.enqueue(under(nexjob.RejectIfFailed, n))[0]
	b.must(got.Err, "Enqueue under a cleared key")
	b.equal("operation with NewOperation under a cleared key", n.ID, got.Operation)
}

func receiptsFollowOperation(b *bench) {
	first := newJob("k")
	c := b.run(first)
	b.write(step(c, "render", "page 1"))
	b.write(b.intent(c, "card"))
	b.write(outcome(b.intent(c, "card"), nexjob.Confirmed, "paid"))
	b.finish(c, nexjob.EndFailed)
	next := b.run(jobWith("k", argsTwo))
	b.equal("operation", first.ID, next.Job.Operation)
	b.equal("receipts that the continuing job is claimed with", b.receipts(first.ID), next.Receipts)
	b.need(len(next.Receipts) == 2, "the continuing job is claimed with %d receipts, want 2", len(next.Receipts))
	again := step(next, "render", "page 2")
	b.write(again)
	b.equal("number of receipts: a step belongs to the args too", 3, len(b.receipts(first.ID)))
}

func receiptsStayBehind(b *bench) {
	first := newJob("k")
	c := b.run(first)
	b.write(step(c, "render", "page 1"))
	b.finish(c, nexjob.EndFailed)
	n := newJob("k")
	n.NewOperation = true
	b.check(len(b.run(n).Receipts) == 0, "a new operation is claimed with the receipts of the old one")
}
