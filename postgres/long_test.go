package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

func TestLongLife(t *testing.T) {
	server := ownServer(t, nil)
	t.Run("the server is away for longer than a lease", func(t *testing.T) { serverAway(t, server) })
	t.Run("the server restarts in mid-run", func(t *testing.T) { serverRestarts(t, server) })
	t.Run("the server is read-only for a while", func(t *testing.T) { serverReadOnly(t, server) })
	t.Run("a pool smaller than the slots", func(t *testing.T) { smallPool(t, server) })
	t.Run("handlers that enqueue in transactions of the same pool", func(t *testing.T) { handlersShareThePool(t, server) })
	t.Run("a pool that is held as a whole", func(t *testing.T) { wholePoolHeld(t, server) })
	t.Run("an old snapshot", func(t *testing.T) { oldSnapshot(t, server) })
	t.Run("fences never go down", func(t *testing.T) { fencesRise(t, server) })
}

// runs counts what handlers did.
type runs struct {
	mu sync.Mutex
	of map[int]int
}

func (r *runs) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[int]int)
	}
	r.of[n]++
}

// total tells how many jobs ran, and how many ran more than once.
func (r *runs) total() (jobs, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.of {
		if n > 1 {
			twice++
		}
	}
	return len(r.of), twice
}

// addJobs adds jobs, all at once.
func addJobs(t *testing.T, s *postgres.Store, n int) {
	t.Helper()
	jobs := make([]nexjob.NewJob, n)
	for i := range jobs {
		jobs[i] = numbered().New(i, nexjob.Options{})
	}
	if _, err := client(s).EnqueueMany(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}

// allSucceeded waits until that is so of n jobs, and answers how many crashes they count.
func allSucceeded(t *testing.T, url string, n int, limit time.Duration) (crashes int) {
	t.Helper()
	conn := observer(t, url)
	eventually(t, limit, fmt.Sprintf("%d jobs succeeded", n), func() bool {
		return number(t, conn, "SELECT count(*) FROM nexjob_jobs WHERE state = 5") >= n
	})
	if left := number(t, conn, "SELECT count(*) FROM nexjob_jobs WHERE state <> 5"); left != 0 {
		t.Errorf("%d jobs did not succeed", left)
	}
	return number(t, conn, "SELECT coalesce(sum(crashes), 0)::int + (SELECT count(*) FROM nexjob_attempts WHERE ending NOT IN (1, 2))::int FROM nexjob_jobs")
}

// serverAway lets handlers return while the server is away, for longer than their leases.
// Their settlements must come before anybody takes them for dead.
func serverAway(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	var done runs
	var started sync.WaitGroup
	const jobs = 30
	started.Add(jobs)
	away := make(chan struct{})
	for range 3 {
		working(t, openAt(t, url, postgres.Options{}), worker.Options{Slots: jobs / 3, Lease: 2 * time.Second, Poll: 100 * time.Millisecond},
			func(_ context.Context, _ *worker.Run, n int) error {
				done.add(n)
				started.Done()
				<-away
				<-time.After(time.Duration(n%10) * 50 * time.Millisecond)
				return nil
			})
	}
	addJobs(t, openAt(t, url, postgres.Options{}), jobs)
	started.Wait()
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	close(away)
	<-time.After(3 * time.Second)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	crashes := allSucceeded(t, url, jobs, 20*time.Second)
	if n, twice := done.total(); n != jobs || twice > 0 || crashes > 0 {
		t.Errorf("%d jobs ran, %d of them more than once, and %d crashes are counted", n, twice, crashes)
	}
}

func serverRestarts(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	var done runs
	for range 2 {
		working(t, openAt(t, url, postgres.Options{}), worker.Options{Slots: 20, Lease: 3 * time.Second, Poll: 200 * time.Millisecond},
			func(ctx context.Context, _ *worker.Run, n int) error {
				done.add(n)
				<-time.After(5 * time.Millisecond)
				return ctx.Err()
			})
	}
	c := client(openAt(t, url, postgres.Options{}))
	var group sync.WaitGroup
	var enqueued atomic.Int64
	over := make(chan struct{})
	for caller := range 4 {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				default:
				}
				job := numbered().New(caller*1_000_000+n, nexjob.Options{IdempotencyKey: fmt.Sprintf("%d-%d", caller, n)})
				for { // as a caller does who wants it done
					_, err := c.Enqueue(t.Context(), job)
					if err == nil {
						break
					}
					if !nexjob.IsTransient(err) && !errors.Is(err, nexjob.ErrOutcomeUnknown) {
						t.Errorf("enqueue: %v", err)
						return
					}
				}
				enqueued.Add(1)
			}
		})
	}
	for range 2 {
		at := enqueued.Load()
		eventually(t, 20*time.Second, "jobs flow", func() bool { return enqueued.Load() > at+100 })
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at := enqueued.Load()
	eventually(t, 20*time.Second, "jobs flow", func() bool { return enqueued.Load() > at+100 })
	close(over)
	group.Wait()
	crashes := allSucceeded(t, url, int(enqueued.Load()), 30*time.Second)
	n, twice := done.total()
	t.Logf("%d jobs, %d ran more than once, %d attempts ended otherwise", n, twice, crashes)
	if n != int(enqueued.Load()) {
		t.Errorf("%d jobs ran of %d", n, enqueued.Load())
	}
}

