package storagetest_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/storagetest"
)

// A suite that cannot fail proves nothing. Each mutant is the reference engine with
// one fault at its border; TestMutants runs the suite on it in another process and
// demands that it fails.

// faulty is an engine with a fault: what is nil behaves as it should.
type faulty struct {
	nexjob.Storage
	enqueue func(ctx context.Context, s nexjob.Storage, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error)
	claim   func(ctx context.Context, s nexjob.Storage, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error)
	renew   func(renewals []nexjob.Renewal)
	settle  func(ctx context.Context, s nexjob.Storage, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error)
	record  func(ctx context.Context, s nexjob.Storage, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error)
	find    func(ctx context.Context, s nexjob.Storage, now time.Time, q nexjob.Query) (nexjob.Page, error)
	amend   func(q *nexjob.Query, do *nexjob.Action)
	put     func(p *nexjob.Put)
}

func (f *faulty) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	if f.enqueue != nil {
		return f.enqueue(ctx, f.Storage, now, slices.Clone(jobs))
	}
	return f.Storage.Enqueue(ctx, now, jobs)
}

func (f *faulty) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if f.claim != nil {
		return f.claim(ctx, f.Storage, now, ask)
	}
	return f.Storage.Claim(ctx, now, ask)
}

func (f *faulty) Renew(ctx context.Context, now, until time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	renewals, err := f.Storage.Renew(ctx, now, until, leases)
	if f.renew != nil {
		f.renew(renewals)
	}
	return renewals, err
}

func (f *faulty) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	if f.settle != nil {
		return f.settle(ctx, f.Storage, now, slices.Clone(ends))
	}
	return f.Storage.Settle(ctx, now, ends)
}

func (f *faulty) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	if f.record != nil {
		return f.record(ctx, f.Storage, now, slices.Clone(receipts))
	}
	return f.Storage.Record(ctx, now, receipts)
}

func (f *faulty) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	if f.find != nil {
		return f.find(ctx, f.Storage, now, q)
	}
	return f.Storage.Find(ctx, now, q)
}

func (f *faulty) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if f.amend != nil {
		f.amend(&q, &do)
	}
	return f.Storage.Amend(ctx, now, q, do, limit)
}

func (f *faulty) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	puts = slices.Clone(puts)
	for i := range puts {
		if f.put != nil {
			f.put(&puts[i])
		}
	}
	return f.Storage.Put(ctx, now, puts)
}

// items is a fault in each item of an enqueue.
func items(spoil func(n *nexjob.NewJob)) faulty {
	return faulty{enqueue: func(ctx context.Context, s nexjob.Storage, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
		for i := range jobs {
			spoil(&jobs[i])
		}
		return s.Enqueue(ctx, now, jobs)
	}}
}

// amends is a fault in each action.
func amends(spoil func(q *nexjob.Query, do *nexjob.Action)) faulty { return faulty{amend: spoil} }

// currentFence looks up the fence that a job has now.
func currentFence(ctx context.Context, s nexjob.Storage, now time.Time, l nexjob.Lease) nexjob.Lease {
	page, err := s.Find(ctx, now, nexjob.Query{IDs: []nexjob.ID{l.Job}})
	if err == nil && len(page.Jobs) == 1 {
		l.Fence = page.Jobs[0].Fence
	}
	return l
}

