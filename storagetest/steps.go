package storagetest

import (
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
)

// newJob is a job of kind charge in the main queue, under a key unless it is "".
func newJob(key string) nexjob.NewJob {
	return jobWith(key, `{"n":1}`)
}

// jobWith is newJob with other args.
func jobWith(key, args string) nexjob.NewJob {
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: charge, Args: []byte(args), Fingerprint: nexjob.FingerprintOf([]byte(args)),
		Options: nexjob.Options{Queue: mainQueue, IdempotencyKey: key},
	}
}

// under sets the duplicate policy.
func under(policy nexjob.DuplicatePolicy, n nexjob.NewJob) nexjob.NewJob {
	n.DuplicatePolicy = policy
	return n
}

// enqueue adds jobs in one batch and returns the answers, errors and all.
func (b *bench) enqueue(jobs ...nexjob.NewJob) []nexjob.Answer {
	b.t.Helper()
	answers, err := b.s.Enqueue(b.ctx, b.now(), jobs)
	b.must(err, "Enqueue")
	b.need(len(answers) == len(jobs), "Enqueue of %d jobs gives %d answers", len(jobs), len(answers))
	return answers
}

// add enqueues a job that must be created.
func (b *bench) add(n nexjob.NewJob) nexjob.Answer {
	b.t.Helper()
	a := b.enqueue(n)[0]
	b.must(a.Err, "Enqueue")
	b.need(a.Outcome == nexjob.Created && a.ID == n.ID, "Enqueue answers %s %s, want created %s", a.Outcome, a.ID, n.ID)
	return a
}

// claimAsk asks for n jobs of every queue and kind that checks use.
func claimAsk(n int) nexjob.ClaimRequest {
	return nexjob.ClaimRequest{
		Worker: "w1", N: n, Lease: lease,
		Queues: []string{mainQueue, otherQueue}, Kinds: []string{charge, ship},
	}
}

func (b *bench) ask(request nexjob.ClaimRequest) []nexjob.Claimed {
	b.t.Helper()
	claimed, err := b.s.Claim(b.ctx, b.now(), request)
	b.must(err, "Claim")
	b.need(len(claimed) <= request.N, "Claim of at most %d gives %d jobs", request.N, len(claimed))
	return claimed
}

func (b *bench) claim(n int) []nexjob.Claimed {
	b.t.Helper()
	return b.ask(claimAsk(n))
}

// claimOnly claims one job and requires that it is this one.
func (b *bench) claimOnly(id nexjob.ID) nexjob.Claimed {
	b.t.Helper()
	claimed := b.claim(1)
	if len(claimed) != 1 {
		b.t.Fatalf("Claim at %s gives %d jobs, want one: %s", b.now(), len(claimed), brief(b.job(id)))
	}
	b.need(claimed[0].Job.ID == id, "Claim gives job %s, want %s", claimed[0].Job.ID, id)
	return claimed[0]
}

// claimNone requires that nothing can be claimed.
func (b *bench) claimNone(why string) {
	b.t.Helper()
	if claimed := b.claim(1); len(claimed) > 0 {
		b.t.Fatalf("%s: Claim gives job %s", why, claimed[0].Job.ID)
	}
}

// run enqueues a job and claims it.
func (b *bench) run(n nexjob.NewJob) nexjob.Claimed {
	b.t.Helper()
	b.add(n)
	return b.claimOnly(n.ID)
}

// settle ends attempts in one batch and returns the answers, errors and all.
func (b *bench) settle(ends ...nexjob.Settlement) []nexjob.Settled {
	b.t.Helper()
	settled, err := b.s.Settle(b.ctx, b.now(), ends)
	b.must(err, "Settle")
	b.need(len(settled) == len(ends), "Settle of %d attempts gives %d answers", len(ends), len(settled))
	return settled
}

// finish ends an attempt, which must be accepted.
func (b *bench) finish(c nexjob.Claimed, how nexjob.Ending) nexjob.Settled {
	b.t.Helper()
	return b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: how})
}

func (b *bench) finishWith(end nexjob.Settlement) nexjob.Settled {
	b.t.Helper()
	settled := b.settle(end)[0]
	b.must(settled.Err, fmt.Sprintf("Settle as %s", end.As))
	return settled
}

