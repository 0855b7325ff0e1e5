package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// TestAPanicIsItsCallersOwn: a step that panics does so in its caller's goroutine;
// nothing of it is stored, its neighbours are done, and the lane goes on.
func TestAPanicIsItsCallersOwn(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge(fmt.Sprint("k", i))}); err != nil {
				t.Errorf("a neighbour is answered %v", err)
			}
		})
	}
	wg.Go(func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "half-way") {
				t.Errorf("the caller of a step that panics recovers %v", r)
			}
		}()
		bad := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
			if _, err := u.Enqueue(ctx, []nexjob.NewJob{charge("half")}); err != nil {
				return 0, err
			}
			if err := u.Flush(ctx); err != nil {
				return 0, err
			}
			panic("half-way")
		}}
		err := s.write(t.Context(), "panic", time.Now(), &call{sort: amending, size: 1, work: bad})
		t.Errorf("a step that panics is answered %v", err)
	})
	awaiting(t, s, 6)
	release()
	wg.Wait()
	if n := jobsStored(t, s); n != 5 {
		t.Errorf("%d jobs are stored, want the 5 neighbours", n)
	}
}

// TestAPanicAtTheEndIsItsCallersOwn: what a step wrote is flushed after it, in the lane's
// goroutine; a panic there too is its caller's, and the next step finds all in order.
func TestAPanicAtTheEndIsItsCallersOwn(t *testing.T) {
	s := testStore(t, Options{})
	func() {
		defer func() {
			if r := recover(); r == nil {
				t.Error("the caller recovers nothing")
			}
		}()
		bad := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
			_, err := u.Enqueue(ctx, []nexjob.NewJob{charge("half")})
			s.lane.rows.pulses = nil // is used when the unit ends
			return 0, err
		}}
		err := s.write(t.Context(), "panic", time.Now(), &call{sort: amending, size: 1, work: bad})
		t.Errorf("a step that panics at its end is answered %v", err)
	}()
	for range 2 {
		if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("after")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := jobsStored(t, s); n != 1 {
		t.Errorf("%d jobs are stored, want the one from after the panic", n)
	}
}

// TestARefusedCommitIsForgotten: where the commit fails, nothing of the transaction is
// remembered: neither a lease, nor an ID, nor a place.
func TestARefusedCommitIsForgotten(t *testing.T) {
	now := time.Now()
	s := testStore(t, Options{Clock: func() time.Time { return now }})
	add := func(jobs ...nexjob.NewJob) ([]nexjob.Answer, error) { return s.Enqueue(t.Context(), now, jobs) }
	claim := func() ([]nexjob.Claimed, error) {
		return s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: 9, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
		})
	}
	if _, err := add(charge("one")); err != nil {
		t.Fatal(err)
	}
	refuse := func() { // once: the lane then takes another connection
		if _, err := add(charge("one")); err != nil {
			t.Fatal(err)
		}
		hooks, ok := s.lane.conn.conn.(driver.HookRegisterer)
		if !ok {
			t.Fatalf("%T has no hooks", s.lane.conn.conn)
		}
		hooks.RegisterCommitHook(func() int32 { return 1 })
	}
	job := charge("two")
	refuse()
	if _, err := add(job); !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Fatalf("an enqueue whose commit failed is answered %v", err)
	}
	refuse()
	if _, err := claim(); !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Fatalf("a claim whose commit failed is answered %v", err)
	}
	if answers, err := add(job, charge("three")); err != nil || answers[0].Err != nil {
		t.Fatalf("the enqueue made again is answered %v, %+v", err, answers)
	}
	claimed, err := claim()
	if err != nil || len(claimed) != 3 {
		t.Fatalf("%d jobs are claimed, %v; want 3", len(claimed), err)
	}
	lease := claimed[0].Job.Lease()
	receipt := nexjob.Receipt{
		Operation: claimed[0].Job.Operation, Sort: nexjob.StepReceipt, Name: "step", State: nexjob.Confirmed, Writer: lease,
	}
	end := nexjob.Settlement{Lease: lease, As: nexjob.EndSucceeded}
	refuse()
	if _, err := s.Record(t.Context(), now, []nexjob.Receipt{receipt}); !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Fatalf("a receipt whose commit failed is answered %v", err)
	}
	refuse()
	if _, err := s.Settle(t.Context(), now, []nexjob.Settlement{end}); !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Fatalf("a settlement whose commit failed is answered %v", err)
	}
	if recorded, err := s.Record(t.Context(), now, []nexjob.Receipt{receipt}); err != nil || recorded[0].Err != nil {
		t.Fatalf("the receipt made again is answered %v, %+v", err, recorded)
	}
	if settled, err := s.Settle(t.Context(), now, []nexjob.Settlement{end}); err != nil || settled[0].Err != nil {
		t.Fatalf("the settlement made again is answered %v, %+v", err, settled)
	}
	page, err := s.Find(t.Context(), now, nexjob.Query{IDs: []nexjob.ID{lease.Job}})
	if err != nil {
		t.Fatal(err)
	}
	if j := page.Jobs[0]; j.State != nexjob.Succeeded || j.ReceiptCount != 1 || len(j.Attempts) != 1 {
		t.Errorf("the job is stored as %+v", j)
	}
}

