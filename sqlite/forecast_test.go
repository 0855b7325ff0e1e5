package sqlite_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// Jobs that fall due between polls start on time: here there is no poll. How late they are
// is logged and not judged closely, for the machine may be busy with other things.
func TestJobsFallDueBetweenPolls(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t)
	const many = 300
	began := time.Now()
	late := make(chan time.Duration, many)
	work := nexjob.KindOf[workArgs]("due", nexjob.Defaults{})
	jobs := make([]nexjob.NewJob, many)
	for i := range jobs {
		n := 200 + i*7%2000 + i%3
		jobs[i] = work.New(workArgs{n}, nexjob.Options{DueAt: began.Add(time.Duration(n) * time.Millisecond)})
	}
	if _, err := s.client.EnqueueMany(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	s.work(worker.Options{Poll: time.Hour, Lease: 24 * time.Hour}, func(w *worker.Worker) {
		worker.Handle(w, work, func(_ context.Context, _ *worker.Run, a workArgs) error {
			late <- time.Since(began) - time.Duration(a.N)*time.Millisecond
			return nil
		})
	})
	var all []time.Duration
	for range many {
		all = append(all, <-late)
	}
	slices.Sort(all)
	t.Logf("late: half %s, 95 %% %s, all %s", all[many/2], all[many*95/100], all[many-1])
	if all[0] < 0 || all[many/2] > 250*time.Millisecond {
		t.Errorf("jobs were between %s and %s late, half of them %s", all[0], all[many-1], all[many/2])
	}
}
