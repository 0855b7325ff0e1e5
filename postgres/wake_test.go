package postgres_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// seldom is a poll that no test of wake-ups waits for.
const seldom = time.Minute

func TestWake(t *testing.T) {
	server := ownServer(t, nil)
	t.Run("a job of another process starts at once", func(t *testing.T) { wakesAtOnce(t, server) })
	t.Run("names longer than a channel may be", func(t *testing.T) { wakesUnderLongNames(t, server) })
	t.Run("the listener is terminated", func(t *testing.T) { wakesAfterTermination(t, server) })
	t.Run("the listener's packets are dropped", func(t *testing.T) { wakesAfterSilence(t, server) })
	t.Run("the server restarts", func(t *testing.T) { wakesAfterRestart(t, server) })
	t.Run("who only enqueues holds no connection", func(t *testing.T) { enqueuesWithoutListener(t, server) })
	t.Run("Close leaves nothing", func(t *testing.T) { closesWhole(t, server) })
	t.Run("signals are few", func(t *testing.T) { signalsFew(t, server) })
	t.Run("a caller's transaction signals nothing", func(t *testing.T) { signalsNothingInside(t, server) })
	t.Run("an end is heard of in another process", func(t *testing.T) { hearsOfEnds(t, server) })
	t.Run("one's own signals are not heeded", func(t *testing.T) { heedsNotItself(t, server) })
}

// served is a worker on a store of its own that tells when a job starts.
func served(t *testing.T, url string, options postgres.Options) (s *postgres.Store, started <-chan time.Time) {
	t.Helper()
	s = openAt(t, url, options)
	starts := make(chan time.Time, 1000)
	working(t, s, worker.Options{Poll: seldom}, func(context.Context, *worker.Run, int) error {
		starts <- time.Now()
		return nil
	})
	return s, starts
}

