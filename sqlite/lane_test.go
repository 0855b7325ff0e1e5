package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

func charge(key string) nexjob.NewJob {
	args := []byte(`{"order_id":42}`)
	return nexjob.NewJob{
		ID: nexjob.NewID(), Kind: "charge", Args: args, Fingerprint: nexjob.FingerprintOf(args),
		Options: nexjob.Options{IdempotencyKey: key},
	}
}

// hold takes the file's write lock until the returned function is called.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.DB().BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(release)
	return release
}

// awaiting waits until n calls wait for the lane.
func awaiting(t *testing.T, s *Store, n int) {
	t.Helper()
	for {
		s.lane.mu.Lock()
		have := len(s.lane.waiting)
		s.lane.mu.Unlock()
		if have == n {
			return
		}
		if err := pause(t.Context(), time.Millisecond); err != nil {
			t.Fatalf("%d calls wait for the lane, want %d", have, n)
		}
	}
}

func jobsStored(t *testing.T, s *Store) int {
	t.Helper()
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{Limit: nexjob.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

var errPoison = errors.New("poison")

// TestABadCallFailsAlone: a call that fails the shared transaction half-way is
// answered its own error, and its neighbours are done.
func TestABadCallFailsAlone(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			answers, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge(fmt.Sprint("k", i))})
			if err != nil || answers[0].Outcome != nexjob.Created {
				t.Errorf("a neighbour is answered %v, %+v", err, answers)
			}
		})
	}
	wg.Go(func() {
		bad := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
			_, err := u.Enqueue(ctx, []nexjob.NewJob{charge("half")})
			return 0, errors.Join(err, u.Flush(ctx), errPoison)
		}}
		if err := s.write(t.Context(), "poison", time.Now(), &call{sort: amending, size: 1, work: bad}); !errors.Is(err, errPoison) {
			t.Errorf("the bad call is answered %v", err)
		}
	})
	awaiting(t, s, 21)
	release()
	wg.Wait()
	if n := jobsStored(t, s); n != 20 {
		t.Errorf("%d jobs are stored, want the 20 neighbours", n)
	}
}

// TestACancelledCallerLeaves: a call that was not taken up is dropped; the others
// go on waiting and are done.
func TestACancelledCallerLeaves(t *testing.T) {
	s := testStore(t, Options{BusyTimeout: 20 * time.Millisecond})
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{charge("gone")})
		if !errors.Is(err, context.Canceled) || errors.Is(err, nexjob.ErrOutcomeUnknown) {
			t.Errorf("a call that was dropped is answered %v", err)
		}
	})
	awaiting(t, s, 1)
	wg.Go(func() {
		if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("stays")}); err != nil {
			t.Errorf("the other call is answered %v", err)
		}
	})
	awaiting(t, s, 2)
	cancel()
	awaiting(t, s, 1)
	release()
	wg.Wait()
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Key != "stays" {
		t.Errorf("stored: %v, %+v", err, page.Jobs)
	}
}

// TestACancelledCallerOfACallUnderWay: nobody interrupts the shared transaction, so
// the caller hears that it does not know.
func TestACancelledCallerOfACallUnderWay(t *testing.T) {
	s := testStore(t, Options{})
	taken, goOn := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	slow := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
		close(taken)
		<-goOn
		_, err := u.Enqueue(ctx, []nexjob.NewJob{charge("slow")})
		return 0, err
	}}
	answered := make(chan error)
	go func() {
		answered <- s.write(ctx, "slow", time.Now(), &call{sort: amending, size: 1, work: slow})
	}()
	<-taken
	cancel()
	if err := <-answered; !errors.Is(err, context.Canceled) || !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Errorf("the caller is answered %v", err)
	}
	close(goOn)
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("next")}); err != nil {
		t.Fatal(err)
	}
	if n := jobsStored(t, s); n != 2 {
		t.Errorf("%d jobs are stored, want 2: the call was done although its caller left", n)
	}
}

