package sqlite_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// hands is a store with a clock that the test moves, and short words for its steps.
type hands struct {
	*testing.T
	*sqlite.Store
	now time.Time
}

func handsOn(t *testing.T) *hands {
	h := &hands{T: t, now: time.Now().Truncate(time.Microsecond)}
	h.Store = open(t, file(t), sqlite.Options{Clock: func() time.Time { return h.now }, Synchronous: sqlite.Normal})
	return h
}

func (h *hands) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *hands) add(jobs ...nexjob.NewJob) {
	h.Helper()
	answers, err := h.Enqueue(h.Context(), h.now, jobs)
	h.must(err)
	for _, a := range answers {
		h.must(a.Err)
	}
}

func (h *hands) claim(n int) []nexjob.Claimed {
	h.Helper()
	claimed, err := h.Claim(h.Context(), h.now, nexjob.ClaimRequest{
		Worker: "w", N: n, Lease: 30 * time.Second, Queues: []string{"default"}, Kinds: []string{"charge"},
	})
	h.must(err)
	return claimed
}

// take claims exactly one job.
func (h *hands) take() nexjob.Job {
	h.Helper()
	claimed := h.claim(1)
	if len(claimed) != 1 {
		h.Fatalf("%d jobs are claimed, want 1", len(claimed))
	}
	return claimed[0].Job
}

func (h *hands) settle(ends ...nexjob.Settlement) {
	h.Helper()
	settled, err := h.Settle(h.Context(), h.now, ends)
	h.must(err)
	for _, s := range settled {
		h.must(s.Err)
	}
}

func (h *hands) intend(j *nexjob.Job) {
	h.Helper()
	recorded, err := h.Record(h.Context(), h.now, []nexjob.Receipt{{
		Operation: j.Operation, Sort: nexjob.EffectReceipt, Name: "card", Fingerprint: j.Fingerprint,
		State: nexjob.Intended, Writer: j.Lease(), SendBefore: h.now.Add(time.Second),
		OutsideKey: nexjob.OutsideKey(j.Operation, "card", "", 0),
	}})
	h.must(err)
	h.must(recorded[0].Err)
}

func (h *hands) amend(id nexjob.ID, do nexjob.Action) {
	h.Helper()
	do.By, do.Reason = "someone", "asked for"
	amended, err := h.Amend(h.Context(), h.now, nexjob.Query{IDs: []nexjob.ID{id}}, do, 1)
	h.must(err)
	if len(amended.Changes) != 1 {
		h.Fatalf("%s changes %d jobs", do.Act, len(amended.Changes))
	}
	h.must(amended.Changes[0].Err)
}

func (h *hands) find(id nexjob.ID) nexjob.Job {
	h.Helper()
	page, err := h.Find(h.Context(), h.now, nexjob.Query{IDs: []nexjob.ID{id}})
	h.must(err)
	if len(page.Jobs) != 1 {
		h.Fatalf("job %s is stored %d times", id, len(page.Jobs))
	}
	return page.Jobs[0]
}

// TestTheClockGoesBackUnderALease: leases are shortened when the clock went back, and a
// worker that renews keeps its job all the same.
func TestTheClockGoesBackUnderALease(t *testing.T) {
	h := handsOn(t)
	h.add(keyedJob("k"))
	j := h.take()
	h.now = h.now.Add(-time.Hour)
	for range 6 {
		renewals, err := h.Renew(t.Context(), h.now, h.now.Add(30*time.Second), []nexjob.Lease{j.Lease()})
		h.must(err)
		if until := h.now.Add(30 * time.Second); renewals[0].Status != nexjob.Renewed || !renewals[0].Until.Equal(until) {
			t.Fatalf("renew at %s is answered %+v", h.now, renewals[0])
		}
		h.now = h.now.Add(10 * time.Second)
		if again := h.claim(5); len(again) > 0 {
			t.Fatalf("a job whose worker renews its lease was claimed again: %+v", again[0].Job)
		}
	}
	if stored := h.find(j.ID); stored.Crashes != 0 {
		t.Errorf("the healthy worker is counted as a crash: %+v", stored)
	}
}

// TestTheSecondResultStands: a job that ended well while an effect had no outcome, and
// runs again after the verdict, has the result of its last run.
func TestTheSecondResultStands(t *testing.T) {
	h := handsOn(t)
	h.add(keyedJob("k"))
	j := h.take()
	h.intend(&j)
	h.settle(nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndSucceeded, Result: []byte("first")})
	h.now = h.now.Add(time.Hour)
	h.amend(j.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.NotApplied})
	again := h.take()
	h.settle(nexjob.Settlement{Lease: again.Lease(), As: nexjob.EndSucceeded, Result: []byte("other")})
	if got := string(h.find(j.ID).Result); got != "other" {
		t.Errorf("the job has the result %q, want that of its last run", got)
	}
}

