package storagetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
)

// findChecks are about reading: every filter, pages that lose and repeat nothing,
// tallies that agree with what is found.
func findChecks() []check {
	return []check{
		{"filters", findFilters},
		{"jobs page by page, oldest first", func(b *bench) { pageJobs(b, false) }},
		{"jobs page by page, newest first", func(b *bench) { pageJobs(b, true) }},
		{"keys page by page, bytewise", pageKeys},
		{"keys by prefix", keysByPrefix},
		{"effects page by page", pageEffects},
		{"effects by state", effectsByState},
		{"the default page", func(b *bench) {
			var jobs []nexjob.NewJob
			for range nexjob.DefaultPage + 1 {
				jobs = append(jobs, newJob(""))
			}
			b.enqueue(jobs...)
			page := b.find(nexjob.Query{})
			b.check(len(page.Jobs) == nexjob.DefaultPage && page.Next != "", "a page without a limit has %d jobs", len(page.Jobs))
		}},
		{"nothing there", func(b *bench) {
			for _, of := range []nexjob.Subject{nexjob.Jobs, nexjob.Keys, nexjob.Effects} {
				page := b.find(nexjob.Query{Of: of})
				b.check(len(page.Jobs)+len(page.Keys)+len(page.Effects) == 0 && page.Next == "", "an empty storage shows %+v", page)
			}
			tallies, err := b.s.Count(b.ctx, b.now(), nexjob.Query{})
			b.must(err, "Count")
			b.equal("tallies", 0, len(tallies))
		}},
		{"tallies", tallies},
		{"Scheduled becomes Enqueued by time alone", func(b *bench) {
			j := buildScheduled(b, "k")
			count := func(s nexjob.State) int { return len(b.find(nexjob.Query{States: []nexjob.State{s}}).Jobs) }
			b.check(count(nexjob.Scheduled) == 1 && count(nexjob.Enqueued) == 0, "before: %d, %d",
				count(nexjob.Scheduled), count(nexjob.Enqueued))
			b.pass(j.DueAt.Sub(b.now()))
			b.check(count(nexjob.Scheduled) == 0 && count(nexjob.Enqueued) == 1, "when it is due: %d, %d",
				count(nexjob.Scheduled), count(nexjob.Enqueued))
		}},
		{"Find never writes", func(b *bench) {
			c := b.run(newJob("k"))
			late := dated("late")
			b.add(late)
			b.pass(1000 * time.Hour)
			b.dump()
			j := b.job(c.Job.ID)
			b.check(j.State == nexjob.Processing && j.Crashes == 0, "a reading recovered job %s", j.ID)
			b.check(b.job(late.ID).State == nexjob.Enqueued, "a reading expired job %s", late.ID)
		}},
		{"what is answered is the caller's", func(b *bench) {
			n := newJob("k")
			n.Tags, n.Meta = []string{"a"}, map[string]string{"m": "v"}
			b.add(n)
			n.Args[0], n.Tags[0], n.Meta["m"] = 'X', "X", "X"
			got := b.job(n.ID)
			b.check(got.Args[0] == '{' && got.Tags[0] == "a" && got.Meta["m"] == "v", "the storage keeps the caller's own slices: %+v", got)
			got.Args[0], got.Tags[0], got.Meta["m"] = 'Y', "Y", "Y"
			got = b.job(n.ID)
			b.check(got.Args[0] == '{' && got.Tags[0] == "a" && got.Meta["m"] == "v", "the storage hands out its own slices: %+v", got)
		}},
	}
}

// zoo fills a storage with jobs that differ in everything a query can ask for.
func zoo(b *bench) []nexjob.Job {
	for i := range 24 {
		n := newJob("")
		if i%3 != 0 {
			n.IdempotencyKey = fmt.Sprintf("order-%02d", i)
		}
		n.Kind = []string{charge, ship}[i%2]
		n.Queue = []string{mainQueue, otherQueue, "else"}[i%3]
		n.Tags = [][]string{nil, {"red"}, {"red", "blue"}, {"Blue"}, {"blue"}}[i%5]
		n.Delay = time.Duration(i%2) * time.Hour
		if i%5 == 0 {
			n.DeadlineAfter = time.Duration(i+3) * time.Hour
		}
		b.add(n)
	}
	for i, c := range b.claim(6) {
		b.pass(time.Millisecond)
		if i < 5 {
			b.finish(c, []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndCancelled, nexjob.EndRetry, nexjob.EndSnoozed}[i])
		}
	}
	return b.dump().Jobs
}

