package nexjob_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

func TestAmendAnswersPerJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ended := s.enqueue("a", nexjob.Options{})
	s.work(nexjob.EndSucceeded, "")
	s.enqueue("b", nexjob.Options{})
	s.enqueue("c", nexjob.Options{})
	amended, err := s.client.Amend(t.Context(), nexjob.Query{All: true}, nexjob.Action{Act: nexjob.ActCancel, Reason: "flood"}, 2)
	if err != nil || len(amended.Changes) != 2 || amended.Done() != 1 || !amended.More {
		t.Fatalf("amended %+v, %v", amended, err)
	}
	if c := amended.Changes[0]; c.Job != ended.ID || c.Done || c.Err == nil {
		t.Errorf("an ended job: %+v", c)
	}
}

func TestAmendJob(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	id := s.enqueue("k", nexjob.Options{}).ID
	s.work(nexjob.EndFailed, "card declined")
	change, err := s.client.AmendJob(ctx, id, nexjob.Action{Act: nexjob.ActRequeue, By: "ada"})
	if err != nil || !change.Done || change.State != nexjob.Enqueued {
		t.Errorf("requeue: %+v, %v", change, err)
	}
	if change, err = s.client.AmendJob(ctx, id, nexjob.Action{Act: nexjob.ActRequeue}); err == nil || change.Done {
		t.Errorf("requeue of an active job: %+v, %v", change, err)
	}
	s.work(nexjob.EndFailed, "card declined")
	s.enqueue("k", nexjob.Options{})
	if _, err = s.client.AmendJob(ctx, id, nexjob.Action{Act: nexjob.ActRequeue}); !errors.Is(err, nexjob.ErrDuplicateJob) {
		t.Errorf("requeue of a job whose key went on: %v", err)
	}
	if _, err = s.client.AmendJob(ctx, nexjob.NewID(), nexjob.Action{Act: nexjob.ActCancel}); !errors.Is(err, nexjob.ErrNotFound) {
		t.Errorf("a job that nobody knows: %v", err)
	}
}

func TestClearKey(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	if err := s.client.ClearKey(ctx, "k", "ada", "x"); !errors.Is(err, nexjob.ErrNotFound) {
		t.Errorf("a key never used: %v", err)
	}
	strict := nexjob.Options{DuplicatePolicy: nexjob.RejectAlways}
	first := s.enqueue("k", strict)
	if err := s.client.ClearKey(ctx, "k", "ada", "x"); err == nil {
		t.Error("the key of an active job was cleared")
	}
	s.work(nexjob.EndSucceeded, "")
	s.check(s.client.ClearKey(ctx, "k", "ada", "once more"))
	if second := s.enqueue("k", strict); second.Outcome != nexjob.Created || second.ID == first.ID {
		t.Errorf("after clearing: %+v", second)
	}
	if err := s.client.ClearKey(ctx, "", "ada", "x"); !errors.Is(err, nexjob.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
}

func TestCompensate(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	ctx := t.Context()
	id := s.enqueue("k", nexjob.Options{}).ID
	s.unclear(0)
	refund := nexjob.RawJob("refund", []byte(`{"order_id":42}`), nexjob.Options{})
	do := nexjob.Action{
		Act: nexjob.ActResolve, Verdict: nexjob.Compensate, By: "ada", Reason: "the bank is silent", FollowUp: &refund,
	}
	change, err := s.client.AmendJob(ctx, id, do)
	if err != nil || change.State != nexjob.Cancelled || change.FollowUp == nil || change.FollowUp.Outcome != nexjob.Created {
		t.Fatalf("compensate: %+v, %v", change, err)
	}
	if job, err := s.client.Job(ctx, change.FollowUp.ID); err != nil || job.Kind != "refund" {
		t.Errorf("follow-up %+v, %v", job, err)
	}
	if !refund.ID.IsZero() {
		t.Error("the caller's follow-up was changed")
	}
	refund.IdempotencyKey = "\x00mine"
	if _, err := s.client.AmendJob(ctx, id, do); !errors.Is(err, nexjob.ErrInvalid) {
		t.Errorf("a follow-up under a key of nexjob's own: %v", err)
	}
}

func TestAmendRefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	cancel := nexjob.Action{Act: nexjob.ActCancel}
	for name, call := range map[string]func() (nexjob.Amended, error){
		"no limit": func() (nexjob.Amended, error) { return s.client.Amend(t.Context(), nexjob.Query{All: true}, cancel, 0) },
		"large limit": func() (nexjob.Amended, error) {
			return s.client.Amend(t.Context(), nexjob.Query{All: true}, cancel, 1001)
		},
		"no act": func() (nexjob.Amended, error) {
			return s.client.Amend(t.Context(), nexjob.Query{All: true}, nexjob.Action{}, 1)
		},
		"effects": func() (nexjob.Amended, error) {
			return s.client.Amend(t.Context(), nexjob.Query{Of: nexjob.Effects}, cancel, 1)
		},
		"cancel of keys": func() (nexjob.Amended, error) {
			return s.client.Amend(t.Context(), nexjob.Query{Of: nexjob.Keys, Key: "k"}, cancel, 1)
		},
	} {
		if amended, err := call(); !errors.Is(err, nexjob.ErrInvalid) || len(amended.Changes) > 0 {
			t.Errorf("%s: %+v, %v", name, amended, err)
		}
	}
}

