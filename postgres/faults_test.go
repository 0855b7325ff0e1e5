package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// on makes hands on a pool of a new database.
func on(t *testing.T, url string, change ...func(*pgxpool.Config)) *hands {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	h := &hands{T: t, now: &now}
	var err error
	h.Store, err = postgres.Wrap(t.Context(), connect(t, url, change...), postgres.Options{
		Migrate: true, ListenURL: "none", Clock: func() time.Time { return now },
	})
	h.must(err)
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// TestOneConnection: a pool of one connection serves every step; none takes a second one
// while it holds the first.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)), func(c *pgxpool.Config) { c.MaxConns = 1 })
	h.everything("one")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := h.Enqueue(h.Context(), *h.now, []nexjob.NewJob{job(fmt.Sprint(i % 3)), job(fmt.Sprint(i % 5))})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestOddSettings (B070): the server's time zone, its ways to write dates and bytes, and a
// database whose order of words is a language's do not change what is stored.
func TestOddSettings(t *testing.T) {
	t.Parallel()
	url := database(t, odd(t, 15))
	do(t, connect(t, url), `CREATE DATABASE words TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-DE' LOCALE 'C'`)
	for _, url := range []string{url, odd(t, 15).URL("words")} {
		h := on(t, url)
		h.everything("odd")
		later := job("later")
		later.Delay = 90 * time.Minute
		want := h.now.Add(later.Delay)
		h.add(later)
		page, err := h.Find(t.Context(), *h.now, nexjob.Query{Key: "later"})
		h.must(err)
		if len(page.Jobs) != 1 || !page.Jobs[0].DueAt.Equal(want) || page.Jobs[0].DueAt.Location() != time.UTC {
			t.Errorf("due at %v, want %v", page.Jobs, want)
		}
		keysAreBytes(h)
		if n := ask[int](t, h.Pool(), `SELECT count(*) FROM nexjob_effects WHERE at > now()`); n != 0 {
			t.Errorf("%d effects from the future", n)
		}
		s := open(t, url, postgres.Options{})
		now, err := s.Clock(t.Context())
		if off := time.Since(now).Abs(); err != nil || off > 10*time.Second {
			t.Errorf("the clock is off by %s, %v", off, err)
		}
		if _, err := s.Enqueue(t.Context(), now.Add(-time.Hour), []nexjob.NewJob{job("an hour off")}); !errors.Is(err, nexjob.ErrClock) {
			t.Errorf("an hour off: %v", err)
		}
	}
}

// keysAreBytes (B010, B011): case, order of words and length do not merge keys, and one that
// is too long is refused, never cut.
func keysAreBytes(h *hands) {
	h.Helper()
	long := strings.Repeat("x", nexjob.MaxKey-4)
	keys := []string{
		"Order-A", "order-a", "order-a ", " order-a", "straße", "strasse", "é", "e\u0301", "\x00order", "1", "1.0", "01",
		long + "four", long + "five", strings.Repeat("𝄞", nexjob.MaxKey/4), "%", "_", "order'a", `order"a`, `order\a`, "\xff",
	}
	for _, key := range keys {
		if nexjob.ValidateKey(key) != nil {
			continue
		}
		if a := h.add(job(key))[0]; a.Outcome != nexjob.Created {
			h.Errorf("key %q is answered %+v", key, a)
		}
		page, err := h.Find(h.Context(), *h.now, nexjob.Query{Key: key})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Key != key {
			h.Errorf("find %q: %v, %+v", key, err, page.Jobs)
		}
	}
	for _, n := range []int{nexjob.MaxKey + 1, 3000, 100_000} {
		answers, err := h.Enqueue(h.Context(), *h.now, []nexjob.NewJob{job(strings.Repeat("k", n)), job(fmt.Sprint("beside ", n))})
		h.must(err)
		if !errors.Is(answers[0].Err, nexjob.ErrInvalid) || answers[1].Outcome != nexjob.Created {
			h.Errorf("a key of %d bytes is answered %+v", n, answers)
		}
	}
	for _, queue := range []string{"Q", "q", strings.Repeat("q", nexjob.MaxName)} {
		j := job("of queue " + queue)
		j.Queue = queue
		h.add(j)
		claimed, err := h.Claim(h.Context(), *h.now, nexjob.ClaimRequest{
			Worker: "w", N: 5, Lease: time.Minute, Queues: []string{queue}, Kinds: []string{"charge"},
		})
		if err != nil || len(claimed) != 1 || claimed[0].Job.Queue != queue {
			h.Errorf("claim from %q: %v, %+v", queue, err, claimed)
		}
	}
}

// TestDuplicatesAtOnce (B013, B052): a mere duplicate is no error, whatever the sessions'
// default isolation level is, and it burns no number.
func TestDuplicatesAtOnce(t *testing.T) {
	t.Parallel()
	for _, level := range levels() {
		s, err := postgres.Wrap(t.Context(), connect(t, database(t, plain(t, 15)), func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = string(level)
		}), postgres.Options{Migrate: true, ListenURL: "none"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		fence := ask[int64](t, s.Pool(), `SELECT last_value FROM nexjob_fences`)
		for round := range 10 {
			if made := manyAtOnce(t, s, fmt.Sprint("k", round), 100); made != 1 {
				t.Errorf("%s: %d jobs were created of one key", level, made)
			}
		}
		if now := ask[int64](t, s.Pool(), `SELECT last_value FROM nexjob_fences`); now != fence {
			t.Errorf("%s: enqueues have drawn %d numbers", level, now-fence)
		}
	}
}

// manyAtOnce enqueues one key by many callers, half of them with another job beside it, and
// tells how many jobs it made of it.
func manyAtOnce(t *testing.T, s *postgres.Store, key string, n int) int {
	t.Helper()
	var mu sync.Mutex
	outcomes := make(map[nexjob.Outcome]int)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			jobs := []nexjob.NewJob{job(key)}
			if i%2 == 0 {
				jobs = append(jobs, job("beside "+key))
			}
			answers, err := s.Enqueue(t.Context(), time.Now(), jobs)
			if err != nil {
				t.Errorf("enqueue of %s: %v", key, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[answers[0].Outcome]++
		})
	}
	all.Wait()
	if outcomes[nexjob.Created]+outcomes[nexjob.Existing] != n {
		t.Errorf("outcomes %v of %d", outcomes, n)
	}
	return outcomes[nexjob.Created]
}

// TestReadOnlyForAWhile (B037): while the server takes no writes every step is answered
// with an error that passes, nothing is half done, and afterwards work goes on.
func TestReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)))
	h.add(job("a"), job("b"))
	c := h.claim(1)[0]
	name := ask[string](t, h.Pool(), `SELECT current_database()`)
	do(t, h.Pool(), fmt.Sprintf(`ALTER DATABASE %q SET default_transaction_read_only = on`, name))
	h.Pool().Reset()
	_, enqueue := h.Enqueue(t.Context(), *h.now, []nexjob.NewJob{job("c")})
	_, batch := h.Enqueue(t.Context(), *h.now, []nexjob.NewJob{job("d"), job("e")})
	_, claim := h.Claim(t.Context(), *h.now, nexjob.ClaimRequest{
		Worker: "w", N: 1, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
	})
	_, renew := h.Renew(t.Context(), *h.now, h.now.Add(time.Minute), []nexjob.Lease{c.Job.Lease()})
	_, settle := h.Settle(t.Context(), *h.now, []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndSucceeded}})
	_, fail := h.Settle(t.Context(), *h.now, []nexjob.Settlement{{Lease: c.Job.Lease(), As: nexjob.EndFailed}})
	_, put := h.Put(t.Context(), *h.now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "worker", Name: "w"}}})
	for verb, err := range map[string]error{
		"enqueue": enqueue, "batch": batch, "claim": claim, "renew": renew, "settle": settle, "fail": fail, "put": put,
	} {
		if !nexjob.IsTransient(err) || errors.Is(err, nexjob.ErrOutcomeUnknown) {
			t.Errorf("%s on a server that takes no writes: %v", verb, err)
		}
	}
	if page, err := h.Find(t.Context(), *h.now, nexjob.Query{}); err != nil || len(page.Jobs) != 2 {
		t.Errorf("find on a server that takes no writes: %v, %d jobs", err, len(page.Jobs))
	}
	do(t, connect(t, h.Pool().Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "off"
	}), fmt.Sprintf(`ALTER DATABASE %q RESET default_transaction_read_only`, name))
	h.Pool().Reset()
	h.end(c, nexjob.EndSucceeded)
	if left := h.claim(5); len(left) != 1 || left[0].Job.Tries != 0 {
		t.Errorf("claimed afterwards: %+v", left)
	}
}

