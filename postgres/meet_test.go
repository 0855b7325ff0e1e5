package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
