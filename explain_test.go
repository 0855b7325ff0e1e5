package nexjob_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
)

// rulings writes what an enqueue would do as "create+ reject …", in the order of the
// policies; + says that the new job continues the operation.
func rulings(next []nexjob.NextEnqueue) string {
	var words []string
	for _, n := range next {
		word := n.Ruling.String()
		if n.Continues {
			word += "+"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	keep := nexjob.Options{KeepKeyFor: 48 * time.Hour}
	for _, tt := range []struct {
		name     string
		scene    func(s *shop)
		sentence []string // what it says, %s standing for the job's ID
		holder   nexjob.State
		next     string
	}{
		{
			name: "never used", scene: func(*shop) {},
			sentence: []string{`Key "k" was never used`, "an enqueue creates one"}, next: "create create create",
		},
		{
			name:     "waiting",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}) },
			sentence: []string{"held by job %s", "waits for a free worker", `queue "default" and kind "charge-card"`},
			holder:   nexjob.Enqueued, next: "existing existing existing",
		},
		{
			name:     "due later",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{Delay: time.Hour}) },
			sentence: []string{"held by job %s", "is due at 2000-01-01T01:00:00Z"},
			holder:   nexjob.Scheduled, next: "existing existing existing",
		},
		{
			name: "tried again later",
			scene: func(s *shop) {
				s.enqueue("k", nexjob.Options{})
				s.settle(s.claim(), nexjob.Settlement{As: nexjob.EndRetry, Error: "no answer.", Delay: time.Hour})
			},
			sentence: []string{"failed in 1 try: no answer; it is tried again at 2000-01-01T01:00:00Z"},
			holder:   nexjob.Scheduled, next: "existing existing existing",
		},
		{
			name: "waiting for a parent",
			scene: func(s *shop) {
				s.enqueue("k", nexjob.Options{Parents: []nexjob.Parent{{ID: s.enqueue("", nexjob.Options{}).ID}}})
			},
			sentence: []string{"held by job %s", "waits for job ", "(on success)"},
			holder:   nexjob.AwaitingContinuation, next: "existing existing existing",
		},
		{
			name:     "processing",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}); s.claim() },
			sentence: []string{"held by job %s", `is run by worker "till-1" since 2000-01-01T00:00:00Z`, "until 2000-01-01T00:01:00Z"},
			holder:   nexjob.Processing, next: "existing existing existing",
		},
		{
			name: "asked to stop",
			scene: func(s *shop) {
				id := s.enqueue("k", nexjob.Options{}).ID
				s.claim()
				_, err := s.client.AmendJob(s.t.Context(), id,
					nexjob.Action{Act: nexjob.ActCancel, By: "ada", Reason: "wrong order"})
				s.check(err)
			},
			sentence: []string{"has been asked to stop", "by ada: wrong order"},
			holder:   nexjob.Processing, next: "existing existing existing",
		},
		{
			name:     "its worker is lost",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}); s.claim(); time.Sleep(2 * time.Minute) },
			sentence: []string{`worker "till-1", whose lease ended at 2000-01-01T00:01:00Z`, "recovers the job by itself"},
			holder:   nexjob.Processing, next: "existing existing existing",
		},
		{
			name:  "uncertain",
			scene: func(s *shop) { s.enqueue("k", nexjob.Options{}); s.unclear(0) },
			sentence: []string{
				"held by job %s", `Uncertain: effect "charge" (outside key nj-`, "may or may not have happened",
				`"not applied" is accepted from`, "resolve it as applied, not applied or compensate",
			},
			holder: nexjob.Uncertain, next: "existing existing existing",
		},
		{
			name:     "uncertain, looked up later",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}); s.unclear(time.Hour) },
			sentence: []string{"looked up by itself at 2000-01-01T01:00:00Z"},
			holder:   nexjob.Uncertain, next: "existing existing existing",
		},
		{
			name: "uncertain after success",
			scene: func(s *shop) {
				s.enqueue("k", nexjob.Options{})
				c := s.claim()
				s.record(c, nexjob.Intended)
				s.settle(c, nexjob.Settlement{As: nexjob.EndSucceeded})
			},
			sentence: []string{"is Uncertain", "It then ends as Succeeded"},
			holder:   nexjob.Uncertain, next: "existing existing existing",
		},
		{
			name:     "succeeded",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}); s.work(nexjob.EndSucceeded, "") },
			sentence: []string{"Job %s", "succeeded at 2000-01-01T00:00:00Z", "RejectAlways rejects another enqueue as long as the job's record is kept", "does the work again"},
			holder:   nexjob.Succeeded, next: "create create reject",
		},
		{
			name:     "succeeded, key kept",
			scene:    func(s *shop) { s.enqueue("k", keep); s.work(nexjob.EndSucceeded, "") },
			sentence: []string{"RejectAlways rejects another enqueue until 2000-01-03T00:00:00Z"},
			holder:   nexjob.Succeeded, next: "create create reject",
		},
		{
			name:     "failed",
			scene:    func(s *shop) { s.enqueue("k", nexjob.Options{}); s.work(nexjob.EndFailed, "card declined") },
			sentence: []string{"Job %s", "failed at 2000-01-01T00:00:00Z after 1 try: card declined. Requeue it, or enqueue again under AllowAfterFailed"},
			holder:   nexjob.Failed, next: "create+ reject reject",
		},
		{
			name: "failed by lost workers",
			scene: func(s *shop) {
				id := s.enqueue("k", nexjob.Options{}).ID
				for job, err := s.client.Job(s.t.Context(), id); job.State.Active(); {
					s.check(err)
					_, err = s.store.Claim(s.t.Context(), time.Now(), nexjob.ClaimRequest{
						Worker: "till-1", N: 1, Lease: time.Minute,
						Queues: []string{nexjob.DefaultQueue}, Kinds: []string{ChargeCard.Name()},
					})
					s.check(err)
					time.Sleep(5 * time.Second) // and the lease is never renewed
					job, err = s.client.Job(s.t.Context(), id)
				}
			},
			sentence: []string{"after 5 lost workers: worker lost. Requeue it"},
			holder:   nexjob.Failed, next: "create+ reject reject",
		},
		{
			name: "cancelled",
			scene: func(s *shop) {
				s.amend(s.enqueue("k", nexjob.Options{}), nexjob.Action{Act: nexjob.ActCancel, By: "ada", Reason: "wrong order"})
			},
			sentence: []string{"was cancelled at", "by ada: wrong order. Requeue it, or enqueue again under AllowAfterFailed or RejectIfFailed"},
			holder:   nexjob.Cancelled, next: "create+ create+ reject",
		},
		{
			name: "expired",
			scene: func(s *shop) {
				answer := s.enqueue("k", nexjob.Options{DeadlineAfter: time.Minute})
				time.Sleep(time.Hour)
				s.amend(answer, nexjob.Action{Act: nexjob.ActExpire})
			},
			sentence: []string{"expired at", "not started by its deadline 2000-01-01T00:01:00Z"},
			holder:   nexjob.Expired, next: "create+ create+ reject",
		},
		{
			name: "cleared after a failure",
			scene: func(s *shop) {
				s.enqueue("k", nexjob.Options{})
				s.work(nexjob.EndFailed, "card declined")
				s.check(s.client.ClearKey(s.t.Context(), "k", "ada", "another card"))
			},
			sentence: []string{"cleared after review", "under every policy and continues its operation"},
			holder:   nexjob.Failed, next: "create+ create+ create+",
		},
		{
			name: "cleared after a success",
			scene: func(s *shop) {
				s.enqueue("k", nexjob.Options{})
				s.work(nexjob.EndSucceeded, "")
				s.check(s.client.ClearKey(s.t.Context(), "k", "ada", "once more"))
			},
			sentence: []string{"cleared after review", "of a new operation under every policy"},
			holder:   nexjob.Succeeded, next: "create create create",
		},
		{
			name: "record gone, failed",
			scene: func(s *shop) {
				answer := s.enqueue("k", keep)
				s.work(nexjob.EndFailed, "card declined")
				s.amend(answer, nexjob.Action{Act: nexjob.ActPurge})
			},
			sentence: []string{
				"Job %s", "ended Failed and its record is purged", `life of key "k" ends at 2000-01-03T00:00:00Z`,
				"Enqueue again under AllowAfterFailed",
			},
			holder: nexjob.Failed, next: "create+ reject reject",
		},
		{
			name: "life over, record kept",
			scene: func(s *shop) {
				s.enqueue("k", keep)
				s.work(nexjob.EndSucceeded, "")
				time.Sleep(72 * time.Hour)
			},
			sentence: []string{`Nobody holds key "k"`, "its life is over", "%s succeeded at"},
			next:     "create create create",
		},
		{
			name: "deleted",
			scene: func(s *shop) {
				answer := s.enqueue("k", nexjob.Options{})
				s.enqueue("k", nexjob.Options{})
				s.amend(answer, nexjob.Action{Act: nexjob.ActDelete})
			},
			sentence: []string{`Nobody holds key "k"`, "were deleted, or purged"},
			next:     "create create create",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t)
				tt.scene(s)
				e, err := s.client.Explain(t.Context(), "k")
				s.check(err)
				for _, part := range tt.sentence {
					if strings.Contains(part, "%s") {
						part = fmt.Sprintf(part, s.holder(&e))
					}
					if !strings.Contains(e.Sentence, part) {
						t.Errorf("the sentence does not say %q:\n%s", part, e.Sentence)
					}
				}
				holder := nexjob.State(0)
				if e.Holder != nil {
					holder = e.Holder.State
				}
				if holder != tt.holder || rulings(e.Next) != tt.next {
					t.Errorf("holder %v and next %q, want %v and %q", holder, rulings(e.Next), tt.holder, tt.next)
				}
				s.agrees(&e)
			})
		})
	}
}