func mutants() map[string]faulty {
	return map[string]faulty{
		"RejectIfFailed is taken for AllowAfterFailed": items(func(n *nexjob.NewJob) {
			if n.DuplicatePolicy == nexjob.RejectIfFailed {
				n.DuplicatePolicy = nexjob.AllowAfterFailed
			}
		}),
		"RejectAlways is taken for RejectIfFailed": items(func(n *nexjob.NewJob) {
			if n.DuplicatePolicy == nexjob.RejectAlways {
				n.DuplicatePolicy = nexjob.RejectIfFailed
			}
		}),
		"keys are compared without case": items(func(n *nexjob.NewJob) { n.IdempotencyKey = strings.ToLower(n.IdempotencyKey) }),
		"keys are trimmed":               items(func(n *nexjob.NewJob) { n.IdempotencyKey = strings.TrimSpace(n.IdempotencyKey) }),
		"args are made compact":          items(func(n *nexjob.NewJob) { n.Args = bytes.ReplaceAll(n.Args, []byte(" "), nil) }),
		"no operation is continued":      items(func(n *nexjob.NewJob) { n.NewOperation = true }),
		"every operation is continued":   items(func(n *nexjob.NewJob) { n.NewOperation = false }),
		"StrictArgs is forgotten":        items(func(n *nexjob.NewJob) { n.StrictArgs = false }),
		"Replace is forgotten": items(func(n *nexjob.NewJob) {
			if n.WhileActive == nexjob.Replace {
				n.WhileActive = nexjob.ReturnExisting
			}
		}),
		"a key's own life is forgotten":   items(func(n *nexjob.NewJob) { n.KeepKeyFor = 0 }),
		"deadlines are forgotten":         items(func(n *nexjob.NewJob) { n.Deadline, n.DeadlineAfter = time.Time{}, 0 }),
		"repeats are not recognised":      items(func(n *nexjob.NewJob) { n.ID = nexjob.NewID() }),
		"batches are not judged in order": {enqueue: enqueueReversed},
		"the fence is compared before":    {settle: settleInTwoActs},
		"claims forget receipts": {claim: func(ctx context.Context, s nexjob.Storage, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
			claimed, err := s.Claim(ctx, now, ask)
			for i := range claimed {
				claimed[i].Receipts = nil
			}
			return claimed, err
		}},
		"claims mix up the order": {claim: func(ctx context.Context, s nexjob.Storage, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
			slices.Reverse(ask.Queues)
			return s.Claim(ctx, now, ask)
		}},
		"the crash limit is one more": {claim: func(ctx context.Context, s nexjob.Storage, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
			if ask.CrashLimit > 0 {
				ask.CrashLimit++
			}
			return s.Claim(ctx, now, ask)
		}},
		"nothing is recovered with n = 0": {claim: func(ctx context.Context, s nexjob.Storage, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
			if ask.N == 0 {
				return nil, nil
			}
			return s.Claim(ctx, now, ask)
		}},
		"lost leases are renewed": {renew: func(renewals []nexjob.Renewal) {
			for i := range renewals {
				renewals[i].Status = nexjob.Renewed
			}
		}},
		"a stop is not told": {renew: func(renewals []nexjob.Renewal) {
			for i := range renewals {
				renewals[i].Stop = false
			}
		}},
		"settlements are not fenced": {settle: func(ctx context.Context, s nexjob.Storage, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
			for i := range ends {
				ends[i].Lease = currentFence(ctx, s, now, ends[i].Lease)
			}
			return s.Settle(ctx, now, ends)
		}},
		"followers are lost": {settle: func(ctx context.Context, s nexjob.Storage, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
			for i := range ends {
				ends[i].Followers = nil
			}
			return s.Settle(ctx, now, ends)
		}},
		"an interruption costs a try": {settle: func(ctx context.Context, s nexjob.Storage, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
			for i := range ends {
				if ends[i].As == nexjob.EndInterrupted {
					ends[i].As = nexjob.EndRetry
				}
			}
			return s.Settle(ctx, now, ends)
		}},
		"receipts are not fenced": {record: func(ctx context.Context, s nexjob.Storage, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
			for i := range receipts {
				receipts[i].Writer = currentFence(ctx, s, now, receipts[i].Writer)
			}
			return s.Record(ctx, now, receipts)
		}},
		"every receipt is called ours": {record: func(ctx context.Context, s nexjob.Storage, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
			recorded, err := s.Record(ctx, now, receipts)
			for i := range recorded {
				recorded[i].Ours = recorded[i].Err == nil
			}
			return recorded, err
		}},
		"AtMostOnce is forgotten": {record: func(ctx context.Context, s nexjob.Storage, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
			for i := range receipts {
				if receipts[i].AtMostOnce {
					receipts[i].AtMostOnce, receipts[i].RepeatableFor = false, time.Hour
				}
			}
			return s.Record(ctx, now, receipts)
		}},
		"not applied counts at once": {record: func(ctx context.Context, s nexjob.Storage, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
			for i := range receipts {
				receipts[i].LookupAfter = 0
			}
			return s.Record(ctx, now, receipts)
		}},
		"the last page is lost": {find: func(ctx context.Context, s nexjob.Storage, now time.Time, q nexjob.Query) (nexjob.Page, error) {
			page, err := s.Find(ctx, now, q)
			if len(page.Jobs) == 1 {
				page.Next = ""
			}
			return page, err
		}},
		"tags match by any": {find: func(ctx context.Context, s nexjob.Storage, now time.Time, q nexjob.Query) (nexjob.Page, error) {
			if len(q.Tags) > 1 {
				q.Tags = q.Tags[:1]
			}
			return s.Find(ctx, now, q)
		}},
		"reads are old": {find: findOld()},
		"delete leaves the key": amends(func(_ *nexjob.Query, do *nexjob.Action) {
			if do.Act == nexjob.ActDelete {
				do.Act = nexjob.ActPurge
			}
		}),
		"purge frees the key": amends(func(_ *nexjob.Query, do *nexjob.Action) {
			if do.Act == nexjob.ActPurge {
				do.Act, do.Force = nexjob.ActDelete, true
			}
		}),
		"deletes are forced":                  amends(func(_ *nexjob.Query, do *nexjob.Action) { do.Force = true }),
		"a requeue begins another operation":  amends(func(_ *nexjob.Query, do *nexjob.Action) { do.NewOperation = true }),
		"entries are not swapped but written": {put: func(p *nexjob.Put) { p.Always = true }},
		"entries never expire":                {put: func(p *nexjob.Put) { p.Entry.ExpiresAt = time.Time{} }},
	}
}