// TestAVerdictInTheMomentOfTheEnd: an attempt that has a row of its own is not told by
// its job's row as well, where the clock stands still between its end and the verdict.
func TestAVerdictInTheMomentOfTheEnd(t *testing.T) {
	h := handsOn(t)
	h.add(keyedJob("k"))
	j := h.take()
	h.intend(&j)
	h.settle(nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndSucceeded})
	h.amend(j.ID, nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.Applied})
	if got := h.find(j.ID); got.State != nexjob.Succeeded || len(got.Attempts) != 1 {
		t.Fatalf("the job ran once and has the attempts %+v", got.Attempts)
	}
	h.amend(j.ID, nexjob.Action{Act: nexjob.ActRequeue})
	again := h.take()
	if len(again.Attempts) != 1 {
		t.Errorf("the job ran once and is claimed with the attempts %+v", again.Attempts)
	}
	h.settle(nexjob.Settlement{Lease: again.Lease(), As: nexjob.EndSucceeded})
	if got := h.find(j.ID).Attempts; len(got) != 2 {
		t.Errorf("the job ran twice and has the attempts %+v", got)
	}
}

// TestAClaimIsTheCallersToChange: what a claim returned may be changed; nothing of that
// comes to be stored or handed out again.
func TestAClaimIsTheCallersToChange(t *testing.T) {
	h := handsOn(t)
	parent, child := keyedJob("parent"), keyedJob("held")
	parent.Priority = nexjob.Critical
	h.add(keyedJob("held"), parent)
	child.Parents = []nexjob.Parent{{ID: parent.ID}}
	h.add(child) // its key is held, which the parent is told
	first := h.take()
	h.settle(nexjob.Settlement{Lease: first.Lease(), As: nexjob.EndRetry, Error: "no"})
	j := h.take()
	if j.ID != parent.ID || len(j.Followers) != 1 || len(j.Attempts) != 1 {
		t.Fatalf("claimed %+v", j)
	}
	j.Followers[0].Key, j.Attempts[0].Error = "changed", "changed"
	j.Attempts = append(j.Attempts, nexjob.Attempt{Error: "changed"})
	h.settle(nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndRetry, Error: "no"})
	got := h.find(parent.ID)
	if got.Followers[0].Key != "held" || len(got.Attempts) != 2 || got.Attempts[0].Error != "no" || got.Attempts[1].Error != "no" {
		t.Errorf("what a caller did to its answer is stored: %+v, %+v", got.Followers, got.Attempts)
	}
}

// TestPlacesGoWithTheirSavepoint: what a step in a caller's transaction has seen is not
// taken for true once the caller has rolled back to a savepoint.
func TestPlacesGoWithTheirSavepoint(t *testing.T) {
	h := handsOn(t)
	h.add(keyedJob("one"), keyedJob("two"))
	leased := h.claim(2)
	moved, neighbour, other := keyedJob("moved"), keyedJob("neighbour"), keyedJob("moved")
	other.Args, other.WhileActive = []byte(`{"order_id":1}`), nexjob.Replace
	other.Fingerprint = nexjob.FingerprintOf(other.Args)
	h.must(h.InTx(t.Context(), func(tx *sql.Tx) error {
		in, err := h.Join(sqlite.Tx(tx))
		h.must(err)
		statement := func(text string) {
			_, err := tx.ExecContext(t.Context(), text)
			h.must(err)
		}
		statement("SAVEPOINT users")
		_, err = in.Enqueue(t.Context(), h.now, []nexjob.NewJob{moved})
		h.must(err)
		_, err = in.Find(t.Context(), h.now, nexjob.Query{Key: "moved"})
		h.must(err)
		statement("ROLLBACK TO users")
		_, err = in.Enqueue(t.Context(), h.now, []nexjob.NewJob{neighbour})
		h.must(err)
		settled, err := in.Settle(t.Context(), h.now, []nexjob.Settlement{
			{Lease: leased[0].Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{moved}},
			{Lease: leased[1].Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{other}},
		})
		h.must(err)
		if settled[1].Followers[0].Outcome != nexjob.Replaced {
			t.Errorf("the second follower is answered %+v", settled[1].Followers)
		}
		return nil
	}))
	for id, want := range map[nexjob.ID][]byte{moved.ID: other.Args, neighbour.ID: neighbour.Args} {
		if diff := cmp.Diff(string(want), string(h.find(id).Args)); diff != "" {
			t.Errorf("args of %s (-want +got):\n%s", id, diff)
		}
	}
}
