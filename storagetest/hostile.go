package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// hostileChecks are about input that only a mistake or an enemy hands in, and about
// histories that few ever meet: what was found by trying to break engines.
func hostileChecks() []check {
	return []check{
		{"a kind or queue asked for twice", func(b *bench) {
			b.add(newJob("k"))
			ask := claimAsk(5)
			ask.Kinds, ask.Queues = []string{charge, charge, ship}, []string{mainQueue, mainQueue}
			claimed := b.ask(ask)
			b.equal("jobs claimed", 1, len(claimed))
			b.must(b.settle(nexjob.Settlement{Lease: claimed[0].Job.Lease(), As: nexjob.EndSucceeded})[0].Err, "Settle")
		}},
		{"a requeue brings the receipts of the jobs that continued it", requeueAfterContinuation},
		{"delete heeds what other jobs of the operation did", deleteAfterContinuation},
		{"a verdict that is none", func(b *bench) {
			j := b.uncertain("k", nexjob.EndUncertain)
			b.unchanged("a verdict that is none", func() {
				amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{j.ID}}, nexjob.Action{
					Act: nexjob.ActResolve, By: someone, Reason: "test", Verdict: nexjob.Compensate + 1,
				}, 1)
				b.check(err != nil || amended.Done() == 0, "it is done: %+v", amended)
			})
		}},
		{"one follow-up does not make up for two effects", func(b *bench) {
			one, two := b.uncertain("one", nexjob.EndFailed), b.uncertain("two", nexjob.EndFailed)
			refund := newJob("refund")
			b.unchanged("a compensation of several jobs at once", func() {
				amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{one.ID, two.ID}}, nexjob.Action{
					Act: nexjob.ActResolve, By: someone, Reason: "test", Verdict: nexjob.Compensate, FollowUp: &refund,
				}, 10)
				b.check(err != nil || amended.Done() == 0, "it is done: %+v", amended)
			})
		}},
		{"the ID of a purged job on one without its key", purgedIDAgain},
		{"two jobs of one operation deleted in one step", deleteOperation},
		{"times beyond what is stored", timesBeyond},
		{"a follower with a key that is none", followerWithBadKey},
		{"more refused followers than are kept", manyRefusedFollowers},
		{"what the caller changes afterwards", changedAfterwards},
		{"leftovers of many keys are told", leftoversTold},
		{"states and filters in every combination", everyCombination},
	}
}

// purgedIDAgain: a key that outlives its record still names the record's ID. Another
// job under that ID is not its holder.
func purgedIDAgain(b *bench) {
	n := newJob("k")
	n.KeepKeyFor = keepFor
	b.finish(b.run(n), nexjob.EndSucceeded)
	b.act(n.ID, nexjob.ActPurge)
	other := newJob("")
	other.ID = n.ID
	b.add(other)
	b.equal("jobs of the key", 0, len(b.find(nexjob.Query{Key: "k"}).Jobs))
	got := b.enqueue(under(nexjob.RejectAlways, newJob("k")))[0]
	duplicate := as[*nexjob.DuplicateJobError](b, got.Err, "Enqueue under RejectAlways")
	b.check(duplicate.RecordGone && duplicate.ExistingState == nexjob.Succeeded, "rejection: %+v", duplicate)
	fresh := newJob("k")
	got = b.enqueue(fresh)[0]
	b.check(got.Err == nil && got.Outcome == nexjob.Created && got.ID == fresh.ID, "under AllowAfterFailed: %+v", got)
}

// deleteOperation: the younger job of an operation has the older ID here, so it is
// deleted first, while the other one is still to be judged by the same receipts.
func deleteOperation(b *bench) {
	second, first := newJob("k"), newJob("k")
	c := b.run(first)
	b.write(b.intent(c, "card"))
	b.write(outcome(b.intent(c, "card"), nexjob.Refused, ""))
	b.finish(c, nexjob.EndFailed)
	b.add(second)
	operation := b.job(second.ID).Operation
	b.equal("operation continued", first.ID, operation)
	amended := b.amend(nexjob.Query{Operations: []nexjob.ID{operation}}, nexjob.Action{Act: nexjob.ActDelete})
	b.equal("jobs deleted", 2, amended.Done())
	b.equal("receipts left", 0, len(b.receipts(operation)))
}

