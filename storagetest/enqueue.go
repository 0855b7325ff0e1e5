package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// enqueueChecks are about the job that an enqueue makes and about batches.
func enqueueChecks() []check {
	return []check{
		{"an empty batch is nothing", func(b *bench) {
			b.unchanged("an empty batch", func() { b.enqueue() })
		}},
		{"every option is stored", storesEveryOption},
		{"defaults", storesDefaults},
		{"a past due time is due now", func(b *bench) {
			n := newJob("")
			n.DueAt = b.now().Add(-time.Hour)
			b.add(n)
			b.equal("due time", b.now(), b.job(n.ID).DueAt)
			b.claimOnly(n.ID)
		}},
		{"the later of delay and due time counts", func(b *bench) {
			n := newJob("")
			n.Delay, n.DueAt = 2*time.Hour, b.now().Add(time.Hour)
			a := b.add(n)
			b.equal("state answered", nexjob.Scheduled, a.State)
			b.equal("due time", b.now().Add(2*time.Hour), b.job(n.ID).DueAt)
		}},
		{"a batch of a thousand", bigBatch},
		{"equal keys in one batch are judged in order", equalKeysInOrder},
		{"a bad item never fails its neighbours", badItems},
		{"an item that was built wrongly answers its error", func(b *bench) {
			n := newJob("k")
			n.Err = &nexjob.InvalidError{Field: "args", Why: "a test", Remedy: "none"}
			answers := b.enqueue(n, newJob("k"))
			b.is(answers[0].Err, nexjob.ErrInvalid, "the item built wrongly")
			b.check(answers[1].Outcome == nexjob.Created, "its neighbour: %+v", answers[1])
		}},
		{"one ID twice in one batch is one job", func(b *bench) {
			n := newJob("k")
			answers := b.enqueue(n, n)
			b.check(answers[0].Outcome == nexjob.Created && answers[1].Outcome == nexjob.Created &&
				answers[0].ID == n.ID && answers[1].ID == n.ID, "answers: %+v", answers)
			b.equal("stored jobs", 1, len(b.dump().Jobs))
		}},
		{"times come back in UTC and whole microseconds", storesMicroseconds},
	}
}

func storesEveryOption(b *bench) {
	parent := b.add(newJob("")).ID
	n := newJob("order-42")
	n.Queue, n.Priority, n.Delay, n.Timeout = otherQueue, nexjob.High, time.Hour, time.Minute
	n.Deadline, n.MaxAttempts, n.KeepKeyFor = b.now().Add(9*time.Hour), 7, 48*time.Hour
	n.Tags, n.Meta = []string{"b", "a"}, map[string]string{"trace": "00-ab", "tenant": ""}
	n.Parents = []nexjob.Parent{{ID: parent, Rule: nexjob.OnAnyEnd}}
	a := b.add(n)
	b.equal("state answered", nexjob.AwaitingContinuation, a.State)
	got := b.job(n.ID)
	got.DueAt = time.Time{} // until its release a child has no due time that counts
	b.equal("stored job", nexjob.Job{
		ID: n.ID, Kind: charge, Queue: otherQueue, Priority: nexjob.High, State: nexjob.AwaitingContinuation,
		Key: "order-42", Operation: n.ID, Fingerprint: n.Fingerprint, Args: n.Args, Tags: n.Tags, Meta: n.Meta,
		Parents: n.Parents, EnqueuedAt: b.now(), Deadline: n.Deadline, Delay: time.Hour, Timeout: time.Minute,
		KeepKeyFor: 48 * time.Hour, MaxAttempts: 7,
	}, got)
}

func storesDefaults(b *bench) {
	n := nexjob.NewJob{ID: nexjob.NewID(), Kind: charge}
	b.add(n)
	b.equal("stored job", nexjob.Job{
		ID: n.ID, Kind: charge, Queue: nexjob.DefaultQueue, Priority: nexjob.Normal, State: nexjob.Enqueued,
		Operation: n.ID, EnqueuedAt: b.now(), DueAt: b.now(), MaxAttempts: nexjob.DefaultMaxAttempts,
	}, b.job(n.ID))
}

func storesMicroseconds(b *bench) {
	n := newJob("")
	n.DueAt = b.now().Add(time.Hour + 1999*time.Nanosecond).In(time.FixedZone("far", 9*3600))
	n.Deadline = n.DueAt.Add(time.Hour)
	b.add(n)
	j := b.job(n.ID)
	b.equal("due time", b.now().Add(time.Hour+time.Microsecond), j.DueAt)
	b.equal("deadline", b.now().Add(2*time.Hour+time.Microsecond), j.Deadline)
	for _, at := range []time.Time{j.DueAt, j.Deadline, j.EnqueuedAt} {
		b.check(at.Location() == time.UTC, "a time comes back in zone %s", at.Location())
	}
}

func bigBatch(b *bench) {
	jobs := make([]nexjob.NewJob, 1000)
	for i := range jobs {
		jobs[i] = newJob(fmt.Sprintf("key-%03d", i%500))
	}
	answers := b.enqueue(jobs...)
	for i, a := range answers {
		want, id := nexjob.Created, jobs[i%500].ID
		if i >= 500 {
			want = nexjob.Existing
		}
		if a.Err != nil || a.Outcome != want || a.ID != id {
			b.t.Fatalf("item %d is answered %s %s, %v, want %s %s", i, a.Outcome, a.ID, a.Err, want, id)
		}
	}
	tallies, err := b.s.Count(b.ctx, b.now(), nexjob.Query{})
	b.must(err, "Count")
	b.equal("jobs counted", []nexjob.Tally{
		{Queue: mainQueue, Kind: charge, State: nexjob.Enqueued, Jobs: 500, OldestDue: b.now()},
	}, tallies)
	b.equal("claimed jobs", 300, len(b.claim(300)))
}

