package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// ledgerChecks are about receipts as such: the first value stands, they belong to
// the operation, and there are limits.
func ledgerChecks() []check {
	return []check{
		{"the first value stands", firstValueStands},
		{"an equal value of another attempt is not ours", func(b *bench) {
			c := b.run(newJob(""))
			b.write(step(c, "render", "page"))
			b.finish(c, nexjob.EndRetry)
			again := b.claimOnly(c.Job.ID)
			got := b.record(step(again, "render", "page"))[0]
			b.check(got.Err == nil && !got.Ours, "the value stands, but another attempt wrote it: %+v", got)
			b.equal("writer that stands", c.Job.Lease(), got.Standing.Writer)
		}},
		{"slots: name, item, fingerprint", slots},
		{"each receipt has its own answer", func(b *bench) {
			c := b.run(newJob(""))
			stale := step(c, "other", "x")
			stale.Writer.Fence++
			got := b.record(step(c, "a", "1"), stale, step(c, "a", "2"), step(c, "b", "3"))
			b.check(got[0].Err == nil && got[0].Ours, "first: %+v", got[0])
			b.is(got[1].Err, nexjob.ErrLeaseLost, "the stale one")
			b.check(got[2].Err == nil && !got[2].Ours && string(got[2].Standing.Value) == "1", "the second value of a slot: %+v", got[2])
			b.check(got[3].Err == nil && got[3].Ours, "last: %+v", got[3])
		}},
		{"what is stored", ledgerStores},
		{"receipts survive retry, crash and requeue", receiptsSurvive},
		{"a requeue as a new operation leaves them behind", func(b *bench) {
			c := b.run(newJob("k"))
			b.write(step(c, "render", "page"))
			b.finish(c, nexjob.EndFailed)
			b.actWith(c.Job.ID, nexjob.Action{Act: nexjob.ActRequeue, NewOperation: true})
			again := b.claimOnly(c.Job.ID)
			b.check(again.Job.Operation != c.Job.Operation, "NewOperation kept operation %s", c.Job.Operation)
			b.equal("receipts claimed", 0, len(again.Receipts))
			b.write(step(again, "render", "another page"))
		}},
		{"the former job of an operation writes no more", func(b *bench) {
			first := b.run(newJob("k"))
			b.finish(first, nexjob.EndFailed)
			second := b.run(newJob("k"))
			b.equal("operation", first.Job.Operation, second.Job.Operation)
			b.is(b.record(step(first, "render", "late"))[0].Err, nexjob.ErrLeaseLost, "Record by the former job")
			b.write(step(second, "render", "in time"))
		}},
		{"they go with their last holder", receiptsGo},
		{"a key's life holds them", keyHoldsReceipts},
		{"at most 1,000", receiptCount},
		{"at most 1 MiB", receiptBytes},
		{"names are checked", func(b *bench) {
			c := b.run(newJob(""))
			for _, name := range []string{"", "a\x00b", " a", string(make([]byte, nexjob.MaxName+1))} {
				b.is(b.record(step(c, name, "x"))[0].Err, nexjob.ErrInvalid, fmt.Sprintf("a step named %.20q", name))
			}
			b.equal("receipts", 0, len(b.receipts(c.Job.Operation)))
		}},
		{"an empty batch is nothing", func(b *bench) {
			b.unchanged("an empty record", func() { b.record() })
		}},
	}
}

func firstValueStands(b *bench) {
	c := b.run(newJob(""))
	b.write(step(c, "render", "first"))
	b.unchanged("a second value", func() {
		got := b.record(step(c, "render", "second"))[0]
		b.must(got.Err, "Record of a second value")
		b.check(!got.Ours, "the second value is called ours")
		b.equal("standing value", "first", string(got.Standing.Value))
	})
}

func slots(b *bench) {
	c := b.run(newJob(""))
	base := step(c, "render", "1")
	item, name, args, effect := base, base, base, b.intent(c, "render")
	item.Item, item.Value = "page-2", []byte("2")
	name.Name, name.Value = "Render", []byte("3")
	args.Fingerprint, args.Value = nexjob.FingerprintOf([]byte("other")), []byte("4")
	for i, r := range []nexjob.Receipt{base, item, name, args, effect} {
		b.write(r)
		b.equal("receipts", i+1, len(b.receipts(c.Job.Operation)))
	}
}