// TestTablesChange (B073): stores that are at work go on when a column is added, an index
// is made and functions are replaced, without an error.
func TestTablesChange(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)), func(c *pgxpool.Config) { c.MaxConns = 2 })
	h.everything("before")
	h.everything("warm")
	do(t, h.Pool(), `ALTER TABLE nexjob_jobs ADD COLUMN later bigint; ALTER TABLE nexjob_keys ADD COLUMN later bigint;
		ALTER TABLE nexjob_leases ADD COLUMN later text; ALTER TABLE nexjob_entries ADD COLUMN later text DEFAULT 'x';
		CREATE INDEX ON nexjob_jobs (later); CREATE TABLE nexjob_later (id bigint)`)
	h.everything("after")
	do(t, h.Pool(), `ALTER TABLE nexjob_jobs DROP COLUMN later; REINDEX TABLE nexjob_jobs; DROP INDEX nexjob_jobs_held`)
	h.everything("in the end")
}

// TestPoolStaysWhole (B061): steps whose callers give up in the middle, and commits that
// fail, leave no connection in a broken transaction.
func TestPoolStaysWhole(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)), func(c *pgxpool.Config) { c.MaxConns = 2 })
	for round := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round*20)*time.Microsecond)
		_, _ = h.Enqueue(ctx, *h.now, []nexjob.NewJob{job("a"), job("b"), job(fmt.Sprint(round))})
		_, _ = h.Enqueue(ctx, *h.now, []nexjob.NewJob{job(fmt.Sprint("single ", round))})
		_, _ = h.Put(ctx, *h.now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "worker", Name: "w"}}})
		_, _ = h.Find(ctx, *h.now, nexjob.Query{})
		cancel()
		if _, err := h.Put(t.Context(), *h.now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{Kind: "worker", Name: "w"}}}); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	// A commit that fails, late: a constraint that is looked at when it is made.
	do(t, h.Pool(), `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '53100'; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON nexjob_jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no()`)
	for _, jobs := range [][]nexjob.NewJob{{job("x")}, {job("x"), job("y")}} {
		if _, err := h.Enqueue(t.Context(), *h.now, jobs); !nexjob.IsTransient(err) {
			t.Errorf("a full disk at the commit of %d jobs: %v", len(jobs), err)
		}
	}
	do(t, h.Pool(), `DROP TRIGGER late ON nexjob_jobs`)
	h.everything("in the end")
	watcher := connect(t, h.Pool().Config().ConnString())
	if n := ask[int](t, watcher, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`); n != 0 {
		t.Errorf("%d connections are left in a transaction", n)
	}
}

// TestSessionsEnd: sessions that the server ends, as a restart does, fail the calls that
// were under way in a way that passes, and the next ones work.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)))
	other := connect(t, h.Pool().Config().ConnString())
	for round := range 20 {
		h.add(job(fmt.Sprint("before ", round)))
		ask[int](t, other, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		j := job(fmt.Sprint("after ", round))
		var answers []nexjob.Answer
		var err error
		for range 10 {
			if answers, err = h.Enqueue(t.Context(), *h.now, []nexjob.NewJob{j}); err == nil {
				break
			}
			if !nexjob.IsTransient(err) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if err != nil || answers[0].Err != nil || answers[0].ID != j.ID {
			t.Errorf("round %d: %+v, %v", round, answers, err)
		}
	}
}

// TestPoison (B044, B045, B046): zero characters and bad UTF-8 in what handlers and callers
// say neither fail a step nor reach the neighbours of their item.
func TestPoison(t *testing.T) {
	t.Parallel()
	h := on(t, database(t, plain(t, 15)))
	var jobs []nexjob.NewJob
	for i := range 20 {
		j := job(fmt.Sprint("k", i))
		j.Args = []byte("{\"zero\":\"\\u0000\",\"big\":18446744073709551615,\"odd\":9007199254740993}")
		jobs = append(jobs, j)
	}
	h.add(jobs...)
	claimed := h.claim(20)
	ends := make([]nexjob.Settlement, len(claimed))
	for i, c := range claimed {
		if string(c.Job.Args) != string(jobs[0].Args) {
			t.Errorf("args %q", c.Job.Args)
		}
		ends[i] = nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndSucceeded, Result: []byte("a\x00b\xff")}
		if i%5 == 0 {
			ends[i] = nexjob.Settlement{Lease: c.Job.Lease(), As: nexjob.EndFailed, Error: "no\x00t \xff good"}
		}
	}
	settled, err := h.Settle(t.Context(), *h.now, ends)
	h.must(err)
	for i := range settled {
		if settled[i].Err != nil {
			t.Errorf("settlement %d: %v", i, settled[i].Err)
		}
	}
	page, err := h.Find(t.Context(), *h.now, nexjob.Query{States: []nexjob.State{nexjob.Succeeded}, Limit: 100})
	if err != nil || len(page.Jobs) != 16 || string(page.Jobs[0].Result) != "a\x00b\xff" {
		t.Errorf("%v, %d jobs have succeeded", err, len(page.Jobs))
	}
	odd := job("odd")
	odd.Meta, odd.Tags = map[string]string{"a": "x\x00y\xff"}, []string{"t\x00"}
	answers, err := h.Enqueue(t.Context(), *h.now, []nexjob.NewJob{odd, job("neighbour")})
	if err != nil || answers[1].Outcome != nexjob.Created {
		t.Errorf("beside odd words: %+v, %v", answers, err)
	}
}

// TestIDs (B052): no number of the schema has 32 bits and grows with use.
func TestIDs(t *testing.T) {
	t.Parallel()
	s := store(t)
	if n := ask[int](t, s.Pool(), `SELECT count(*) FROM pg_sequences WHERE data_type <> 'bigint'::regtype`); n != 0 {
		t.Errorf("%d sequences count in 32 bits", n)
	}
	if n := ask[int](t, s.Pool(), `SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
		WHERE i.indrelid::regclass::text LIKE 'nexjob%' AND i.indisprimary AND a.atttypid = 'integer'::regtype AND a.attname <> 'place'`); n != 0 {
		t.Errorf("%d keys of tables are numbers of 32 bits", n)
	}
}