// TestAmendOfEveryJobMustBeMeant tries each way in which a filter comes out empty, and
// each condition alone.
func TestAmendOfEveryJobMustBeMeant(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.enqueue("a", nexjob.Options{})
	for name, q := range map[string]nexjob.Query{
		"nothing set":     {},
		"empty lists":     {IDs: []nexjob.ID{}, Kinds: []string{}, Tags: []string{}, States: []nexjob.State{}},
		"a page alone":    {Limit: 1, NewestFirst: true},
		"about effects":   {EffectStates: []nexjob.EffectState{nexjob.Intended}},
		"keys, no key":    {Of: nexjob.Keys},
		"keys, all meant": {Of: nexjob.Keys, All: true},
	} {
		for act := nexjob.ActCancel; act <= nexjob.ActMove; act++ {
			do := nexjob.Action{Act: act}
			switch act {
			case nexjob.ActReschedule:
				do.DueAt = time.Now()
			case nexjob.ActPrioritise:
				do.Priority = nexjob.High
			case nexjob.ActMove:
				do.Queue = "other"
			case nexjob.ActResolve:
				do.Verdict, do.By, do.Reason = nexjob.Applied, "ada", "x"
			default:
			}
			if amended, err := s.client.Amend(t.Context(), q, do, 10); !errors.Is(err, nexjob.ErrInvalid) {
				t.Errorf("%s of %s: %+v, %v", act, name, amended, err)
			}
		}
	}
	id := nexjob.NewID()
	for name, q := range map[string]nexjob.Query{
		"IDs":        {IDs: []nexjob.ID{id}},
		"operations": {Operations: []nexjob.ID{id}},
		"key":        {Key: "b"},
		"prefix":     {KeyPrefix: "b"},
		"parent":     {Parent: id},
		"kinds":      {Kinds: []string{"b"}},
		"queues":     {Queues: []string{"b"}},
		"tags":       {Tags: []string{"b"}},
		"any tags":   {AnyTags: []string{"b"}},
		"states":     {States: []nexjob.State{nexjob.Failed}},
		"deadline":   {DeadlineBefore: time.Unix(1, 0)},
		"ended":      {EndedBefore: time.Unix(1, 0)},
	} {
		amended, err := s.client.Amend(t.Context(), q, nexjob.Action{Act: nexjob.ActDelete}, 10)
		if err != nil || len(amended.Changes) > 0 {
			t.Errorf("by %s: %+v, %v", name, amended, err)
		}
	}
	all, err := s.client.Amend(t.Context(), nexjob.Query{All: true}, nexjob.Action{Act: nexjob.ActDelete}, 10)
	if err != nil || all.Done() != 1 {
		t.Errorf("all, and meant: %+v, %v", all, err)
	}
}