// equalKeysInOrder is [K, X, K, Y] under every policy and setting.
func equalKeysInOrder(b *bench) {
	for _, policy := range nexjob.Policies() {
		for _, active := range []nexjob.WhileActive{nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace} {
			name := policy.String() + " " + active.String()
			batch := []nexjob.NewJob{newJob("K " + name), newJob("X " + name), newJob("K " + name), newJob("Y " + name)}
			for i := range batch {
				batch[i].DuplicatePolicy, batch[i].WhileActive = policy, active
			}
			answers := b.enqueue(batch...)
			var outcomes []nexjob.Outcome
			for _, a := range answers {
				outcomes = append(outcomes, a.Outcome)
			}
			later := map[nexjob.WhileActive]nexjob.Outcome{
				nexjob.ReturnExisting: nexjob.Existing, nexjob.Reject: nexjob.Rejected, nexjob.Replace: nexjob.Replaced,
			}[active]
			b.equal("outcomes under "+name, []nexjob.Outcome{nexjob.Created, nexjob.Created, later, nexjob.Created}, outcomes)
			b.equal("jobs with the key", []nexjob.ID{batch[0].ID}, ids(b.find(nexjob.Query{Key: "K " + name}).Jobs))
		}
	}
}

// badItems puts each mistake between two good neighbours.
func badItems(b *bench) {
	bad := map[string]func(n *nexjob.NewJob){
		"zero ID":                  func(n *nexjob.NewJob) { n.ID = nexjob.ID{} },
		"no kind":                  func(n *nexjob.NewJob) { n.Kind = "" },
		"long kind":                func(n *nexjob.NewJob) { n.Kind = strings.Repeat("k", nexjob.MaxName+1) },
		"odd queue":                func(n *nexjob.NewJob) { n.Queue = "a\x00b" },
		"priority":                 func(n *nexjob.NewJob) { n.Priority = nexjob.Low + 1 },
		"policy":                   func(n *nexjob.NewJob) { n.DuplicatePolicy = nexjob.RejectAlways + 1 },
		"while active":             func(n *nexjob.NewJob) { n.WhileActive = nexjob.Replace + 1 },
		"large args":               func(n *nexjob.NewJob) { n.Args = make([]byte, nexjob.MaxArgs+1) },
		"long key":                 func(n *nexjob.NewJob) { n.IdempotencyKey = strings.Repeat("k", nexjob.MaxKey+1) },
		"key with NUL":             func(n *nexjob.NewJob) { n.IdempotencyKey = "a\x00b" },
		"key not UTF-8":            func(n *nexjob.NewJob) { n.IdempotencyKey = "a\xff" },
		"negative delay":           func(n *nexjob.NewJob) { n.Delay = -1 },
		"key life without key":     func(n *nexjob.NewJob) { n.IdempotencyKey, n.KeepKeyFor = "", time.Hour },
		"tags":                     func(n *nexjob.NewJob) { n.Tags = slices.Repeat([]string{"t"}, nexjob.MaxTags+1) },
		"metadata":                 func(n *nexjob.NewJob) { n.Meta = map[string]string{"m": strings.Repeat("x", nexjob.MaxMeta)} },
		"metadata with NUL":        func(n *nexjob.NewJob) { n.Meta = map[string]string{"m": "a\x00b"} },
		"metadata that is no text": func(n *nexjob.NewJob) { n.Meta = map[string]string{"m": "\xff"} },
		"parent twice": func(n *nexjob.NewJob) {
			p := nexjob.Parent{ID: nexjob.NewID()}
			n.Parents = []nexjob.Parent{p, p}
		},
		"own parent": func(n *nexjob.NewJob) { n.Parents = []nexjob.Parent{{ID: n.ID}} },
	}
	for name, spoil := range bad {
		left, wrong, right := newJob(name+" left"), newJob(name), newJob(name+" right")
		spoil(&wrong)
		answers := b.enqueue(left, wrong, right)
		b.check(answers[0].Err == nil && answers[2].Err == nil, "%s: the neighbours are answered %v and %v",
			name, answers[0].Err, answers[2].Err)
		b.is(answers[1].Err, nexjob.ErrInvalid, name)
		_, stored := b.look(wrong.ID)
		b.check(!stored, "%s: the item is stored", name)
		_, held := b.key(name)
		b.check(!held, "%s: the refused item holds its key", name)
		b.check(answers[1].Outcome == 0, "%s: a mistake has the outcome %s", name, answers[1].Outcome)
	}
	parentless := newJob("orphan")
	parentless.Parents = []nexjob.Parent{{ID: nexjob.NewID()}}
	answers := b.enqueue(newJob("orphan left"), parentless, newJob("orphan right"))
	b.is(answers[1].Err, nexjob.ErrUnknownParent, "an unknown parent")
	b.check(answers[0].Err == nil && answers[2].Err == nil, "the orphan's neighbours: %+v", answers)
	_, held := b.key("orphan")
	b.check(!held, "the orphan holds its key")
}