// renew extends leases by one lease.
func (b *bench) renew(leases ...nexjob.Lease) []nexjob.Renewal {
	b.t.Helper()
	renewals, err := b.s.Renew(b.ctx, b.now(), b.now().Add(lease), leases)
	b.must(err, "Renew")
	b.need(len(renewals) == len(leases), "Renew of %d leases gives %d answers", len(leases), len(renewals))
	return renewals
}

// record writes receipts in one batch and returns the answers, errors and all.
func (b *bench) record(receipts ...nexjob.Receipt) []nexjob.Recorded {
	b.t.Helper()
	recorded, err := b.s.Record(b.ctx, b.now(), receipts)
	b.must(err, "Record")
	b.need(len(recorded) == len(receipts), "Record of %d receipts gives %d answers", len(receipts), len(recorded))
	return recorded
}

// write records a receipt that must become the standing one.
func (b *bench) write(r nexjob.Receipt) nexjob.Receipt {
	b.t.Helper()
	recorded := b.record(r)[0]
	b.must(recorded.Err, fmt.Sprintf("Record of %s %q as %s", r.Sort, r.Name, r.State))
	b.need(recorded.Ours, "Record of %s %q as %s is not ours; standing: %+v", r.Sort, r.Name, r.State, recorded.Standing)
	return recorded.Standing
}

// step is the receipt of a computed value.
func step(c nexjob.Claimed, name, value string) nexjob.Receipt {
	return nexjob.Receipt{
		Operation: c.Job.Operation, Sort: nexjob.StepReceipt, Name: name, Fingerprint: c.Job.Fingerprint,
		State: nexjob.Confirmed, Writer: c.Job.Lease(), Value: []byte(value),
	}
}

// intent is the receipt of an effect about to be sent, repeatable for an hour.
func (b *bench) intent(c nexjob.Claimed, name string) nexjob.Receipt {
	return nexjob.Receipt{
		Operation: c.Job.Operation, Sort: nexjob.EffectReceipt, Name: name, Fingerprint: c.Job.Fingerprint,
		State: nexjob.Intended, Writer: c.Job.Lease(), OutsideKey: nexjob.OutsideKey(c.Job.Operation, name, "", 0),
		SendBefore: b.now().Add(20 * time.Second), RepeatableFor: time.Hour, LookupAfter: time.Minute,
	}
}

// outcome is what became of an intent.
func outcome(intent nexjob.Receipt, state nexjob.EffectState, value string) nexjob.Receipt {
	intent.State = state
	if value != "" {
		intent.Value = []byte(value)
	}
	return intent
}

// amend applies an action to all jobs that a query selects.
func (b *bench) amend(q nexjob.Query, do nexjob.Action) nexjob.Amended {
	b.t.Helper()
	if do.By == "" {
		do.By = someone
	}
	if do.Reason == "" {
		do.Reason = "the test says so"
	}
	amended, err := b.s.Amend(b.ctx, b.now(), q, do, 1000)
	b.must(err, "Amend: "+do.Act.String())
	return amended
}

// tryAmend applies an action to one job and returns the answer.
func (b *bench) tryAmend(id nexjob.ID, do nexjob.Action) nexjob.Change {
	b.t.Helper()
	amended := b.amend(nexjob.Query{IDs: []nexjob.ID{id}}, do)
	b.need(len(amended.Changes) == 1 && amended.Changes[0].Job == id,
		"Amend: %s of job %s gives changes %+v", do.Act, id, amended.Changes)
	change := amended.Changes[0]
	b.check(change.Done == (change.Err == nil), "Amend: %s: Done is %v and Err is %v", do.Act, change.Done, change.Err)
	return change
}

// act applies a plain action to one job, which must be done.
func (b *bench) act(id nexjob.ID, what nexjob.Act) nexjob.Change {
	b.t.Helper()
	return b.actWith(id, nexjob.Action{Act: what})
}

func (b *bench) actWith(id nexjob.ID, do nexjob.Action) nexjob.Change {
	b.t.Helper()
	change := b.tryAmend(id, do)
	b.must(change.Err, "Amend: "+do.Act.String())
	b.need(change.Done, "Amend: %s is not done", do.Act)
	return change
}

// refused requires that an action on a job is refused and changes nothing.
func (b *bench) refused(id nexjob.ID, do nexjob.Action) nexjob.Change {
	b.t.Helper()
	var change nexjob.Change
	b.unchanged("a refused "+do.Act.String(), func() {
		b.t.Helper()
		change = b.tryAmend(id, do)
	})
	b.need(!change.Done, "Amend: %s of a job that is %s was done, want it refused", do.Act, change.State)
	return change
}
