package sqlite_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// contents fingerprints a file and its log, so that a test sees any write.
func contents(t testing.TB, path string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		h.Write(fmt.Appendf(nil, "%s %d\n", name, len(data)))
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func enqueue(t testing.TB, s *sqlite.Store, jobs ...nexjob.NewJob) []nexjob.Answer {
	t.Helper()
	answers, err := s.Enqueue(t.Context(), time.Now(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestReadingNeverWrites (B068): nothing that a dashboard asks for touches the file.
func TestReadingNeverWrites(t *testing.T) {
	s := open(t, file(t), sqlite.Options{})
	parent := enqueue(t, s, keyedJob("parent"))[0].ID
	child := keyedJob("child")
	child.Parents, child.Tags = []nexjob.Parent{{ID: parent}}, []string{"a"}
	enqueue(t, s, child)
	path, now := pathOf(t, s), time.Now()
	before := contents(t, path)
	for _, q := range []nexjob.Query{
		{},
		{NewestFirst: true, Limit: 1},
		{Key: "child"},
		{KeyPrefix: "c"},
		{Tags: []string{"a"}},
		{Parent: parent},
		{States: nexjob.States()},
		{Of: nexjob.Keys},
		{Of: nexjob.Effects},
		{Of: nexjob.Effects, EffectStates: []nexjob.EffectState{nexjob.Intended, nexjob.Refused}},
	} {
		if _, err := s.Find(t.Context(), now, q); err != nil {
			t.Errorf("find %+v: %v", q, err)
		}
		if q.Of != nexjob.Jobs {
			continue
		}
		if _, err := s.Count(t.Context(), now, q); err != nil {
			t.Errorf("count %+v: %v", q, err)
		}
	}
	if _, err := s.Entries(t.Context(), now, "worker"); err != nil {
		t.Error(err)
	}
	if _, err := s.Clock(t.Context()); err != nil {
		t.Error(err)
	}
	if claimed, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
		N: 5, Lease: time.Hour, Queues: []string{"empty"}, Kinds: []string{"charge"},
	}); err != nil || len(claimed) != 0 {
		t.Error(err, claimed)
	}
	if after := contents(t, path); after != before {
		t.Error("reading has written")
	}
}

// TestKeysAreBytes (B010, B011): case, collation and length do not merge keys, and a
// key that is too long is refused, never cut.
func TestKeysAreBytes(t *testing.T) {
	s := open(t, file(t), sqlite.Options{})
	long := strings.Repeat("x", nexjob.MaxKey-4)
	keys := []string{
		"Order-A", "order-a", "order-a ", " order-a", "straße", "strasse", "é", "e\u0301", "\x00order", "1", "1.0", "01",
		long + "four", long + "five", strings.Repeat("𝄞", nexjob.MaxKey/4), "%", "_", "order'a", `order"a`,
	}
	for _, key := range keys {
		if a := enqueue(t, s, keyedJob(key))[0]; a.Outcome != nexjob.Created || a.Err != nil {
			t.Errorf("key %q is answered %+v", key, a)
		}
	}
	for _, key := range keys {
		page, err := s.Find(t.Context(), time.Now(), nexjob.Query{Key: key})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Key != key {
			t.Errorf("find %q: %v, %+v", key, err, page.Jobs)
		}
	}
	for _, n := range []int{nexjob.MaxKey + 1, 3000, 100_000} {
		a := enqueue(t, s, keyedJob(strings.Repeat("k", n)), keyedJob("neighbour of "+fmt.Sprint(n)))
		if !errors.Is(a[0].Err, nexjob.ErrInvalid) || a[1].Outcome != nexjob.Created {
			t.Errorf("a key of %d bytes is answered %+v", n, a)
		}
	}
	queues := []string{"Q", "q", strings.Repeat("q", nexjob.MaxName)}
	for _, queue := range queues {
		job := keyedJob("of queue " + queue)
		job.Queue = queue
		enqueue(t, s, job)
	}
	for _, queue := range queues {
		claimed, err := s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
			Worker: "w", N: 5, Lease: time.Minute, Queues: []string{queue}, Kinds: []string{"charge"},
		})
		if err != nil || len(claimed) != 1 || claimed[0].Job.Queue != queue {
			t.Errorf("claim from %q: %v, %+v", queue, err, claimed)
		}
	}
}

