package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
)

// TestAJobBeginsAfterItsKeysLast: callers reckon the time a little differently, and a call
// may be slow. Whatever the caller says, the next job of a key is not enqueued before the
// last one ended: their records never show two active jobs of one key.
func TestAJobBeginsAfterItsKeysLast(t *testing.T) {
	t.Parallel()
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	s, err := postgres.Open(t.Context(), server.URL(""), postgres.Options{Schema: "waits", Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	client := nexjob.NewClient(s, nexjob.ClientOptions{})
	for how, enqueue := range map[string]func(t *testing.T, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error){
		"one": func(t *testing.T, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
			return s.Enqueue(t.Context(), now, jobs[:1])
		},
		"many": func(t *testing.T, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
			return s.Enqueue(t.Context(), now, jobs)
		},
		"joined": func(t *testing.T, now time.Time, jobs []nexjob.NewJob) (answers []nexjob.Answer, err error) {
			err = pgx.BeginFunc(t.Context(), s.Pool(), func(tx pgx.Tx) error {
				joined, err := s.Join(postgres.Tx(tx))
				if err == nil {
					answers, err = joined.Enqueue(t.Context(), now, jobs)
				}
				return err
			})
			return answers, err
		},
	} {
		t.Run(how, func(t *testing.T) {
			kind := nexjob.KindOf[int]("after-"+how, nexjob.Defaults{})
			job := kind.New(1, nexjob.Options{IdempotencyKey: how})
			if _, err := client.Enqueue(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			now, err := s.Clock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			claimed, err := s.Claim(t.Context(), now.Add(100*time.Millisecond), nexjob.ClaimRequest{
				Worker: "w", N: 1, Lease: time.Minute, Queues: []string{nexjob.DefaultQueue}, Kinds: []string{kind.Name()},
			})
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			first := claimed[0].Job
			settled, err := s.Settle(t.Context(), now.Add(400*time.Millisecond), []nexjob.Settlement{
				{Lease: first.Lease(), As: nexjob.EndSucceeded},
			})
			if err != nil || settled[0].Err != nil {
				t.Fatal(settled, err)
			}
			next := []nexjob.NewJob{job, kind.New(2, nexjob.Options{})}
			next[0].ID, next[1].ID = nexjob.NewID(), nexjob.NewID()
			answers, err := enqueue(t, now, next)
			if err != nil || answers[0].Outcome != nexjob.Created {
				t.Fatal(answers, err)
			}
			before, err := client.Job(t.Context(), first.ID)
			if err != nil {
				t.Fatal(err)
			}
			after, err := client.Job(t.Context(), answers[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if after.EnqueuedAt.Before(before.EndedAt) {
				t.Errorf("one ended at %s, and the next was enqueued %s before", before.EndedAt,
					before.EndedAt.Sub(after.EnqueuedAt))
			}
		})
	}
}