// continued is a failed job, and a second one under its key that continued the
// operation, paid, and ended.
func (b *bench) continued(key string) (first, second nexjob.Job) {
	b.t.Helper()
	one := b.run(newJob(key))
	b.finish(one, nexjob.EndFailed)
	two := b.run(newJob(key))
	b.equal("operation", one.Job.Operation, two.Job.Operation)
	b.write(b.intent(two, "card"))
	b.write(outcome(b.intent(two, "card"), nexjob.Confirmed, "paid"))
	b.write(step(two, "sum", "42"))
	b.finish(two, nexjob.EndFailed)
	return b.job(one.Job.ID), b.job(two.Job.ID)
}

func requeueAfterContinuation(b *bench) {
	for _, gone := range []nexjob.Action{{Act: nexjob.ActPurge}, {Act: nexjob.ActDelete, Force: true}} {
		first, second := b.continued(gone.Act.String())
		b.actWith(second.ID, gone)
		b.act(first.ID, nexjob.ActRequeue)
		c := b.claimOnly(first.ID)
		b.equal("receipts claimed after "+gone.Act.String(), b.receipts(first.Operation), c.Receipts)
		b.equal("receipts of the operation", 2, len(c.Receipts))
		b.check(c.Job.ReceiptCount == 2 && c.Job.ReceiptBytes == len("paid")+len("42") && c.Job.OpenEffects == 0,
			"tallies: %d receipts of %d bytes, %d open", c.Job.ReceiptCount, c.Job.ReceiptBytes, c.Job.OpenEffects)
		b.finish(c, nexjob.EndSucceeded)
	}
}

func deleteAfterContinuation(b *bench) {
	first, second := b.continued("k")
	b.act(second.ID, nexjob.ActPurge)
	b.refused(first.ID, nexjob.Action{Act: nexjob.ActDelete})
	b.actWith(first.ID, nexjob.Action{Act: nexjob.ActDelete, Force: true})
	b.equal("receipts that nothing holds", 0, len(b.receipts(first.Operation)))
}

// timesBeyond: a time that would wrap around in what an engine stores is refused or
// kept, never turned into another.
func timesBeyond(b *bench) {
	far := time.Date(300_000, 1, 1, 0, 0, 0, 0, time.UTC)
	n := newJob("k")
	b.add(n)
	amended, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{IDs: []nexjob.ID{n.ID}}, nexjob.Action{
		Act: nexjob.ActReschedule, DueAt: far, By: someone, Reason: "test",
	}, 1)
	b.check(err != nil || amended.Done() == 0, "a due time in the year 300000 is accepted")
	c := b.claimOnly(n.ID)
	answers, err := b.s.Put(b.ctx, b.now(), []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "k", Name: "n", ExpiresAt: far}}})
	b.must(err, "Put")
	b.check(answers[0].Err != nil, "an entry that expires in the year 300000 is accepted")
	late := newJob("late") // in UTC it is the year 10000, which no JSON can say
	late.DueAt = time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -12*3600))
	b.is(b.enqueue(late)[0].Err, nexjob.ErrInvalid, "a due time of the year 10000 in UTC")
	intent := b.intent(c, "card")
	intent.SendBefore = far
	b.is(b.record(intent)[0].Err, nexjob.ErrInvalid, "an intent that is sent until the year 300000")
	for _, bad := range []func(r *nexjob.Receipt){
		func(r *nexjob.Receipt) { r.RepeatableFor = -1 },
		func(r *nexjob.Receipt) { r.LookupAfter = -time.Hour },
		func(r *nexjob.Receipt) { r.Turn = -1 },
	} {
		r := b.intent(c, "card")
		bad(&r)
		b.is(b.record(r)[0].Err, nexjob.ErrInvalid, fmt.Sprintf("an intent with %s, %s and turn %d",
			r.RepeatableFor, r.LookupAfter, r.Turn))
	}
	longest := b.intent(c, "card")
	longest.RepeatableFor, longest.LookupAfter = 1<<63-1, 1<<63-1 // for ever
	b.write(longest)
	card := b.card(c.Job.Operation)
	b.check(card.RepeatBefore().After(b.now()), "for ever is over already")
	renewals, err := b.s.Renew(b.ctx, b.now(), far, []nexjob.Lease{c.Job.Lease()})
	if err == nil {
		b.check(renewals[0].Until.Before(b.now().Add(nexjob.MaxDuration+time.Hour)), "a lease runs until %s", renewals[0].Until)
	}
}