func wakesAtOnce(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	_, started := served(t, url, postgres.Options{})
	conn, from := observer(t, url), client(openAt(t, url, postgres.Options{}))
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	var took []time.Duration
	for n := range 50 {
		enqueue(t, from, n)
		at := time.Now()
		took = append(took, receive(t, seldom/4, "start", started).Sub(at))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > time.Second/4 {
		t.Errorf("half of the jobs started later than %s", median)
	}
	t.Logf("from enqueued to started: median %s, longest %s", took[len(took)/2], took[len(took)-1])
}

func wakesUnderLongNames(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	names := postgres.Options{Schema: strings.Repeat("s", 40), Prefix: strings.Repeat("p", 30)}
	_, started := served(t, url, names)
	conn, from := observer(t, url), client(openAt(t, url, names))
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	enqueue(t, from, 1)
	receive(t, seldom/4, "start", started)
}

func wakesAfterTermination(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	_, started := served(t, url, postgres.Options{})
	conn, from := observer(t, url), client(openAt(t, url, postgres.Options{}))
	for n := range 3 {
		eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
		number(t, conn, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'nexjob listen'`)
		enqueue(t, from, n) // most likely nobody hears this signal
		receive(t, seldom/4, "start", started)
	}
}

func wakesAfterSilence(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	network, through := newGate(t, url)
	s := openAt(t, url, postgres.Options{ListenURL: through})
	postgres.Hurry(s, 300*time.Millisecond, 200*time.Millisecond)
	starts := make(chan time.Time, 10)
	working(t, s, worker.Options{Poll: seldom}, func(context.Context, *worker.Run, int) error {
		starts <- time.Now()
		return nil
	})
	conn, from := observer(t, url), client(openAt(t, url, postgres.Options{}))
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	enqueue(t, from, 0)
	receive(t, seldom/4, "start", starts)
	network.freeze()
	enqueue(t, from, 1)
	receive(t, seldom/4, "start after the silence", starts)
}

func wakesAfterRestart(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	_, started := served(t, url, postgres.Options{})
	from := client(openAt(t, url, postgres.Options{}))
	conn := observer(t, url)
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	enqueue(t, from, 1)
	t.Logf("started %s after the restart", receive(t, 10*time.Second, "start", started).Sub(at))
}

func enqueuesWithoutListener(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	c, conn := client(s), observer(t, url)
	id := enqueue(t, c, 1)
	if n := number(t, conn, listeners); n != 0 {
		t.Errorf("%d connections to listen", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		_, _ = c.Wait(ctx, id)
	}()
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	cancel()
	<-waits
	silent := openAt(t, url, postgres.Options{ListenURL: "none"})
	_, stop := silent.Bell().Listen()
	defer stop()
	if left := goroutines("postgres.(*listener)"); len(left) != 1 {
		t.Errorf("%d listeners run:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

func closesWhole(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	conn := observer(t, url)
	ours := `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`
	for range 20 {
		s := openAt(t, url, postgres.Options{})
		_, stop := s.Bell().Listen()
		enqueue(t, client(s), 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		stop()
		s.Bell().Ring() // of somebody who still holds it
		if left := goroutines("nexjob/postgres.("); len(left) > 0 {
			t.Fatalf("still running:\n%s", strings.Join(left, "\n\n"))
		}
	}
	eventually(t, 5*time.Second, "no connection", func() bool { return number(t, conn, ours) == 0 })
}

// counting counts the signals of a database until the test ends.
func counting(t *testing.T, url string) (conn *pgx.Conn, count func() int) {
	t.Helper()
	conn = observer(t, url)
	if _, err := conn.Exec(t.Context(), `LISTEN "public.nexjob"`); err != nil {
		t.Fatal(err)
	}
	return conn, func() int {
		if _, err := conn.Exec(t.Context(), `SELECT pg_notify('public.nexjob', 'last')`); err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			signal, err := conn.WaitForNotification(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if signal.Payload == "last" {
				return n
			}
		}
	}
}

func signalsFew(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	_, signals := counting(t, url)
	began := time.Now()
	var group sync.WaitGroup
	for caller := range 32 {
		group.Go(func() {
			for n := range 40 {
				if _, err := client(s).Enqueue(t.Context(), numbered().New(n+1000*caller, nexjob.Options{})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	jobs := make([]nexjob.NewJob, 10_000)
	for i := range jobs {
		jobs[i] = numbered().New(i, nexjob.Options{})
	}
	if _, err := client(s).EnqueueMany(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	few := func(what string, most int) {
		took := time.Since(began)
		n := signals()
		t.Logf("%s: %d signals in %s", what, n, took)
		if limit := min(int(took/(10*time.Millisecond))+2, most); n > limit || n == 0 {
			t.Errorf("%s: %d signals in %s, at most %d are wanted", what, n, took, limit)
		}
		began = time.Now()
	}
	few("32 callers of 40 jobs, then 10,000 jobs at once", 1280)
	var ended sync.WaitGroup
	ended.Add(32*40 + len(jobs))
	working(t, s, worker.Options{Slots: 200, Poll: seldom}, func(context.Context, *worker.Run, int) error {
		ended.Done()
		return nil
	})
	ended.Wait()
	few("11,280 jobs that ended", 11_280)
}

func signalsNothingInside(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	conn, signals := counting(t, url)
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client(s).In(postgres.Tx(tx)).Enqueue(t.Context(), numbered().New(1, nexjob.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := signals(); n != 0 {
		t.Errorf("%d signals of a commit", n)
	}
	answer.Wake()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := conn.WaitForNotification(ctx); err != nil {
		t.Errorf("Wake told nobody: %v", err)
	}
}

func hearsOfEnds(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	served(t, url, postgres.Options{})
	s := openAt(t, url, postgres.Options{})
	conn, c := observer(t, url), client(s)
	rings, stop := s.Bell().Listen()
	defer stop()
	eventually(t, 5*time.Second, "both listen", func() bool { return number(t, conn, listeners) == 2 })
	id := enqueue(t, c, 1)
	eventually(t, 5*time.Second, "end", func() bool {
		receive(t, 5*time.Second, "ring", rings)
		job, err := c.Job(t.Context(), id)
		return err == nil && job.State == nexjob.Succeeded
	})
}

func heedsNotItself(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	rings, stop := s.Bell().Listen()
	defer stop()
	conn, _ := counting(t, url)
	eventually(t, 5*time.Second, "a listener", func() bool { return number(t, conn, listeners) == 1 })
	receive(t, 5*time.Second, "the ring for what was missed", rings)
	enqueue(t, client(s), 1)
	receive(t, 5*time.Second, "the ring of this process", rings)
	if _, err := conn.WaitForNotification(t.Context()); err != nil { // it was sent
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_notify('public.nexjob', 'other')`); err != nil {
		t.Fatal(err)
	}
	receive(t, 5*time.Second, "the ring of another", rings)
	select {
	case <-rings:
		t.Error("a signal of its own rang once more")
	case <-time.After(5 * 10 * time.Millisecond): // rings are ten milliseconds apart
	}
}