func enqueueReversed(ctx context.Context, s nexjob.Storage, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	slices.Reverse(jobs)
	answers, err := s.Enqueue(ctx, now, jobs)
	slices.Reverse(answers)
	return answers, err
}

// settleInTwoActs compares the fence first and writes later, whatever it is by then.
func settleInTwoActs(ctx context.Context, s nexjob.Storage, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	for i := range ends {
		if currentFence(ctx, s, now, ends[i].Lease) != ends[i].Lease {
			continue
		}
		runtime.Gosched()
		ends[i].Lease = currentFence(ctx, s, now, ends[i].Lease)
	}
	return s.Settle(ctx, now, ends)
}

// findOld answers every other look at a key with what the look before it saw.
func findOld() func(ctx context.Context, s nexjob.Storage, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	var mu sync.Mutex
	seen := make(map[string]nexjob.Page)
	return func(ctx context.Context, s nexjob.Storage, now time.Time, q nexjob.Query) (nexjob.Page, error) {
		page, err := s.Find(ctx, now, q)
		if q.Key == "" || q.Of != nexjob.Jobs {
			return page, err
		}
		mu.Lock()
		defer mu.Unlock()
		old, known := seen[q.Key]
		seen[q.Key] = page
		if known {
			return old, err
		}
		return page, err
	}
}

const mutantVariable = "STORAGETEST_MUTANT"

// mutated is the harness with the fault that this process was started to show.
func mutated(h storagetest.Harness) storagetest.Harness {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return h
	}
	sound := h.Open
	h.Begin = nil // transactions go around the fault
	h.Open = func(t testing.TB, clock func() time.Time) nexjob.Storage {
		mutant, known := mutants()[name]
		if !known {
			t.Fatalf("no mutant is called %q", name)
		}
		mutant.Storage = sound(t, clock)
		return &mutant
	}
	return h
}

func TestMutants(t *testing.T) {
	if os.Getenv(mutantVariable) != "" {
		t.Fatal("a mutant makes no mutants")
	}
	for name := range mutants() {
		t.Run(name, func(t *testing.T) {
			out, err := suiteOn(t, name)
			if err == nil {
				t.Errorf("the suite passes on an engine whose fault is: %s", name)
			}
			if !strings.Contains(out, "--- FAIL: Test") {
				t.Errorf("the suite did not fail but break: %v\n%s", err, out)
			}
		})
	}
}

// suiteOn runs the suite on a mutant and stops at its first failure.
func suiteOn(t *testing.T, mutant string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^(TestStorage|TestLinearizable)$", "-test.failfast")
	command.Env = append(os.Environ(), fmt.Sprintf("%s=%s", mutantVariable, mutant), "NEXJOB_HISTORIES=300")
	out, err := command.CombinedOutput()
	return string(out), err
}
