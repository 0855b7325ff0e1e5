package postgres_test

import (
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// hands is a store with a clock that the test moves, and short words for its steps.
type hands struct {
	*testing.T
	*postgres.Store
	now *time.Time
}

func (h *hands) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func job(key string) nexjob.NewJob {
	args := []byte(`{"order_id":42}`)
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: "charge", Args: args, Fingerprint: nexjob.FingerprintOf(args),
		Options: nexjob.Options{IdempotencyKey: key},
	}
}

func (h *hands) add(jobs ...nexjob.NewJob) []nexjob.Answer {
	h.Helper()
	answers, err := h.Enqueue(h.Context(), *h.now, jobs)
	h.must(err)
	for _, a := range answers {
		h.must(a.Err)
	}
	return answers
}

func (h *hands) claim(n int, kinds ...string) []nexjob.Claimed {
	h.Helper()
	claimed, err := h.Claim(h.Context(), *h.now, nexjob.ClaimRequest{
		Worker: "w", N: n, Lease: 30 * time.Second, Queues: []string{"default"}, Kinds: append([]string{"charge"}, kinds...),
	})
	h.must(err)
	return claimed
}

func (h *hands) end(c nexjob.Claimed, how nexjob.Ending, followers ...nexjob.NewJob) {
	h.Helper()
	settled, err := h.Settle(h.Context(), *h.now, []nexjob.Settlement{{Lease: c.Job.Lease(), As: how, Followers: followers}})
	h.must(err)
	h.must(settled[0].Err)
}

func (h *hands) do(q nexjob.Query, do nexjob.Action) {
	h.Helper()
	do.By, do.Reason = "alice", "test"
	_, err := h.Amend(h.Context(), *h.now, q, do, 10)
	h.must(err)
}

// everything makes every step that is hot, and those that follow from them.
func (h *hands) everything(name string) {
	h.Helper()
	child := job("")
	first := job(name + " 1")
	child.Parents = []nexjob.Parent{{ID: first.ID, Rule: nexjob.OnAnyEnd}}
	h.add(first)
	h.add(child)
	h.add(job(name + " 1"))
	h.add(job(name+" 2"), job(name+" 3"), job(name+" 2"), job(""))
	late := job(name + " late")
	late.DeadlineAfter = time.Second
	h.add(late)
	for _, c := range h.claim(2) {
		_, err := h.Renew(h.Context(), *h.now, h.now.Add(time.Minute), []nexjob.Lease{c.Job.Lease()})
		h.must(err)
		_, err = h.Record(h.Context(), *h.now, []nexjob.Receipt{{
			Operation: c.Job.Operation, Sort: nexjob.StepReceipt, Name: "step", Fingerprint: c.Job.Fingerprint,
			State: nexjob.Confirmed, Writer: c.Job.Lease(), Value: []byte("1"),
		}})
		h.must(err)
		h.end(c, nexjob.EndSucceeded)
	}
	*h.now = h.now.Add(2 * time.Second)
	for i, c := range h.claim(3, "ship") {
		if i == 0 {
			h.end(c, nexjob.EndSucceeded, job(name+" follower"))
			continue
		}
		h.end(c, []nexjob.Ending{nexjob.EndFailed, nexjob.EndRetry}[i-1])
	}
	h.claim(10, "ship")
	*h.now = h.now.Add(40 * time.Second)
	h.claim(10)
	h.do(nexjob.Query{Key: name + " 1"}, nexjob.Action{Act: nexjob.ActRequeue, Force: true})
	h.do(nexjob.Query{KeyPrefix: name}, nexjob.Action{Act: nexjob.ActCancel})
	h.do(nexjob.Query{States: []nexjob.State{nexjob.Succeeded}, EndedBefore: h.now.Add(-time.Second)}, nexjob.Action{Act: nexjob.ActPurge})
	_, err := h.Put(h.Context(), *h.now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "worker", Name: name, Value: []byte("1")}}})
	h.must(err)
	_, err = h.Entries(h.Context(), *h.now, "worker")
	h.must(err)
}