func serverReadOnly(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	var done runs
	s := openAt(t, url, postgres.Options{})
	w := working(t, s, worker.Options{Slots: 10, Lease: 2 * time.Second, Poll: 100 * time.Millisecond},
		func(_ context.Context, _ *worker.Run, n int) error {
			done.add(n)
			<-time.After(200 * time.Millisecond)
			return nil
		})
	addJobs(t, s, 100)
	conn := observer(t, url)
	eventually(t, 10*time.Second, "some ran", func() bool { n, _ := done.total(); return n > 20 })
	if _, err := conn.Exec(t.Context(), "ALTER SYSTEM SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	c := client(s)
	eventually(t, 10*time.Second, "the storage refuses", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := c.Enqueue(ctx, numbered().New(1000, nexjob.Options{IdempotencyKey: "one"}))
		return err != nil
	})
	before := w.Health()
	<-time.After(3 * time.Second)
	after := w.Health()
	if after.Claimed-before.Claimed > 0 {
		t.Errorf("%d jobs were claimed", after.Claimed-before.Claimed)
	}
	t.Logf("in 3 s read-only: %d errors of the storage", after.StorageErrors-before.StorageErrors)
	if n := after.StorageErrors - before.StorageErrors; n > 300 {
		t.Errorf("%d errors in 3 s: it spins", n)
	}
	if _, err := conn.Exec(t.Context(), "ALTER SYSTEM RESET default_transaction_read_only"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), numbered().New(1000, nexjob.Options{IdempotencyKey: "one"})); err != nil {
		t.Error(err)
	}
	crashes := allSucceeded(t, url, 101, 20*time.Second)
	if n, twice := done.total(); n != 101 || twice > 0 || crashes > 0 {
		t.Errorf("%d jobs ran, %d of them more than once, and %d crashes are counted", n, twice, crashes)
	}
}