func ledgerStores(b *bench) {
	c := b.run(newJob(""))
	b.pass(time.Second)
	r := step(c, "render", "a\x00b\xff")
	r.Item = "7"
	want := r
	want.At = b.now()
	b.equal("standing step", want, b.write(r))
	intent := b.intent(c, "card")
	intent.Lookup = true
	wantIntent := intent
	wantIntent.At, wantIntent.FirstSent = b.now(), b.now()
	b.equal("standing intent", wantIntent, b.write(intent))
	b.equal("stored receipts, in order of slot", []nexjob.Receipt{wantIntent, want}, b.receipts(c.Job.Operation))
	j := b.job(c.Job.ID)
	b.equal("open effects, receipts, bytes", []int{1, 2, len(r.Value)}, []int{j.OpenEffects, j.ReceiptCount, j.ReceiptBytes})
}

func receiptsSurvive(b *bench) {
	c := b.run(newJob("k"))
	b.write(step(c, "render", "page"))
	want := b.receipts(c.Job.Operation)
	again := func(when string) {
		b.t.Helper()
		c = b.claimOnly(c.Job.ID)
		b.equal("receipts claimed "+when, want, c.Receipts)
	}
	b.finish(c, nexjob.EndRetry)
	again("after a failed try")
	b.pass(over)
	again("after a crash")
	b.finish(c, nexjob.EndFailed)
	b.act(c.Job.ID, nexjob.ActRequeue)
	again("after a requeue")
	b.finish(c, nexjob.EndSucceeded)
	b.act(c.Job.ID, nexjob.ActRequeue)
	again("after a requeue of a success")
}

func receiptsGo(b *bench) {
	first, second := newJob("k"), newJob("k")
	c := b.run(first)
	b.write(step(c, "render", "page"))
	b.finish(c, nexjob.EndFailed)
	b.finish(b.run(second), nexjob.EndFailed)
	b.act(first.ID, nexjob.ActDelete)
	b.purgeLeftovers()
	b.equal("receipts while a job of the operation stands", 1, len(b.receipts(first.ID)))
	b.act(second.ID, nexjob.ActDelete)
	b.purgeLeftovers()
	b.equal("receipts that nothing holds", 0, len(b.receipts(first.ID)))
}

func keyHoldsReceipts(b *bench) {
	n := newJob("k")
	n.KeepKeyFor = time.Hour
	c := b.run(n)
	b.write(step(c, "render", "page"))
	b.finish(c, nexjob.EndFailed)
	b.act(n.ID, nexjob.ActPurge)
	b.purgeLeftovers()
	b.equal("receipts while the key lives", 1, len(b.receipts(n.ID)))
	next := newJob("k")
	claimed := b.run(next)
	b.equal("receipts of the job that continues", 1, len(claimed.Receipts))
	b.finish(claimed, nexjob.EndFailed)
	b.act(next.ID, nexjob.ActPurge)
	b.pass(10_000 * time.Hour)
	b.purgeLeftovers()
	b.equal("receipts after the key's life", 0, len(b.receipts(n.ID)))
}

func receiptCount(b *bench) {
	c := b.run(newJob(""))
	var batch []nexjob.Receipt
	for i := range nexjob.MaxReceipts + 1 {
		batch = append(batch, step(c, fmt.Sprintf("step-%d", i), ""))
	}
	got := b.record(batch...)
	for i, r := range got[:nexjob.MaxReceipts] {
		b.need(r.Err == nil && r.Ours, "receipt %d of %d: %+v", i+1, nexjob.MaxReceipts, r)
	}
	b.is(got[nexjob.MaxReceipts].Err, nexjob.ErrInvalid, "a receipt more than MaxReceipts")
	b.is(b.record(b.intent(c, "card"))[0].Err, nexjob.ErrInvalid, "an intent more than MaxReceipts")
	b.check(b.record(batch[7])[0].Ours, "at the limit a repeat of a standing receipt is refused")
	b.equal("receipts claimed on", nexjob.MaxReceipts, b.job(c.Job.ID).ReceiptCount)
	b.finish(c, nexjob.EndRetry)
	b.equal("receipts claimed", nexjob.MaxReceipts, len(b.claimOnly(c.Job.ID).Receipts))
}

func receiptBytes(b *bench) {
	c := b.run(newJob(""))
	half := string(make([]byte, nexjob.MaxReceiptBytes/2))
	b.write(step(c, "a", half))
	b.unchanged("a value too large", func() {
		b.is(b.record(step(c, "b", half+"x"))[0].Err, nexjob.ErrInvalid, "a byte more than MaxReceiptBytes together")
	})
	b.write(step(c, "b", half))
	b.is(b.record(step(c, "c", "x"))[0].Err, nexjob.ErrInvalid, "a byte more than MaxReceiptBytes together")
	b.write(step(c, "d", ""))
}