// TestGathering: calls that wait for the lock share one transaction, equal keys in
// it are judged in order, and what one enqueues another claims.
func TestGathering(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	var wg sync.WaitGroup
	ids := make([]nexjob.ID, 10)
	for i := range ids {
		wg.Go(func() {
			answers, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("k")})
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = answers[0].ID
		})
	}
	var claimed []nexjob.Claimed
	s.busy.Store(true) // a claim goes to the lane without a look
	wg.Go(func() {
		var err error
		if claimed, err = s.Claim(t.Context(), time.Now(), ask(5)); err != nil {
			t.Error(err)
		}
	})
	awaiting(t, s, 11)
	release()
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("one key has jobs %s and %s", ids[0], id)
		}
	}
	if len(claimed) != 1 || claimed[0].Job.ID != ids[0] || string(claimed[0].Job.Args) != `{"order_id":42}` {
		t.Errorf("claimed: %+v", claimed)
	}
	if last := pulseOf(t, s); last.IsZero() {
		t.Error("the write left no pulse")
	}
}

// TestACallJoins: one that comes while a transaction runs is done in it, at its own time.
func TestACallJoins(t *testing.T) {
	s := testStore(t, Options{})
	var first, second *onewriter.Unit
	answered := make(chan error)
	opens := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
		first = u
		go func() {
			joins := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
				second = u
				_, err := u.Enqueue(ctx, []nexjob.NewJob{charge("joins")})
				return 0, err
			}}
			answered <- s.write(t.Context(), "join", time.Now(), &call{sort: amending, size: 1, work: joins})
		}()
		awaiting(t, s, 1)
		_, err := u.Enqueue(ctx, []nexjob.NewJob{charge("opens")})
		return 0, err
	}}
	if err := s.write(t.Context(), "open", time.Now(), &call{sort: amending, size: 1, work: opens}); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("a call that came in time got a transaction of its own")
	}
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{})
	if err != nil || len(page.Jobs) != 2 {
		t.Fatal(err, page.Jobs)
	}
	if opened, joined := page.Jobs[0], page.Jobs[1]; !joined.EnqueuedAt.After(opened.EnqueuedAt) {
		t.Errorf("who joined is enqueued at %s, who came before at %s", joined.EnqueuedAt, opened.EnqueuedAt)
	}
}

// TestWhatFailedIsForgotten: what the lane would remember of a transaction that is rolled
// back is not believed: a lease that nobody was given ends nothing.
func TestWhatFailedIsForgotten(t *testing.T) {
	s := testStore(t, Options{})
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("k")}); err != nil {
		t.Fatal(err)
	}
	var lease nexjob.Lease
	bad := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
		claimed, err := u.Claim(ctx, ask(1))
		if len(claimed) > 0 {
			lease = claimed[0].Job.Lease()
		}
		return 0, errors.Join(err, u.Flush(ctx), errPoison)
	}}
	if err := s.write(t.Context(), "poison", time.Now(), &call{sort: amending, size: 1, work: bad}); !errors.Is(err, errPoison) {
		t.Fatal(err)
	}
	settled, err := s.Settle(t.Context(), time.Now(), []nexjob.Settlement{{Lease: lease, As: nexjob.EndSucceeded}})
	if err != nil || !errors.Is(settled[0].Err, nexjob.ErrLeaseLost) {
		t.Errorf("a lease that was rolled back is answered %v, %+v", err, settled)
	}
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{})
	if err != nil || page.Jobs[0].State != nexjob.Enqueued {
		t.Errorf("%v: the job is %+v", err, page.Jobs)
	}
}

func ask(n int) nexjob.ClaimRequest {
	return nexjob.ClaimRequest{
		Worker: "w", N: n, Lease: 30 * time.Second, Queues: []string{"default"}, Kinds: []string{"charge"},
	}
}