func followerWithBadKey(b *bench) {
	c := b.run(newJob(""))
	bad, long := newJob("a\xffb"), newJob(strings.Repeat("k", 100_000))
	end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{bad, long, newJob("good")}}
	first := b.finishWith(end)
	for _, f := range b.job(c.Job.ID).Followers {
		b.check(len(f.Key) <= nexjob.MaxKey, "a refused key of %d bytes is kept", len(f.Key))
	}
	again := b.finishWith(end)
	for i := range 2 {
		b.is(first.Followers[i].Err, nexjob.ErrInvalid, "a follower with a bad key")
		b.check(again.Followers[i].Err != nil && again.Followers[i].Outcome == first.Followers[i].Outcome,
			"a refused follower is answered %+v when the settlement is repeated", again.Followers[i])
	}
	b.equal("a good follower, asked again", nexjob.Created, again.Followers[2].Outcome)
}

// manyRefusedFollowers: of more refusals than are kept the repeated answer may know
// nothing, but it must not call them created.
func manyRefusedFollowers(b *bench) {
	holder := newJob("held")
	holder.Kind = ship
	b.add(holder)
	c := b.ask(nexjob.ClaimRequest{Worker: "w", N: 1, Lease: lease, Queues: []string{mainQueue}, Kinds: []string{ship}})[0]
	end := nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}
	other := newJob("other")
	b.add(other)
	for range nexjob.MaxFollowerKept + 20 {
		n := newJob("other")
		n.Kind = ship // a mismatch
		end.Followers = append(end.Followers, n)
	}
	b.finishWith(end)
	for i, f := range b.finishWith(end).Followers {
		b.check(f.Err != nil, "refused follower %d is answered %+v when the settlement is repeated", i, f)
	}
}

// changedAfterwards: what a caller handed in or was given is its own to change.
func changedAfterwards(b *bench) {
	n := newJob("k")
	n.Tags, n.Meta = []string{"a"}, map[string]string{"m": "1"}
	b.add(n)
	n.Args[0], n.Tags[0], n.Meta["m"] = 'X', "X", "X"
	c := b.claimOnly(n.ID)
	r := step(c, "sum", "42")
	standing := b.write(r)
	r.Value[0], standing.Value[0] = 'X', 'X'
	got := b.record(step(c, "sum", "42"))[0]
	b.check(got.Ours && string(got.Standing.Value) == "42", "the step's value has become %q", got.Standing.Value)
	got.Standing.Value[0] = 'X'
	b.write(b.intent(c, "card"))
	done := outcome(b.intent(c, "card"), nexjob.Confirmed, "paid")
	paid := b.write(done)
	done.Value[0], paid.Value[0] = 'X', 'X'
	entry := nexjob.Put{Always: true, Entry: nexjob.Entry{Kind: "k", Name: "n", Value: []byte("value")}}
	_, err := b.s.Put(b.ctx, b.now(), []nexjob.Put{entry})
	b.must(err, "Put")
	entry.Entry.Value[0] = 'X'
	result := []byte("result")
	b.finishWith(nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: result})
	result[0] = 'X'
	page := b.find(nexjob.Query{IDs: []nexjob.ID{n.ID}})
	page.Jobs[0].Result[1], page.Jobs[0].Attempts[0].Error = 'Y', "Y"
	j := b.job(n.ID)
	b.check(string(j.Args) == `{"n":1}` && j.Tags[0] == "a" && j.Meta["m"] == "1" && string(j.Result) == "result" &&
		j.Attempts[0].Error == "", "the job has become %s: result %q, tags %v, meta %v", brief(j), j.Result, j.Tags, j.Meta)
	var values []string
	for _, r := range b.receipts(j.Operation) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	b.equal("values of receipts", []string{"42", "paid"}, values)
	entries, err := b.s.Entries(b.ctx, b.now(), "k")
	b.must(err, "Entries")
	b.equal("value of the entry", "value", string(entries[0].Value))
}