// holder returns the ID that a sentence must name.
func (s *shop) holder(e *nexjob.Explanation) nexjob.ID {
	if e.Holder != nil {
		return e.Holder.Job
	}
	if len(e.Jobs) == 0 {
		s.t.Fatal("no holder and no jobs")
	}
	return e.Jobs[0].ID
}

func (s *shop) amend(a nexjob.Answer, do nexjob.Action) {
	s.t.Helper()
	_, err := s.client.AmendJob(s.t.Context(), a.ID, do)
	s.check(err)
}

// unclear leaves the next due job Uncertain.
func (s *shop) unclear(lookup time.Duration) {
	s.t.Helper()
	c := s.claim()
	s.record(c, nexjob.Intended)
	s.settle(c, nexjob.Settlement{As: nexjob.EndUncertain, Error: "time-out", Delay: lookup})
}

// agrees holds that an enqueue under each policy does what the explanation says, and
// that it survives JSON.
func (s *shop) agrees(e *nexjob.Explanation) {
	s.t.Helper()
	text, err := json.Marshal(e)
	s.check(err)
	var back nexjob.Explanation
	if err := json.Unmarshal(text, &back); err != nil || back.Sentence != e.Sentence {
		s.t.Errorf("it does not come back from JSON: %v\n%s", err, text)
	}
	for _, next := range e.Next {
		tx, err := s.store.Begin(s.t.Context())
		s.check(err)
		answer, err := s.client.In(tx).Enqueue(s.t.Context(), ChargeCard.New(Charge{OrderID: 42},
			nexjob.Options{IdempotencyKey: e.Key, DuplicatePolicy: next.Policy}))
		s.check(tx.Rollback())
		ruling := nexjob.RuleCreate
		switch {
		case errors.Is(err, nexjob.ErrDuplicateJob):
			ruling = nexjob.RuleReject
		case answer.Outcome == nexjob.Existing:
			ruling = nexjob.RuleExisting
		}
		if ruling != next.Ruling || answer.Continues != next.Continues {
			s.t.Errorf("%s: an enqueue is answered %v, %v, %+v; explained as %+v", next.Policy, ruling, err, answer, next)
		}
	}
}

func TestExplainTellsTheHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		first := s.enqueue("k", nexjob.Options{})
		c := s.claim()
		s.record(c, nexjob.Intended)
		s.record(c, nexjob.Confirmed)
		s.settle(c, nexjob.Settlement{As: nexjob.EndFailed, Error: "printer on fire"})
		second := s.enqueue("k", nexjob.Options{})
		s.enqueue("k", nexjob.Options{})

		e, err := s.client.Explain(t.Context(), "k")
		s.check(err)
		if len(e.Jobs) != 2 || e.Jobs[0].ID != second.ID || e.Jobs[1].ID != first.ID || e.Holder.Operation != first.ID {
			t.Fatalf("jobs %+v, holder %+v", e.Jobs, e.Holder)
		}
		old := e.Jobs[1]
		if old.Tries != 1 || old.Reason != "printer on fire" || len(old.Attempts) != 1 ||
			old.Attempts[0].Ending != nexjob.EndFailed || old.Attempts[0].Worker != "till-1" {
			t.Errorf("the first job is told as %+v", old)
		}
		for _, job := range e.Jobs { // the effect is the operation's, and both continue it
			if len(job.Effects) != 1 || job.Effects[0].Certainty != "happened" || job.Effects[0].OutsideKey == "" {
				t.Errorf("effects %+v", job.Effects)
			}
		}
		if len(e.Decisions.Last) != 1 || e.Decisions.Last[0].Outcome != nexjob.Existing ||
			e.Decisions.Last[0].Job != second.ID || e.Decisions.Counts[0].Count != 1 {
			t.Errorf("decisions %+v", e.Decisions)
		}
	})
}

func TestExplainRefusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	for _, key := range []string{"", "a\x00b", "\xff"} {
		if _, err := s.client.Explain(t.Context(), key); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("Explain(%q): %v", key, err)
		}
	}
	if _, err := s.client.Explain(t.Context(), "\x00schedule/nightly"); err != nil {
		t.Errorf("a key of nexjob's own can be explained: %v", err)
	}
}