func smallPool(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, with(t, url, "pool_max_conns", "2"), postgres.Options{})
	var done runs
	working(t, s, worker.Options{Slots: 50, Lease: 3 * time.Second}, func(_ context.Context, _ *worker.Run, n int) error {
		done.add(n)
		return nil
	})
	var group sync.WaitGroup
	for caller := range 20 {
		group.Go(func() {
			for n := range 50 {
				if _, err := client(s).Enqueue(t.Context(), numbered().New(caller*50+n, nexjob.Options{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	crashes := allSucceeded(t, url, 1000, 20*time.Second)
	if n, twice := done.total(); n != 1000 || twice > 0 || crashes > 0 {
		t.Errorf("%d jobs ran, %d of them more than once, and %d crashes are counted", n, twice, crashes)
	}
}

func handlersShareThePool(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, with(t, url, "pool_max_conns", "4"), postgres.Options{})
	c := client(s)
	working(t, s, worker.Options{Slots: 8, Lease: 3 * time.Second}, func(ctx context.Context, _ *worker.Run, n int) error {
		if n >= 1000 {
			return nil
		}
		return pgx.BeginFunc(ctx, s.Pool(), func(tx pgx.Tx) error {
			_, err := c.In(postgres.Tx(tx)).Enqueue(ctx, numbered().New(n+1000, nexjob.Options{}))
			return err
		})
	})
	addJobs(t, s, 200)
	if crashes := allSucceeded(t, url, 400, 20*time.Second); crashes > 0 {
		t.Errorf("%d crashes", crashes)
	}
}

// wholePoolHeld asks for a connection more than there are while callers hold all of them.
func wholePoolHeld(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, with(t, url, "pool_max_conns", "4"), postgres.Options{})
	postgres.HurryPool(s, 300*time.Millisecond)
	var held []pgx.Tx
	for range 4 {
		tx, err := s.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, tx)
	}
	now := time.Now()
	for what, try := range map[string]func() error{
		"enqueue": func() error {
			_, err := s.Enqueue(t.Context(), now, []nexjob.NewJob{idJob()})
			return err
		},
		"enqueue many": func() error {
			_, err := s.Enqueue(t.Context(), now, []nexjob.NewJob{idJob(), idJob()})
			return err
		},
		"find": func() error {
			_, err := s.Find(t.Context(), now, nexjob.Query{Limit: 1})
			return err
		},
	} {
		err := try()
		if !nexjob.IsTransient(err) || errors.Is(err, nexjob.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "pool_max_conns") {
			t.Errorf("%s: %v", what, err)
		}
	}
	hurried, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Renew(hurried, now, now.Add(time.Minute), []nexjob.Lease{{Job: nexjob.NewID(), Fence: 1}})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pool_max_conns") {
		t.Errorf("renew, with less time than a connection may take: %v", err)
	}
	for _, tx := range held {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	enqueue(t, client(s), 1)
}

func idJob() nexjob.NewJob {
	job := numbered().New(1, nexjob.Options{})
	job.ID = nexjob.NewID()
	return job
}

// oldSnapshot claims while somebody's snapshot keeps all that was claimed from being
// vacuumed.
func oldSnapshot(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	postgres.HurryClaims(s, time.Nanosecond) // so few jobs cost little
	late, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = late.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := client(s).In(postgres.Tx(late)).Enqueue(t.Context(), numbered().New(1, nexjob.Options{})); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	snapshot, err := observer(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := snapshot.Exec(t.Context(), "SELECT count(*) FROM nexjob_jobs"); err != nil {
		t.Fatal(err)
	}
	const jobs = 20_000
	for range jobs / 5000 {
		addJobs(t, s, 5000)
		burn(t, s, 5000)
	}
	claim := func(kinds ...string) (int, time.Duration) {
		now, err := s.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		got, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{Worker: "w", N: 10, Lease: time.Minute, Queues: []string{"default"}, Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		return len(got), time.Since(began)
	}
	var whole, usual []time.Duration
	for n := range 10 { // what nobody has asked for lately is looked for in all there is
		_, took := claim("numbered", fmt.Sprint("whole ", n))
		whole = append(whole, took)
	}
	for n := range 200 {
		enqueue(t, client(s), n)
		eventually(t, 5*time.Second, fmt.Sprint("claim ", n), func() bool { // the client reckons the time: it may be ahead a little
			got, took := claim("numbered", "other")
			usual = append(usual, took)
			return got == 1
		})
	}
	slices.Sort(whole)
	slices.Sort(usual)
	t.Logf("a claim after %d jobs under an old snapshot: median %s, ninth in ten %s; of all there is: median %s",
		jobs, usual[len(usual)/2], usual[len(usual)*9/10], whole[5])
	if median := usual[len(usual)/2]; median > 2*whole[5]+5*time.Millisecond { // the machine may be busy with others
		t.Errorf("a claim walks over all that was claimed: median %s, and %s where it must", median, whole[5])
	}
	// What is committed far too late is found all the same, although nobody polls.
	starts := make(chan int, 10)
	working(t, s, worker.Options{Poll: seldom}, func(_ context.Context, _ *worker.Run, n int) error {
		starts <- n
		return nil
	})
	enqueue(t, client(s), 2)
	receive(t, 5*time.Second, "a job", starts)
	<-time.After(time.Until(began.Add(4 * time.Second)))
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue(t, client(s), 3)
	receive(t, 5*time.Second, "a job", starts)
	receive(t, 5*time.Second, "a job that was committed late", starts)
}

// burn claims n jobs and ends them.
func burn(t *testing.T, s *postgres.Store, n int) {
	t.Helper()
	for n > 0 {
		now, err := s.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: 500, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"numbered"},
		})
		if err != nil || len(got) == 0 {
			t.Fatalf("%d jobs, %v", len(got), err)
		}
		ends := make([]nexjob.Settlement, len(got))
		for i := range got {
			ends[i] = nexjob.Settlement{Lease: got[i].Job.Lease(), As: nexjob.EndSucceeded}
		}
		if _, err := s.Settle(t.Context(), now, ends); err != nil {
			t.Fatal(err)
		}
		n -= len(got)
	}
}

// fencesRise takes the sequence back, as a restored back-up and a fail-over do.
func fencesRise(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	conn := observer(t, url)
	highest := int64(0)
	for round := range 3 {
		s := openAt(t, url, postgres.Options{})
		addJobs(t, s, 20)
		now, err := s.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: 20, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"numbered"},
		})
		if err != nil || len(got) != 20 {
			t.Fatalf("%d jobs, %v", len(got), err)
		}
		lowest := got[0].Job.Fence
		for i := range got {
			lowest = min(lowest, got[i].Job.Fence)
		}
		if lowest <= highest {
			t.Errorf("round %d: fence %d after %d", round, lowest, highest)
		}
		for i := range got {
			highest = max(highest, got[i].Job.Fence)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		// A minute's claims are lost, and the sequence with them.
		if _, err := conn.Exec(t.Context(), "SELECT setval('nexjob_fences', greatest(last_value - 10, 1)) FROM nexjob_fences"); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		conn = observer(t, url)
	}
}