func pulseOf(t *testing.T, s *Store) time.Time {
	t.Helper()
	p, err := (&rows{session: &session{sheet: s.sheet, on: s.db}, pulses: new(pulseText)}).Pulse(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p.LastWrite
}

// TestAFailedCommitIsUnknown: callers of a commit that failed hear that the outcome
// is unknown, may repeat, and the lane goes on.
func TestAFailedCommitIsUnknown(t *testing.T) {
	s := testStore(t, Options{})
	refuse := int32(1)
	hooks, ok := s.lane.conn.conn.(driver.HookRegisterer)
	if !ok {
		t.Fatal("the lane's connection has no hooks")
	}
	hooks.RegisterCommitHook(func() int32 { return refuse })
	job := charge("k")
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{job}); !errors.Is(err, nexjob.ErrOutcomeUnknown) {
		t.Fatalf("a failed commit is answered %v", err)
	}
	for range 2 { // on a fresh connection, without the hook
		answers, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{job})
		if err != nil || answers[0].Outcome != nexjob.Created || answers[0].ID != job.ID {
			t.Fatalf("the repeat is answered %v, %+v", err, answers)
		}
	}
}

// TestIdlePollsWriteNothing: a poll that finds nothing takes no lock, and writes once
// in a sixth of a lease, so that the silence is not taken for a stall.
func TestIdlePollsWriteNothing(t *testing.T) {
	now := time.Now()
	s := testStore(t, Options{Clock: func() time.Time { return now }})
	if _, err := s.Enqueue(t.Context(), now, []nexjob.NewJob{charge("k")}); err != nil {
		t.Fatal(err)
	}
	if claimed, err := s.Claim(t.Context(), now, ask(1)); err != nil || len(claimed) != 1 {
		t.Fatal(err, claimed)
	}
	before, writes := pulseOf(t, s), 0
	const polls = 28 // seconds, below the lease of 30
	for range polls {
		now = now.Add(time.Second)
		if claimed, err := s.Claim(t.Context(), now, ask(1)); err != nil || len(claimed) != 0 {
			t.Fatal(err, claimed)
		}
		if last := pulseOf(t, s); !last.Equal(before) {
			before = last
			writes++
		}
	}
	if writes < 3 || writes > polls/5 {
		t.Errorf("%d polls wrote %d times, want one write in six seconds", polls, writes)
	}
	now = now.Add(3 * time.Second) // the worker is dead, and nobody was silent
	if claimed, err := s.Claim(t.Context(), now, ask(1)); err != nil || len(claimed) != 1 || claimed[0].Job.Crashes != 1 {
		t.Errorf("a second after the lease: %v, %+v", err, claimed)
	}
}

// TestClose: steps under way are finished, calls that wait for somebody else's
// transaction and later ones answer ErrClosed.
func TestClose(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	answered := make(chan error)
	go func() {
		_, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("k")})
		answered <- err
	}()
	awaiting(t, s, 1)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	if err := <-answered; !errors.Is(err, nexjob.ErrClosed) {
		t.Errorf("a call that waited is answered %v", err)
	}
	release()
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	for verb, step := range map[string]func() error{
		"enqueue": func() error { _, err := s.Enqueue(t.Context(), time.Now(), nil); return err },
		"claim":   func() error { _, err := s.Claim(t.Context(), time.Now(), ask(1)); return err },
		"find":    func() error { _, err := s.Find(t.Context(), time.Now(), nexjob.Query{}); return err },
		"clock":   func() error { _, err := s.Clock(t.Context()); return err },
		"migrate": func() error { return s.Migrate(t.Context()) },
		"in tx":   func() error { return s.InTx(t.Context(), func(*sql.Tx) error { return nil }) },
	} {
		if err := step(); !errors.Is(err, nexjob.ErrClosed) || !strings.HasPrefix(err.Error(), "sqlite: "+verb+": ") {
			t.Errorf("%s after Close is answered %v", verb, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}