// TestABadActionDisturbsNobody: an action that makes no sense never reaches the lane,
// where it would undo a transaction that others share.
func TestABadActionDisturbsNobody(t *testing.T) {
	s := testStore(t, Options{})
	hold(t, s) // nothing can be written
	_, err := s.Amend(t.Context(), time.Now(), nexjob.Query{}, nexjob.Action{}, 1)
	if !errors.Is(err, nexjob.ErrInvalid) {
		t.Errorf("it is answered %v", err)
	}
}

// TestACallerThatLeftOwnsItsInput: a caller whose context ended gets its slices and
// maps back, though the lane is still at work with what was in them.
func TestACallerThatLeftOwnsItsInput(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	jobs := make([]nexjob.NewJob, 200)
	for i := range jobs {
		jobs[i] = charge(fmt.Sprint("k", i))
		jobs[i].Meta, jobs[i].Tags = map[string]string{"a": "b"}, []string{"t"}
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = s.Enqueue(ctx, time.Now(), jobs)
		for i := range jobs { // the race detector watches
			jobs[i].Args[0], jobs[i].Meta["a"], jobs[i].Tags[0] = 'X', "X", "X"
			jobs[i] = nexjob.NewJob{}
		}
	}()
	awaiting(t, s, 1)
	release()
	for waiting := 1; waiting > 0; { // until it is taken up
		s.lane.mu.Lock()
		waiting = len(s.lane.waiting)
		s.lane.mu.Unlock()
	}
	cancel()
	<-answered
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("after")}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{Limit: nexjob.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if string(j.Args) != `{"order_id":42}` {
			t.Fatalf("a job has the args %q", j.Args)
		}
	}
}

// TestClaimedInTheTransactionThatMadeThem: jobs that one transaction adds, replaces and
// gives back are claimed by it with their own bodies, small and large.
func TestClaimedInTheTransactionThatMadeThem(t *testing.T) {
	now := time.Now()
	s := testStore(t, Options{Clock: func() time.Time { return now }})
	sized := func(key string, n int) nexjob.NewJob {
		j := charge(key)
		j.WhileActive = nexjob.Replace
		j.Args = []byte(`"` + strings.Repeat(key, n) + `"`)
		j.Fingerprint = nexjob.FingerprintOf(j.Args)
		return j
	}
	add := func(jobs ...nexjob.NewJob) {
		answers, err := s.Enqueue(t.Context(), now, jobs)
		for i := range answers {
			if answers[i].Err != nil || err != nil {
				t.Errorf("enqueue: %v, %v", answers[i].Err, err)
			}
		}
	}
	claim := func(n int) []nexjob.Claimed {
		claimed, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: n, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
		})
		if err != nil {
			t.Error(err)
		}
		return claimed
	}
	add(sized("a", 3), sized("b", 900))
	leased := claim(2)
	add(sized("c", 3), sized("d", 900), sized("e", 3))
	for i := range leased { // are the caller's to change
		clear(leased[i].Job.Args)
	}
	release := hold(t, s)
	var wg sync.WaitGroup
	var claimed []nexjob.Claimed
	for n, f := range []func(){
		func() {
			_, err := s.Settle(t.Context(), now, []nexjob.Settlement{
				{Lease: leased[0].Job.Lease(), As: nexjob.EndRetry}, {Lease: leased[1].Job.Lease(), As: nexjob.EndInterrupted},
			})
			if err != nil {
				t.Error(err)
			}
		},
		func() {
			add(sized("c", 900), sized("d", 3), sized("f", 3), sized("g", 900), sized("f", 900), sized("g", 3))
		},
		func() { claimed = claim(20) },
	} {
		wg.Go(f)
		awaiting(t, s, n+1)
	}
	release()
	wg.Wait()
	want := map[string]int{"a": 3, "b": 900, "c": 900, "d": 3, "e": 3, "f": 900, "g": 3}
	for i := range claimed {
		j := &claimed[i].Job
		if string(j.Args) != string(sized(j.Key, want[j.Key]).Args) {
			t.Errorf("job %s is claimed with args of %d bytes: %.20q", j.Key, len(j.Args), j.Args)
		}
	}
	if len(claimed) != len(want) {
		t.Errorf("%d jobs are claimed, want %d", len(claimed), len(want))
	}
}

// TestAFullDiskIsForgotten: a transaction that finds no room leaves nothing in the file
// or in what is remembered of it.
func TestAFullDiskIsForgotten(t *testing.T) {
	s := testStore(t, Options{})
	large := make([]nexjob.NewJob, 300)
	for i := range large {
		large[i] = charge(fmt.Sprint("large", i))
		large[i].Meta = map[string]string{"page": strings.Repeat("x", 8000)}
	}
	for range 3 {
		if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("small")}); err != nil {
			t.Fatal(err)
		}
		if err := s.lane.conn.once(t.Context(), "PRAGMA max_page_count = 200", ignore, nil); err != nil {
			t.Fatal(err)
		}
		_, err := s.Enqueue(t.Context(), time.Now(), large)
		if !nexjob.IsTransient(err) || codeOf(err) != code.SQLITE_FULL {
			t.Fatalf("an enqueue on a full disk is answered %v", err)
		}
		if n := jobsStored(t, s); n != 1 {
			t.Fatalf("%d jobs are stored, want 1", n)
		}
	}
	s.lane.disconnect() // the limit was its connection's
	answers, err := s.Enqueue(t.Context(), time.Now(), large)
	if err != nil || answers[299].Outcome != nexjob.Created {
		t.Errorf("once there is room it is answered %v", err)
	}
}
