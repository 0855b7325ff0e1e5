package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// cut makes calls of a method fail from one time of the bench to another.
func (b *bench) cut(method string, from, to time.Duration) {
	b.store.set(func(s *storage) {
		s.before = func(called string) error {
			if called == method && b.at() >= from && b.at() < to {
				return down()
			}
			return nil
		}
	})
}

// B030: the storage is cut for 5 s when the handler returns; the settlement is
// written afterwards, and the handler does not run again.
func TestSettlementIsRetried(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		w, _ := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { runs++; return nil })
		b.cut("settle", 0, 5*time.Second)
		id := b.enqueue(nexjob.Options{})
		b.sleep(5 * time.Second)
		if h := w.Health(); h.Unsettled != 1 || h.Busy != 0 || h.LastError == "" || h.StorageErrors == 0 {
			t.Errorf("health while cut: %+v", h)
		}
		b.sleep(2 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

// B030: a job whose settlement cannot be written is recovered when its lease ends,
// although its worker lives. The settlement is tried a while longer, for it harms
// nobody, then let go.
func TestSettlementIsLetGo(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		// It polls often, so that a lease which ends is found at once, whatever the jitter.
		options := worker.Options{Lease: 3 * time.Second, Poll: 200 * time.Millisecond}
		w, stop := b.run(options, func(context.Context, *worker.Run, args) error {
			runs++
			return nil
		})
		b.cut("settle", 0, 9500*time.Millisecond)
		id := b.enqueue(nexjob.Options{})
		b.sleep(20 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 2, 0)
		if h := w.Health(); runs != 3 || h.LetGo != 1 || h.StaleWritesRefused != 1 || h.Unsettled != 0 {
			t.Errorf("%d runs, health %+v", runs, h)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A settlement whose answer was lost is asked for again, and is one settlement: the
// follower is enqueued once.
func TestSettlementAnswerIsLost(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{}, func(_ context.Context, run *worker.Run, _ args) error {
			return run.Next(kindA.New(args{}, nexjob.Options{Queue: "later"}))
		})
		lost := false
		b.store.set(func(s *storage) {
			s.after = func(method string) error {
				if method == "settle" && !lost {
					lost = true
					return nexjob.ErrOutcomeUnknown
				}
				return nil
			}
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if n := len(b.find(nexjob.Query{}).Jobs); n != 2 || !lost {
			t.Errorf("%d jobs are stored, answer lost: %v", n, lost)
		}
	})
}

// What is counted and logged is what became of the job: a handler that returned nil
// while its effect has no outcome has not succeeded.
func TestSuccessThatIsUncertainIsNotCountedAsOne(t *testing.T) {
	bubble(t, func(b *bench) {
		var lines bytes.Buffer
		w, stop := b.run(worker.Options{
			Poll: time.Hour, Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug})),
		}, func(ctx context.Context, run *worker.Run, _ args) error {
			_, _ = worker.Effect[paid]{
				Name: "charge", AtMostOnce: true,
				Send: func(context.Context, string) (paid, error) { return paid{}, errTorn },
			}.Do(ctx, run)
			return nil
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		b.want(id, nexjob.Uncertain, 0, 0, 0)
		if h := w.Health(); h.Succeeded != 0 || h.Uncertain != 1 {
			t.Errorf("health %+v", h)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if text := lines.String(); strings.Contains(text, "job succeeded") || !strings.Contains(text, "job is uncertain") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// A worker that froze past its lease and thaws writes nothing: the fence refuses it.
func TestStaleSettlementIsRefused(t *testing.T) {
	bubble(t, func(b *bench) {
		release := make(chan struct{})
		w, _ := b.run(worker.Options{Lease: time.Minute, Poll: time.Hour},
			func(_ context.Context, run *worker.Run, _ args) error {
				<-release
				return run.Next(kindA.New(args{}, nexjob.Options{Queue: "later"}))
			})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		// Another hand ends the attempt, as a recovery would.
		if _, err := b.store.Store.Settle(b.Context(), time.Now(), []nexjob.Settlement{{
			Lease: nexjob.Lease{Job: id, Fence: b.job(id).Fence}, As: nexjob.EndFailed, Error: "elsewhere",
		}}); err != nil {
			t.Fatal(err)
		}
		close(release)
		synctest.Wait()
		b.want(id, nexjob.Failed, 1, 0, 0)
		if h := w.Health(); h.StaleWritesRefused != 1 || len(b.find(nexjob.Query{}).Jobs) != 1 {
			t.Errorf("health %+v", h)
		}
	})
}

// One settlement that the storage cannot take does not hold up its neighbours.
func TestPoisonSettlementIsIsolated(t *testing.T) {
	bubble(t, func(b *bench) {
		poisoned := poison{storage: b.store, bad: make(map[nexjob.ID]bool)}
		w := worker.New(&poisoned, worker.Options{Logger: quiet(), Slots: 50, Lease: 3 * time.Second})
		worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error {
			time.Sleep(time.Second) // all at once
			return nil
		})
		var ids []nexjob.ID
		for range 50 {
			ids = append(ids, b.enqueue(nexjob.Options{}))
		}
		poisoned.bad[ids[7]] = true
		b.start(w)
		b.sleep(1500 * time.Millisecond)
		for i, id := range ids {
			want := nexjob.Succeeded
			if i == 7 {
				want = nexjob.Processing
			}
			b.want(id, want, 0, 0, 0)
		}
	})
}

// poison fails every settlement that holds a bad job, as a whole and for good.
type poison struct {
	*storage
	bad map[nexjob.ID]bool
}

func (p *poison) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	for i := range ends {
		if p.bad[ends[i].Lease.Job] {
			return nil, errors.New("a value that this engine cannot store")
		}
	}
	return p.storage.Settle(ctx, now, ends)
}

// B045: a settlement that the storage finds invalid fails the job by that name,
// without running it again.
func TestInvalidSettlementFailsTheJob(t *testing.T) {
	bubble(t, func(b *bench) {
		invalid := invalidSettle{b.store}
		w := worker.New(&invalid, worker.Options{Logger: quiet()})
		runs := 0
		worker.Handle(w, kindA, func(_ context.Context, run *worker.Run, _ args) error {
			runs++
			return run.SetResult("x\x00\xff")
		})
		b.start(w)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		if j := b.want(id, nexjob.Failed, 1, 0, 0); runs != 1 {
			t.Errorf("%d runs, reason %q", runs, j.Reason)
		}
	})
}

type invalidSettle struct{ *storage }

func (s *invalidSettle) Settle(
	ctx context.Context, now time.Time, ends []nexjob.Settlement,
) ([]nexjob.Settled, error) {
	if len(ends[0].Result) > 0 {
		return []nexjob.Settled{{Err: &nexjob.InvalidError{Field: "result", Why: "odd", Remedy: "none"}}}, nil
	}
	return s.storage.Settle(ctx, now, ends)
}

// What may not be added is refused when it is added, and the run goes on.
func TestNextAndResultAreChecked(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{}, func(_ context.Context, run *worker.Run, _ args) error {
			for name, err := range map[string]error{
				"own keys":      run.Next(kindA.New(args{}, nexjob.Options{IdempotencyKey: "\x00x"})),
				"bad queue":     run.Next(kindA.New(args{}, nexjob.Options{Queue: " "})),
				"no encoding":   run.SetResult(func() {}),
				"large results": run.SetResult(make([]byte, nexjob.MaxResult)),
			} {
				if err == nil {
					t.Errorf("%s: no error", name)
				}
			}
			if err := run.SetResult(1); err != nil {
				return err
			}
			return run.SetResult(2)
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		if j := b.want(id, nexjob.Succeeded, 0, 0, 0); string(j.Result) != "2" {
			t.Errorf("result %s", j.Result)
		}
	})
}

// Claims that fail are tried again with a back-off, and the worker says so.
func TestClaimsAreRetried(t *testing.T) {
	bubble(t, func(b *bench) {
		w, _ := b.run(worker.Options{Poll: time.Hour}, func(context.Context, *worker.Run, args) error { return nil })
		b.cut("claim", 0, 20*time.Second)
		id := b.enqueue(nexjob.Options{})
		b.sleep(20 * time.Second)
		if n := b.store.count("claim"); n < 5 || n > 20 {
			t.Errorf("%d claims in 20 s without a storage", n)
		}
		b.sleep(6 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if w.Health().LastClaim.IsZero() {
			t.Error("no claim is shown")
		}
	})
}