func findFilters(b *bench) {
	all := zoo(b)
	has := func(tags ...string) func(j nexjob.Job) bool {
		return func(j nexjob.Job) bool {
			for _, tag := range tags {
				if !slices.Contains(j.Tags, tag) {
					return false
				}
			}
			return true
		}
	}
	at := all[0].EnqueuedAt.Add(10 * time.Hour)
	ended := b.now().Add(-3 * time.Millisecond)
	cases := map[string]struct {
		q    nexjob.Query
		want func(j nexjob.Job) bool
	}{
		"everything":   {nexjob.Query{}, func(nexjob.Job) bool { return true }},
		"IDs":          {nexjob.Query{IDs: []nexjob.ID{all[3].ID, all[9].ID, nexjob.NewID()}}, func(j nexjob.Job) bool { return j.ID == all[3].ID || j.ID == all[9].ID }},
		"key":          {nexjob.Query{Key: "order-07"}, func(j nexjob.Job) bool { return j.Key == "order-07" }},
		"key prefix":   {nexjob.Query{KeyPrefix: "order-1"}, func(j nexjob.Job) bool { return strings.HasPrefix(j.Key, "order-1") }},
		"operations":   {nexjob.Query{Operations: []nexjob.ID{all[5].Operation}}, func(j nexjob.Job) bool { return j.Operation == all[5].Operation }},
		"kinds":        {nexjob.Query{Kinds: []string{ship, "none"}}, func(j nexjob.Job) bool { return j.Kind == ship }},
		"queues":       {nexjob.Query{Queues: []string{otherQueue, "else"}}, func(j nexjob.Job) bool { return j.Queue != mainQueue }},
		"one tag":      {nexjob.Query{Tags: []string{"red"}}, has("red")},
		"all tags":     {nexjob.Query{Tags: []string{"blue", "red"}}, has("red", "blue")},
		"any tag":      {nexjob.Query{AnyTags: []string{"blue", "none", "red"}}, func(j nexjob.Job) bool { return has("red")(j) || has("blue")(j) }},
		"no tag of":    {nexjob.Query{AnyTags: []string{"re", "none"}}, func(nexjob.Job) bool { return false }},
		"any and all":  {nexjob.Query{Tags: []string{"blue"}, AnyTags: []string{"red", "Blue"}}, func(j nexjob.Job) bool { return has("blue")(j) && (has("red")(j) || has("Blue")(j)) }},
		"tag by case":  {nexjob.Query{Tags: []string{"Blue"}}, has("Blue")},
		"no such tag":  {nexjob.Query{Tags: []string{"re"}}, has("re")},
		"deadline":     {nexjob.Query{DeadlineBefore: at}, func(j nexjob.Job) bool { return !j.Deadline.IsZero() && !j.Deadline.After(at) }},
		"ended before": {nexjob.Query{EndedBefore: ended}, func(j nexjob.Job) bool { return !j.EndedAt.IsZero() && !j.EndedAt.After(ended) }},
		"all at once": {nexjob.Query{Kinds: []string{charge}, Queues: []string{mainQueue}, States: []nexjob.State{nexjob.Enqueued}}, func(j nexjob.Job) bool {
			return j.Kind == charge && j.Queue == mainQueue && j.State == nexjob.Enqueued
		}},
		"ended states": {nexjob.Query{States: []nexjob.State{nexjob.Failed, nexjob.Cancelled}}, func(j nexjob.Job) bool {
			return j.State == nexjob.Failed || j.State == nexjob.Cancelled
		}},
	}
	for _, s := range nexjob.States() {
		cases["state "+s.String()] = struct {
			q    nexjob.Query
			want func(j nexjob.Job) bool
		}{nexjob.Query{States: []nexjob.State{s}}, func(j nexjob.Job) bool { return j.State == s }}
	}
	for name, c := range cases {
		var want []nexjob.ID
		for _, j := range all {
			if c.want(j) {
				want = append(want, j.ID)
			}
		}
		b.equal("found by "+name, want, ids(b.find(c.q).Jobs))
		counted, err := b.s.Count(b.ctx, b.now(), c.q)
		b.must(err, "Count")
		total := int64(0)
		for _, t := range counted {
			total += t.Jobs
		}
		b.equal("counted by "+name, int64(len(want)), total)
	}
}

func pageJobs(b *bench, newest bool) {
	all := ids(zoo(b))
	if newest {
		slices.Reverse(all)
	}
	for _, size := range []int{1, 5, 24, 1000} {
		var got []nexjob.ID
		q := nexjob.Query{Limit: size, NewestFirst: newest}
		for more := true; more; more = q.After != "" {
			page := b.find(q)
			b.need(len(page.Jobs) <= size, "a page of at most %d has %d jobs", size, len(page.Jobs))
			got = append(got, ids(page.Jobs)...)
			b.need(len(got) <= len(all), "pages of %d never end", size)
			q.After = page.Next
		}
		b.equal(fmt.Sprintf("pages of %d", size), all, got)
	}
}