// leftoversTold: a purge that leaves further leftovers says so, though it selects no
// job, so that retention keeps up with keys that outlive their records.
func leftoversTold(b *bench) {
	const n = 7
	for i := range n {
		k := newJob(fmt.Sprint("k", i))
		k.KeepKeyFor = time.Minute
		b.finish(b.run(k), nexjob.EndSucceeded)
		b.act(k.ID, nexjob.ActPurge)
	}
	b.pass(2 * time.Minute)
	_, err := b.s.Put(b.ctx, b.now(), []nexjob.Put{{Always: true, Entry: nexjob.Entry{
		Kind: "k", Name: "n", ExpiresAt: b.now().Add(time.Second),
	}}})
	b.must(err, "Put")
	b.pass(2 * time.Second)
	nothing := nexjob.Query{States: []nexjob.State{nexjob.Failed}, EndedBefore: b.now().Add(-time.Hour)}
	rounds := 0
	for more := true; more; rounds++ {
		b.need(rounds < 10, "a purge says for ever that there is more")
		done, err := b.s.Amend(b.ctx, b.now(), nothing, nexjob.Action{Act: nexjob.ActPurge}, 2)
		b.must(err, "Amend")
		b.check(!done.More || done.Swept > 0, "there is more and yet nothing was done: %+v", done)
		more = done.More
	}
	b.check(rounds >= n/2, "%d leftovers went in %d rounds of 2", n, rounds)
	b.must(b.sweptClean(), "after the rounds")
}

func (b *bench) sweptClean() error {
	done, err := b.s.Amend(b.ctx, b.now(), nexjob.Query{States: []nexjob.State{nexjob.Failed}},
		nexjob.Action{Act: nexjob.ActPurge}, 1000)
	if err == nil && done.Swept > 0 {
		err = fmt.Errorf("%d leftovers were still there", done.Swept)
	}
	return err
}

// everyCombination asks for each set of states under several filters: an engine may
// choose its way by them, and must find the same on each.
func everyCombination(b *bench) {
	for _, e := range ends() {
		e.reach(b, dated("end "+e.name))
		e.reach(b, newJob("end "+e.name+", no deadline"))
	}
	b.uncertain("uncertain", nexjob.EndUncertain)
	parent := b.run(dated("running"))
	child := dated("child")
	child.Parents = []nexjob.Parent{on(nexjob.OnAnyEnd, parent.Job.ID)}
	b.add(child)
	for i, key := range []string{"w0", "w1", "w2"} {
		n := dated(key)
		n.Delay = time.Duration(i) * time.Minute
		b.add(n)
	}
	all := b.find(nexjob.Query{Limit: nexjob.MaxPage}).Jobs
	filters := []nexjob.Query{
		{},
		{EndedBefore: b.now()},
		{DeadlineBefore: b.now().Add(1000 * time.Hour)},
		{EndedBefore: b.now(), DeadlineBefore: b.now().Add(1000 * time.Hour)},
		{KeyPrefix: "w", DeadlineBefore: b.now().Add(1000 * time.Hour)},
		{Kinds: []string{charge}, Queues: []string{mainQueue}, NewestFirst: true},
	}
	states := nexjob.States()
	for set := range 1 << len(states) {
		var wanted []nexjob.State
		for i, s := range states {
			if set>>i&1 == 1 {
				wanted = append(wanted, s)
			}
		}
		for _, q := range filters {
			q.States = wanted
			if set%5 != 0 && len(wanted) > 3 && q.KeyPrefix == "" {
				continue
			}
			want := 0
			for i := range all {
				j := &all[i]
				if (len(wanted) == 0 || slices.Contains(wanted, j.State)) && strings.HasPrefix(j.Key, q.KeyPrefix) &&
					(q.EndedBefore.IsZero() || !j.EndedAt.IsZero()) && (q.DeadlineBefore.IsZero() || !j.Deadline.IsZero()) &&
					(len(q.Kinds) == 0 || j.Kind == charge) && (len(q.Queues) == 0 || j.Queue == mainQueue) {
					want++
				}
			}
			if got := len(b.find(q).Jobs); got != want {
				b.t.Errorf("find of states %v under %+v gives %d jobs, want %d", wanted, q, got, want)
			}
			tallies, err := b.s.Count(b.ctx, b.now(), q)
			b.must(err, "Count")
			got := 0
			for _, tally := range tallies {
				got += int(tally.Jobs)
			}
			if got != want {
				b.t.Errorf("count of states %v under %+v gives %d jobs, want %d", wanted, q, got, want)
			}
		}
	}
}
