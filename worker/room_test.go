package worker_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// roomy is a storage that puts what it claims where the worker lets it, as an engine may.
type roomy struct{ *storage }

func (s roomy) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	claimed, err := s.storage.Claim(ctx, now, ask)
	return append(ask.Buffer[len(ask.Buffer):], claimed...), err
}

// TestEachSettlementIsItsOwn: rooms that a worker uses again, for claims and for
// settlements, mix up nothing, whatever the storage answers: each job runs once and ends
// with its own result.
func TestEachSettlementIsItsOwn(t *testing.T) {
	const jobs = 1500
	bubble(t, func(b *bench) {
		w := worker.New(roomy{b.store}, worker.Options{Logger: quiet(), Slots: 30})
		runs := make(chan int, 2*jobs)
		worker.Handle(w, kindA, func(_ context.Context, run *worker.Run, a args) error {
			runs <- a.N
			time.Sleep(time.Duration(a.N%7) * time.Millisecond)
			return run.SetResult(a.N)
		})
		ids := make([]nexjob.ID, jobs)
		for i := range ids {
			ids[i] = b.add(kindA.New(args{N: i}, nexjob.Options{}))
		}
		turn := 0
		trouble := func(at int) func(string) error {
			return func(method string) error {
				switch {
				case method != "settle" && method != "claim":
					return nil
				case method == "settle":
					turn++
				}
				switch {
				case method == "settle" && turn%9 == at:
					return down()
				case method == "settle" && turn%9 == at+2:
					return errors.New("refused as a whole")
				case method == "settle" && turn%9 == at+4: // meanwhile settlements pile up
					time.Sleep(300 * time.Millisecond)
				}
				return nil
			}
		}
		b.store.set(func(s *storage) { s.before, s.after = trouble(1), trouble(3) })
		b.start(w)
		b.sleep(5 * time.Minute)
		for i, id := range ids {
			if j := b.want(id, nexjob.Succeeded, 0, 0, 0); string(j.Result) != strconv.Itoa(i) {
				t.Fatalf("job %d has the result %s", i, j.Result)
			}
		}
		if len(runs) != jobs {
			t.Errorf("%d runs of %d jobs", len(runs), jobs)
		}
	})
}