// TestDuplicatesBurnNothing (B052): a duplicate writes nothing at all, so no counter
// runs out.
func TestDuplicatesBurnNothing(t *testing.T) {
	s := open(t, file(t), sqlite.Options{})
	first := enqueue(t, s, keyedJob("k"))[0].ID
	path := pathOf(t, s)
	before := contents(t, path)
	for range 1000 {
		if a := enqueue(t, s, keyedJob("k"))[0]; a.Outcome != nexjob.Existing || a.ID != first {
			t.Fatalf("a duplicate is answered %+v", a)
		}
	}
	if contents(t, path) != before {
		t.Error("duplicates have written")
	}
}

// TestNothingIsLeft (B099): after retention no table holds anything of the jobs that
// are gone.
func TestNothingIsLeft(t *testing.T) {
	now := time.Now()
	s := open(t, file(t), sqlite.Options{Clock: func() time.Time { return now }})
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(jobs ...nexjob.NewJob) {
		t.Helper()
		answers, err := s.Enqueue(t.Context(), now, jobs)
		step(err)
		for _, a := range answers {
			step(a.Err)
		}
	}
	const n = 200
	for i := range n {
		job := keyedJob(fmt.Sprint("k", i))
		job.Tags, job.Meta = []string{"a", "b"}, map[string]string{"trace": "1"}
		if i%2 == 0 { // too large for the job's row
			job.Meta["page"] = strings.Repeat("x", 1000)
		}
		if i%3 == 0 {
			job.KeepKeyFor = time.Hour
		}
		child := keyedJob("")
		child.Parents = []nexjob.Parent{{ID: job.ID, Rule: nexjob.OnAnyEnd}}
		put(job, child)
	}
	for round := range 6 {
		claimed, err := s.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "w", N: 1000, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
		})
		step(err)
		var receipts []nexjob.Receipt
		ends := make([]nexjob.Settlement, len(claimed))
		for i := range claimed {
			j := &claimed[i].Job
			receipts = append(receipts, nexjob.Receipt{
				Operation: j.Operation, Sort: nexjob.StepReceipt, Name: fmt.Sprint("step ", round),
				Fingerprint: j.Fingerprint, State: nexjob.Confirmed, Writer: j.Lease(), Value: []byte("done"),
			})
			ends[i] = nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndSucceeded, Result: []byte("1")}
			switch {
			case round == 0:
				ends[i] = nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndRetry, Error: "again"}
			case i%2 == 0:
				ends[i] = nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndFailed, Error: "no"}
			case i%5 == 0:
				ends[i].Followers = []nexjob.NewJob{keyedJob("k1"), keyedJob("")}
			}
		}
		if len(receipts) > 0 {
			_, err = s.Record(t.Context(), now, receipts)
			step(err)
			settled, err := s.Settle(t.Context(), now, ends)
			step(err)
			for _, e := range settled {
				step(e.Err)
			}
		}
		now = now.Add(time.Second)
	}
	for i := range n {
		_, err := s.Put(t.Context(), now, []nexjob.Put{{Always: true, Entry: nexjob.Entry{
			Kind: "worker", Name: fmt.Sprint("w", i), Value: []byte("{}"), ExpiresAt: now.Add(time.Minute),
		}}})
		step(err)
	}
	for name, rows := range tableSizes(t, s) {
		if rows == 0 {
			t.Errorf("%s holds nothing before retention: the test tries nothing", name)
		}
	}
	now = now.Add(2 * time.Hour)
	for more := true; more; {
		done, err := s.Amend(t.Context(), now, nexjob.Query{
			States:      []nexjob.State{nexjob.Succeeded, nexjob.Failed, nexjob.Expired, nexjob.Cancelled},
			EndedBefore: now,
		}, nexjob.Action{Act: nexjob.ActPurge}, 100)
		step(err)
		more = done.More
	}
	for range 3 { // what is left over goes with later rounds
		_, err := s.Amend(t.Context(), now, nexjob.Query{EndedBefore: now}, nexjob.Action{Act: nexjob.ActPurge}, 1000)
		step(err)
	}
	bounded := map[string]int{"nexjob_meta": 3, "nexjob_migrations": 1}
	for name, rows := range tableSizes(t, s) {
		if rows > bounded[name] {
			t.Errorf("%s still holds %d rows", name, rows)
		}
	}
}

// tableSizes counts the rows of every table of the store.
func tableSizes(t testing.TB, s *sqlite.Store) map[string]int {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(),
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'nexjob_%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sizes := make(map[string]int)
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		sizes[name] = 0
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for name := range sizes {
		var n int
		err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM `+name).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		sizes[name] = n
	}
	return sizes
}
