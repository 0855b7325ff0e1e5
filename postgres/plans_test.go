package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
)

// watched hears from the server how each statement was done, those inside of functions
// too: auto_explain tells it as a notice.
type watched struct {
	mu    sync.Mutex
	plans map[string]bool // every statement with its plan, once
}

// watch is a pool whose statements are heard.
func watch(t *testing.T, url string) (*pgxpool.Pool, *watched) {
	t.Helper()
	w := &watched{plans: make(map[string]bool)}
	pool := connect(t, url, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { w.hear(n.Message) }
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.PgConn().Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
				SET auto_explain.log_nested_statements = on; SET client_min_messages = log; SET log_min_messages = panic`).ReadAll()
			return err
		}
	})
	return pool, w
}

func (w *watched) hear(message string) {
	_, text, found := strings.Cut(message, "plan:\nQuery Text: ")
	if !found {
		return
	}
	text = masked(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plans[strings.TrimSpace(text)+"\n"] = true
}

// masked is a plan without what differs from one run to the next: costs and values.
func masked(text string) string {
	text = regexp.MustCompile(`  \(cost=[^)]*\)|(?m)^Query Parameters:.*\n`).ReplaceAllString(text, "")
	return regexp.MustCompile(`'[^']*'(::[a-z]+(\[\])?)?|\$[0-9]+`).ReplaceAllString(text, "?")
}

// sorted returns what was heard and forgets it.
func (w *watched) sorted() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Sorted(func(yield func(string) bool) {
		for text := range w.plans {
			if !yield(text) {
				return
			}
		}
	})
	clear(w.plans)
	return strings.Join(all, "\n")
}

// TestPlans holds the way that every statement finds its rows, inside of functions too: on
// tables that are new, and on some thousands of jobs of which none was leased when they
// were analysed, which is when an index on leased jobs looks empty.
func TestPlans(t *testing.T) {
	t.Parallel()
	for _, version := range testenv.Versions() {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			pool, heard := watch(t, database(t, odd(t, version)))
			now := time.Now().Truncate(time.Microsecond)
			s, err := postgres.Wrap(t.Context(), pool, postgres.Options{Migrate: true, ListenURL: "none", Clock: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			heard.sorted()
			h := &hands{t, s, &now}
			h.everything("new")
			text := "-- On new tables.\n\n" + heard.sorted()
			do(t, pool, `INSERT INTO nexjob_jobs (id, enqueued_at, started_at, ended_at, max_attempts, state, priority, kind, queue, key, fingerprint)
				SELECT gen_random_uuid(), n, n, n, 5, 5, 2, 'charge', 'default', convert_to('old' || n, 'UTF8'), '' FROM generate_series(1, 5000) n;
				INSERT INTO nexjob_keys (key, job) SELECT key, id FROM nexjob_jobs WHERE key IS NOT NULL ON CONFLICT DO NOTHING;
				DELETE FROM nexjob_leases; ANALYZE`)
			h.everything("full")
			heard.sorted() // plans of connections that are warm already
			pool.Reset()
			h.everything("fuller")
			text += "\n-- On thousands of ended jobs, analysed while none was leased.\n\n" + heard.sorted()
			noWalks(t, s, text)
			golden(t, fmt.Sprintf("testdata/plans-%d.txt", version), text+"\n-- Searches.\n\n"+searches(t, s, now))
		})
	}
}

// noWalks finds plans that walk over a whole table of ours. What is read outside of a step
// is planned anew each time, and may walk over a table that is small at that moment.
func noWalks(t *testing.T, s *postgres.Store, text string) {
	t.Helper()
	small := make(map[string]bool)
	for _, name := range []string{"attempts", "parents", "receipts", "search jobs", "entries"} {
		first, _, _ := strings.Cut(postgres.StatementTexts(s)[name], "\n")
		small[first] = true
	}
	for plan := range strings.SplitSeq(text, "\n\n") {
		first, _, _ := strings.Cut(plan, "\n")
		walks := regexp.MustCompile(`Seq Scan on (\w+\.)?"?nexjob_(jobs|keys|receipts|attempts|parents|leases)\b`).MatchString(plan)
		if walks && !small[first] {
			t.Errorf("a plan walks over a whole table:\n%s", plan)
		}
	}
}

// searches are the plans of what dashboards and commands ask.
func searches(t *testing.T, s *postgres.Store, now time.Time) string {
	t.Helper()
	conn, err := s.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	id := nexjob.ID{1}
	var b strings.Builder
	for _, q := range []struct {
		name string
		what postgres.Searched
		of   nexjob.Query
	}{
		{"everything", postgres.SearchPage, nexjob.Query{}},
		{"IDs", postgres.SearchPage, nexjob.Query{IDs: []nexjob.ID{id}}},
		{"operations", postgres.SearchPage, nexjob.Query{Operations: []nexjob.ID{id}}},
		{"a key", postgres.SearchPage, nexjob.Query{Key: "k"}},
		{"a beginning of keys", postgres.SearchPage, nexjob.Query{KeyPrefix: "k"}},
		{"children", postgres.SearchPage, nexjob.Query{Parent: id}},
		{"tags", postgres.SearchPage, nexjob.Query{Tags: []string{"a"}}},
		{"any tag", postgres.SearchPage, nexjob.Query{AnyTags: []string{"a", "b"}}},
		{"kind and queue", postgres.SearchPage, nexjob.Query{Kinds: []string{"charge"}, Queues: []string{"default"}}},
		{"due", postgres.SearchPage, nexjob.Query{States: []nexjob.State{nexjob.Enqueued}}},
		{"scheduled", postgres.SearchPage, nexjob.Query{States: []nexjob.State{nexjob.Scheduled}}},
		{"failed", postgres.SearchPage, nexjob.Query{States: []nexjob.State{nexjob.Failed}}},
		{"processing", postgres.SearchPage, nexjob.Query{States: []nexjob.State{nexjob.Processing}}},
		{"uncertain", postgres.SearchPage, nexjob.Query{States: []nexjob.State{nexjob.Uncertain}}},
		{"retention", postgres.SearchIDs, nexjob.Query{States: []nexjob.State{nexjob.Succeeded}, EndedBefore: now}},
		{"deadlines", postgres.SearchIDs, nexjob.Query{States: []nexjob.State{nexjob.Enqueued, nexjob.Scheduled}, DeadlineBefore: now}},
		{"count of everything", postgres.SearchTally, nexjob.Query{}},
		{"count of active jobs", postgres.SearchTally, nexjob.Query{States: []nexjob.State{nexjob.Enqueued, nexjob.Processing, nexjob.Uncertain}}},
		{"count of failed jobs", postgres.SearchTally, nexjob.Query{States: []nexjob.State{nexjob.Failed}}},
		{"one key's standing", postgres.SearchKeys, nexjob.Query{Key: "k"}},
		{"standing of a beginning of keys", postgres.SearchKeys, nexjob.Query{KeyPrefix: "k"}},
	} {
		lines, err := postgres.PlanOf(t.Context(), s, conn.Conn(), q.what, q.of, now)
		if err != nil {
			t.Fatalf("%s: %v", q.name, err)
		}
		fmt.Fprintf(&b, "search: %s\n%s\n\n", q.name, masked(strings.Join(lines, "\n")))
	}
	return b.String()
}
