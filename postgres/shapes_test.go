package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
)

// TestManyShapes: jobs of one batch whose options all differ keep their own, however many
// they are. Numbers of shapes once ran over at 32,767.
func TestManyShapes(t *testing.T) {
	t.Parallel()
	h := newStand(t, plain(t, 15), pgx.ReadCommitted).harness()
	s := h.Open(t, time.Now)
	now := time.Now().UTC().Truncate(time.Microsecond)
	jobs := make([]nexjob.NewJob, 33_000)
	for i := range jobs {
		jobs[i] = numbered().New(i, nexjob.Options{Deadline: now.Add(time.Hour + time.Duration(i)*time.Second)})
		jobs[i].ID = nexjob.NewID()
	}
	answers, err := s.Enqueue(t.Context(), time.Now(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 999, 1000, 1001, 32_767, 32_999} {
		page, err := s.Find(t.Context(), time.Now(), nexjob.Query{IDs: []nexjob.ID{answers[i].ID}})
		if err != nil || len(page.Jobs) != 1 || answers[i].Err != nil {
			t.Fatal(page, err, answers[i])
		}
		if !page.Jobs[0].Deadline.Equal(jobs[i].Deadline) {
			t.Errorf("job %d has the deadline %v, want %v", i, page.Jobs[0].Deadline, jobs[i].Deadline)
		}
	}
}