// A caller may make a job's ID long before it is enqueued: the holder is then not the
// newest ID of its key.
func TestExplainFindsAHolderWithAnOldID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		old := ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "k"})
		old.ID = nexjob.NewID()
		for range 60 {
			s.enqueue("k", nexjob.Options{})
			s.work(nexjob.EndSucceeded, "")
		}
		_, err := s.client.Enqueue(t.Context(), old)
		s.check(err)
		e, err := s.client.Explain(t.Context(), "k")
		s.check(err)
		if e.Holder == nil || e.Holder.Job != old.ID || !e.MoreJobs || e.Jobs[0].ID != old.ID {
			t.Errorf("holder %+v; more jobs: %v", e.Holder, e.MoreJobs)
		}
	})
}

func TestExplainJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scene    func(s *shop) nexjob.ID
		sentence []string // %s stands for the job's ID
	}{
		"due later": {
			func(s *shop) nexjob.ID { return s.enqueue("", nexjob.Options{Delay: time.Hour}).ID },
			[]string{`Job %s of kind "charge-card" is due at 2000-01-01T01:00:00Z.`},
		},
		"due again": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("", nexjob.Options{}).ID
				s.settle(s.claim(), nexjob.Settlement{As: nexjob.EndRetry, Error: "no answer", Delay: time.Minute})
				time.Sleep(time.Hour)
				return id
			},
			[]string{"failed in 1 try: no answer; it has been due again since 2000-01-01T00:01:00Z and waits"},
		},
		"processing": {
			func(s *shop) nexjob.ID { id := s.enqueue("k", nexjob.Options{}).ID; s.claim(); return id },
			[]string{`Job %s of kind "charge-card" is run by worker "till-1" since`, "cancel it"},
		},
		"uncertain": {
			func(s *shop) nexjob.ID { id := s.enqueue("", nexjob.Options{}).ID; s.unclear(0); return id },
			[]string{`is Uncertain: effect "charge"`, "resolve it as"},
		},
		"failed, without a key": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("", nexjob.Options{}).ID
				s.work(nexjob.EndFailed, "card declined")
				return id
			},
			[]string{"Job %s", "after 1 try: card declined. Requeue it: that continues its operation"},
		},
		"succeeded, without a key": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("", nexjob.Options{}).ID
				s.work(nexjob.EndSucceeded, "")
				return id
			},
			[]string{"succeeded at 2000-01-01T00:00:00Z. The work is done."},
		},
		"failed, and its key's last job": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("k", nexjob.Options{}).ID
				s.work(nexjob.EndFailed, "card declined")
				return id
			},
			[]string{"card declined. Requeue it, or enqueue again under AllowAfterFailed"},
		},
		"failed, and its key went on": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("k", nexjob.Options{}).ID
				s.work(nexjob.EndFailed, "card declined")
				s.enqueue("k", nexjob.Options{})
				return id
			},
			[]string{`card declined. Its key "k" has gone on to job `},
		},
		"failed, and its key's life is over": {
			func(s *shop) nexjob.ID {
				id := s.enqueue("k", nexjob.Options{KeepKeyFor: time.Minute}).ID
				s.work(nexjob.EndFailed, "card declined")
				time.Sleep(time.Hour)
				return id
			},
			[]string{"card declined. Requeue it: that continues its operation"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t)
				id := tt.scene(s)
				e, err := s.client.ExplainJob(t.Context(), id)
				s.check(err)
				if e.Job.ID != id || e.At.IsZero() {
					t.Errorf("job %s at %s", e.Job.ID, e.At)
				}
				for _, part := range tt.sentence {
					if part = strings.ReplaceAll(part, "%s", id.String()); !strings.Contains(e.Sentence, part) {
						t.Errorf("the sentence does not say %q:\n%s", part, e.Sentence)
					}
				}
			})
		})
	}
}

func TestExplainJobTellsEffectsAndChildren(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	first := s.enqueue("k", nexjob.Options{})
	child := s.enqueue("", nexjob.Options{Parents: []nexjob.Parent{{ID: first.ID, Rule: nexjob.OnAnyEnd}}})
	s.unclear(0)
	e, err := s.client.ExplainJob(t.Context(), first.ID)
	s.check(err)
	if len(e.Receipts) != 1 || e.Receipts[0].Name != "charge" || !e.Receipts[0].Open() {
		t.Errorf("receipts %+v", e.Receipts)
	}
	if len(e.Children) != 1 || e.Children[0].ID != child.ID || e.MoreChildren {
		t.Errorf("children %+v, more: %v", e.Children, e.MoreChildren)
	}
	if _, err := s.client.ExplainJob(t.Context(), nexjob.NewID()); !errors.Is(err, nexjob.ErrNotFound) {
		t.Errorf("a job that nobody knows: %v", err)
	}
}