func pageKeys(b *bench) {
	keys := []string{"\x00derived", " ", " a", "A", "B", "Z", "a", "a ", "aa", "a\u0301", "b", "z", "\u00e1", "\u4e16", "\U0001F600", "\U0001F600x"}
	for i := range keys { // enqueued in a mixed order
		b.add(newJob(keys[(i*5+2)%len(keys)]))
	}
	b.check(slices.IsSorted(keys), "the test's keys are not in bytewise order")
	for _, size := range []int{1, 3, 100} {
		var got []string
		q := nexjob.Query{Of: nexjob.Keys, Limit: size}
		for more := true; more; more = q.After != "" {
			page := b.find(q)
			for _, row := range page.Keys {
				got = append(got, row.Key)
			}
			b.need(len(page.Keys) <= size && len(got) <= len(keys), "pages of %d keys: %q", size, got)
			q.After = page.Next
		}
		b.equal(fmt.Sprintf("pages of %d keys", size), keys, got)
	}
}

func keysByPrefix(b *bench) {
	for _, key := range []string{"a%", "a_", "a%b", "a*b", "ab", "A%", "a", "b"} {
		b.add(newJob(key))
	}
	for prefix, want := range map[string][]string{
		"a%": {"a%", "a%b"}, "a_": {"a_"}, "a*": {"a*b"}, "A": {"A%"}, "a": {"a", "a%", "a%b", "a*b", "a_", "ab"}, "c": nil,
	} {
		var got, jobs []string
		for _, row := range b.find(nexjob.Query{Of: nexjob.Keys, KeyPrefix: prefix}).Keys {
			got = append(got, row.Key)
		}
		b.equal("keys with prefix "+prefix, want, got)
		for _, j := range b.find(nexjob.Query{KeyPrefix: prefix}).Jobs {
			jobs = append(jobs, j.Key)
		}
		slices.Sort(jobs)
		b.equal("jobs whose key has prefix "+prefix, want, jobs)
	}
}

func pageEffects(b *bench) {
	first, second := b.run(newJob("")), b.run(newJob(""))
	for i := range 7 {
		b.write(step(second, fmt.Sprintf("step-%d", 6-i), "x"))
		b.write(b.intent(first, fmt.Sprintf("effect-%d", 6-i)))
	}
	var got []nexjob.Receipt
	q := nexjob.Query{Of: nexjob.Effects, Limit: 3}
	for more := true; more; more = q.After != "" {
		page := b.find(q)
		got = append(got, page.Effects...)
		b.need(len(page.Effects) <= 3 && len(got) <= 14, "pages of 3 effects never end: %d", len(got))
		q.After = page.Next
	}
	b.equal("number of effects", 14, len(got))
	b.check(slices.IsSortedFunc(got, func(x, y nexjob.Receipt) int {
		if c := x.Operation.Compare(y.Operation); c != 0 {
			return c
		}
		return strings.Compare(x.Slot(), y.Slot())
	}), "effects are not in order of operation and slot")
	b.equal("effects of one operation", got[:7], b.receipts(first.Job.Operation))
}

func effectsByState(b *bench) {
	c := b.run(newJob(""))
	b.write(step(c, "s", "x"))
	for _, name := range []string{"a", "b", "c"} {
		b.write(b.intent(c, name))
	}
	b.write(outcome(b.intent(c, "b"), nexjob.Confirmed, "x"))
	b.write(outcome(b.intent(c, "c"), nexjob.Refused, ""))
	for state, want := range map[nexjob.EffectState][]string{
		nexjob.Intended: {"a"}, nexjob.Confirmed: {"b", "s"}, nexjob.Refused: {"c"},
		nexjob.Disproved: nil, nexjob.Compensated: nil,
	} {
		var got []string
		for _, r := range b.find(nexjob.Query{Of: nexjob.Effects, EffectStates: []nexjob.EffectState{state}}).Effects {
			got = append(got, r.Name)
		}
		b.equal("effects that are "+state.String(), want, got)
	}
}

// tallies holds Count against what Find shows.
func tallies(b *bench) {
	all := zoo(b)
	type group struct {
		queue, kind string
		state       nexjob.State
	}
	want := make(map[group]nexjob.Tally)
	for _, j := range all {
		g := group{j.Queue, j.Kind, j.State}
		t, seen := want[g]
		t.Queue, t.Kind, t.State, t.Jobs = g.queue, g.kind, g.state, t.Jobs+1
		if !seen || !j.DueAt.IsZero() && (t.OldestDue.IsZero() || j.DueAt.Before(t.OldestDue)) {
			t.OldestDue = j.DueAt
		}
		want[g] = t
	}
	got, err := b.s.Count(b.ctx, b.now(), nexjob.Query{Limit: 1, NewestFirst: true})
	b.must(err, "Count")
	b.equal("number of tallies", len(want), len(got))
	for _, t := range got {
		expected := want[group{t.Queue, t.Kind, t.State}]
		b.equal(fmt.Sprintf("jobs of %s %s %s", t.Queue, t.Kind, t.State), expected.Jobs, t.Jobs)
		if t.State == nexjob.Enqueued || t.State == nexjob.Scheduled {
			b.equal(fmt.Sprintf("oldest due of %s %s %s", t.Queue, t.Kind, t.State), expected.OldestDue, t.OldestDue)
		}
	}
}
