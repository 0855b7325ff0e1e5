package postgres_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// TestABatchMeetsAnEnqueue: where a key of a batch is being added by somebody whose
// transaction commits, or does not, while the batch waits for it, each item is answered by
// what is true then, and the others are added once.
func TestABatchMeetsAnEnqueue(t *testing.T) {
	t.Parallel()
	url := database(t, plain(t, 15))
	s := openAt(t, url, postgres.Options{})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	for n, ends := range []struct {
		commit bool
		want   nexjob.Outcome
	}{{true, nexjob.Existing}, {false, nexjob.Created}} {
		name := func(key string) string { return fmt.Sprint(key, n) }
		tx := holdKey(t, s, conn, name("held"))
		var jobs []nexjob.NewJob
		for _, key := range []string{"a", "z", "held", "m"} { // not in order, and some beyond the held one
			jobs = append(jobs, underKey(name(key)))
		}
		jobs = append(jobs, nexjob.RawJob("numbered", nil, nexjob.Options{}))
		var answers []nexjob.Answer
		done := make(chan error, 1)
		go func() {
			var err error
			answers, err = client(s).EnqueueMany(t.Context(), jobs)
			done <- err
		}()
		for ask[int64](t, s.Pool(), `SELECT count(*) FROM pg_locks WHERE NOT granted`) == 0 {
			time.Sleep(time.Millisecond)
		}
		if ends.commit {
			err = tx.Commit(t.Context())
		} else {
			err = tx.Rollback(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i, answer := range answers {
			want := nexjob.Created
			if i == 2 {
				want = ends.want
			}
			if answer.Outcome != want || answer.Err != nil {
				t.Errorf("commit %t, job %d: %v %v, want %v", ends.commit, i, answer.Outcome, answer.Err, want)
			}
		}
		if have := ask[int64](t, s.Pool(), `SELECT count(*) FROM nexjob_jobs`); have != int64(5*(n+1)) {
			t.Errorf("commit %t: %d jobs are stored, want %d", ends.commit, have, 5*(n+1))
		}
	}
}

// TestNoSubtransactionOfOneJob: jobs that a caller's transaction adds one by one are rows of
// that transaction itself. Beyond 64 subtransactions of one transaction, every snapshot of
// the server pays.
func TestNoSubtransactionOfOneJob(t *testing.T) {
	t.Parallel()
	s := openShop(t, server(t))
	for _, w := range ways() {
		err := w.in(t.Context(), s, func(tx openTx) error {
			for range 3 {
				if _, err := s.client.In(tx.tx).Enqueue(t.Context(), nexjob.RawJob(w.name, nil, nexjob.Options{})); err != nil {
					return err
				}
			}
			return tx.exec(t.Context(), `INSERT INTO orders SELECT count(*) FROM nexjob_jobs
				WHERE kind = '`+w.name+`' AND xmin::text::bigint = pg_current_xact_id()::text::bigint & 4294967295`)
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := s.count(t, `SELECT max(n) FROM orders`); n != 3 {
			t.Errorf("%s: %d of 3 jobs are rows of the caller's transaction itself", w.name, n)
		}
		if err := w.in(t.Context(), s, func(tx openTx) error { return tx.exec(t.Context(), `DELETE FROM orders`) }); err != nil {
			t.Fatal(err)
		}
	}
}

// talk is what connections have sent, to tell how a step was done.
type talk struct {
	mu   sync.Mutex
	said strings.Builder
}

type heardConn struct {
	net.Conn
	talk *talk
}

func (c heardConn) Write(b []byte) (int, error) {
	c.talk.mu.Lock()
	c.talk.said.Write(b)
	c.talk.mu.Unlock()
	return c.Conn.Write(b)
}

// begun tells whether a transaction was begun since it was asked last.
func (l *talk) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.said.Reset()
	return strings.Contains(l.said.String(), "BEGIN")
}

// TestABatchIsOneRoundTrip: a batch of new keys, and of keys that active jobs hold, is one
// statement that commits by itself. One that may continue what has ended is a transaction.
func TestABatchIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	heard := new(talk)
	pool := connect(t, database(t, plain(t, 15)), func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return heardConn{conn, heard}, err
		}
	})
	s, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true, ListenURL: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	enqueue := func(keys ...string) []nexjob.Answer {
		t.Helper()
		var jobs []nexjob.NewJob
		for _, key := range keys {
			jobs = append(jobs, job(key))
		}
		heard.begun()
		answers, err := s.Enqueue(t.Context(), time.Now(), jobs) // a client writes down what it decided, too
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	first := enqueue("a", "b")
	if heard.begun() {
		t.Error("a batch of new keys began a transaction")
	}
	if enqueue("a", "c"); heard.begun() {
		t.Error("a batch with the key of an active job began a transaction")
	}
	if _, err := client(s).AmendJob(t.Context(), first[0].ID, nexjob.Action{Act: nexjob.ActCancel, By: "a test", Reason: "no more"}); err != nil {
		t.Fatal(err)
	}
	again := enqueue("a", "d", "b")
	if !heard.begun() {
		t.Error("a batch that continues what has ended began no transaction")
	}
	for i, want := range []nexjob.Outcome{nexjob.Created, nexjob.Created, nexjob.Existing} {
		if again[i].Outcome != want || again[i].Err != nil {
			t.Errorf("job %d: %v %v, want %v", i, again[i].Outcome, again[i].Err, want)
		}
	}
	if have := ask[int64](t, s.Pool(), `SELECT count(*) FROM nexjob_jobs`); have != 5 {
		t.Errorf("%d jobs are stored, want 5", have)
	}
}
