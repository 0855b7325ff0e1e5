package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/worker"
)

// errCommit is what a driver answers when the connection breaks in the commit.
var errCommit = errors.New("commit: connection torn")

// Whether the success stands is what the storage says after the handler returned,
// whatever the handler returned.
func TestCompleteIn(t *testing.T) {
	inTx := func(ctx context.Context, b *bench, run *worker.Run, end error) error {
		return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
			if err := run.CompleteIn(ctx, tx); err != nil {
				return err
			}
			return end
		})
	}
	tests := map[string]struct {
		handler func(ctx context.Context, b *bench, run *worker.Run) error
		state   nexjob.State
		tries   int
		reason  string
		late    int64
	}{
		"committed": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return inTx(ctx, b, run, nil)
		}, nexjob.Succeeded, 0, "", 0},
		"committed, then an error": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return errors.Join(inTx(ctx, b, run, nil), errTorn)
		}, nexjob.Succeeded, 0, "", 1},
		"committed, then a panic": {func(ctx context.Context, b *bench, run *worker.Run) error {
			if err := inTx(ctx, b, run, nil); err != nil {
				return err
			}
			panic("after the commit")
		}, nexjob.Succeeded, 0, "", 1},
		"committed, and the answer lost": {func(ctx context.Context, b *bench, run *worker.Run) error {
			if err := inTx(ctx, b, run, nil); err != nil {
				return err
			}
			return errCommit
		}, nexjob.Succeeded, 0, "", 1},
		"rolled back with an error": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return inTx(ctx, b, run, errTorn)
		}, nexjob.Scheduled, 1, "connection torn", 0},
		"rolled back with a permanent error": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return inTx(ctx, b, run, worker.Permanent(errTorn))
		}, nexjob.Failed, 1, "connection torn", 0},
		"rolled back in silence": {func(ctx context.Context, b *bench, run *worker.Run) error {
			_ = inTx(ctx, b, run, errTorn)
			return nil
		}, nexjob.Scheduled, 1, nexjob.ErrNotCompleted.Error(), 0},
		"a panic in the transaction": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
				if err := run.CompleteIn(ctx, tx); err != nil {
					return err
				}
				panic("inside")
			})
		}, nexjob.Scheduled, 1, "panicked: inside", 0},
		"a second time after nil": {func(ctx context.Context, b *bench, run *worker.Run) error {
			_ = inTx(ctx, b, run, errTorn)
			err := inTx(ctx, b, run, nil)
			if err == nil || !strings.Contains(err.Error(), "nothing may follow") {
				b.Errorf("the second CompleteIn: %v", err)
			}
			return err
		}, nexjob.Scheduled, 1, "nothing may follow", 0},
		"a second time after an error": {func(ctx context.Context, b *bench, run *worker.Run) error {
			ended, err := b.store.Begin(ctx)
			if err != nil {
				return err
			}
			_ = ended.Rollback()
			if err := run.CompleteIn(ctx, ended); err == nil {
				b.Error("CompleteIn in an ended transaction answered nil")
			}
			return inTx(ctx, b, run, nil)
		}, nexjob.Succeeded, 0, "", 0},
		"no transaction, in silence": {func(ctx context.Context, b *bench, run *worker.Run) error {
			_ = run.CompleteIn(ctx, nil)
			return nil
		}, nexjob.Scheduled, 1, nexjob.ErrNotCompleted.Error(), 0},
		"no transaction": {func(ctx context.Context, b *bench, run *worker.Run) error {
			return run.CompleteIn(ctx, nil)
		}, nexjob.Scheduled, 1, "is nil", 0},
		"something after it": {func(ctx context.Context, b *bench, run *worker.Run) error {
			if err := inTx(ctx, b, run, nil); err != nil {
				return err
			}
			_, effect := worker.Effect[paid]{
				Name: "x", AtMostOnce: true,
				Send: func(context.Context, string) (paid, error) { panic("sent") },
			}.Do(ctx, run)
			_, step := worker.Step(ctx, run, "y", func(context.Context) (int, error) { panic("computed") })
			for _, err := range []error{effect, step, run.Next(kindA.New(args{}, nexjob.Options{})), run.SetResult(1)} {
				if err == nil || !strings.Contains(err.Error(), "nothing may follow") {
					b.Errorf("after CompleteIn: %v", err)
				}
			}
			return nil
		}, nexjob.Succeeded, 0, "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				w, stop := b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
					if err := run.Next(kindA.New(args{}, nexjob.Options{Queue: "later"})); err != nil {
						return err
					}
					return tt.handler(ctx, b, run)
				})
				id := b.enqueue(nexjob.Options{})
				synctest.Wait()
				j := b.want(id, tt.state, tt.tries, 0, 0)
				if !strings.Contains(j.Reason, tt.reason) {
					t.Errorf("reason %q lacks %q", j.Reason, tt.reason)
				}
				jobs := 1
				if tt.state == nexjob.Succeeded {
					jobs = 2
				}
				if n := len(b.find(nexjob.Query{}).Jobs); n != jobs {
					t.Errorf("%d jobs are stored, want %d", n, jobs)
				}
				if h := w.Health(); h.Busy != 0 || h.Unsettled != 0 || h.LateResults != tt.late {
					t.Errorf("health %+v", h)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// While it is completing, a job is not renewed, its handler is not told that its
// lease is lost, and it is not stuck, however long its transaction takes.
func TestCompletingOutlivesTheLease(t *testing.T) {
	bubble(t, func(b *bench) {
		w, _ := b.run(worker.Options{Lease: 3 * time.Second, Grace: time.Second, Timeout: 2 * time.Second},
			func(ctx context.Context, run *worker.Run, _ args) error {
				return memory.InTx(context.WithoutCancel(ctx), b.store.Store, func(tx *memory.Tx) error {
					if err := run.CompleteIn(context.WithoutCancel(ctx), tx); err != nil {
						return err
					}
					time.Sleep(10 * time.Second)
					if errors.Is(context.Cause(ctx), nexjob.ErrLeaseLost) {
						t.Error("the handler was told that its lease is lost")
					}
					return nil
				})
			})
		id := b.enqueue(nexjob.Options{})
		b.sleep(9 * time.Second)
		if h := w.Health(); len(h.Stuck) != 0 || h.Busy != 1 || h.LeasesLost != 0 {
			t.Errorf("health %+v", h)
		}
		if n := b.store.count("renew"); n != 0 {
			t.Errorf("%d renewals of a job that is completing", n)
		}
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if h := w.Health(); h.Succeeded != 1 || h.LeasesLost != 0 || h.TimedOut != 0 {
			t.Errorf("health %+v", h)
		}
	})
}

// While an effect has no outcome the job cannot succeed, so its business rows must not
// commit either: a verdict "not applied" runs the handler again, which would write
// them twice. Nothing of the transaction is touched, whatever the handler makes of
// the error.
func TestCompleteInWithAnUnknownEffect(t *testing.T) {
	for _, name := range []string{"error returned", "error swallowed"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				w, _ := b.run(worker.Options{Poll: time.Hour}, func(ctx context.Context, run *worker.Run, _ args) error {
					_, _ = worker.Effect[paid]{
						Name: "charge", AtMostOnce: true,
						Send: func(context.Context, string) (paid, error) { return paid{}, errTorn },
					}.Do(ctx, run)
					return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
						err := run.CompleteIn(ctx, tx)
						if err == nil {
							t.Error("CompleteIn answered nil for a job that cannot succeed")
						}
						if name == "error swallowed" {
							return nil
						}
						return err
					})
				})
				id := b.enqueue(nexjob.Options{})
				synctest.Wait()
				if j := b.want(id, nexjob.Uncertain, 0, 0, 0); j.Wished != 0 {
					t.Errorf("the end %v is noted, which a verdict would let come true without the business rows", j.Wished)
				}
				if h := w.Health(); h.Succeeded != 0 || h.Uncertain != 1 {
					t.Errorf("health %+v", h)
				}
			})
		})
	}
}

// A transaction that took longer than the lease and then failed is a failed try, and
// no crash: nobody else has claimed the job.
func TestCompletionThatFailsAfterTheLease(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		w, _ := b.run(worker.Options{Lease: 3 * time.Second}, func(ctx context.Context, run *worker.Run, _ args) error {
			if runs++; runs > 1 {
				return nil
			}
			return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
				if err := run.CompleteIn(ctx, tx); err != nil {
					return err
				}
				time.Sleep(10 * time.Second)
				return errTorn
			})
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(11 * time.Second)
		if j := b.want(id, nexjob.Scheduled, 1, 0, 0); !strings.Contains(j.Reason, nexjob.ErrNotCompleted.Error()) {
			t.Errorf("reason %q", j.Reason)
		}
		if h := w.Health(); h.LetGo != 0 || h.Retried != 1 {
			t.Errorf("health %+v", h)
		}
	})
}

// An attempt that has lost its lease is refused inside the transaction, so that the
// business rows roll back.
func TestCompleteInOfStaleAttempt(t *testing.T) {
	bubble(t, func(b *bench) {
		w, _ := b.run(worker.Options{Poll: time.Hour}, func(ctx context.Context, run *worker.Run, _ args) error {
			if _, err := b.store.Store.Settle(ctx, time.Now(), []nexjob.Settlement{{
				Lease: nexjob.Lease{Job: run.JobID(), Fence: run.Fence()}, As: nexjob.EndFailed, Error: "elsewhere",
			}}); err != nil {
				t.Error(err)
			}
			return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
				err := run.CompleteIn(ctx, tx)
				if !errors.Is(err, nexjob.ErrLeaseLost) {
					t.Errorf("CompleteIn answered %v", err)
				}
				return err
			})
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		if j := b.want(id, nexjob.Failed, 1, 0, 0); j.Reason != "elsewhere" || w.Health().LeasesLost != 1 {
			t.Errorf("reason %q, health %+v", j.Reason, w.Health())
		}
	})
}

// The look after the handler is repeated while the storage cannot be reached, and
// the slot is held meanwhile.
func TestCompletionIsVerifiedLater(t *testing.T) {
	bubble(t, func(b *bench) {
		w, _ := b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			err := memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error { return run.CompleteIn(ctx, tx) })
			return errors.Join(err, errCommit)
		})
		b.cut("find", 0, 5*time.Second)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		if h := w.Health(); h.Busy != 1 || h.Succeeded != 0 {
			t.Errorf("health while cut: %+v", h)
		}
		b.sleep(6 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if h := w.Health(); h.Busy != 0 || h.Succeeded != 1 {
			t.Errorf("health: %+v", h)
		}
	})
}

// A job whose transaction is open when the stop's time is over is named; it may yet
// commit.
func TestStopWhileCompleting(t *testing.T) {
	bubble(t, func(b *bench) {
		w, stop := b.run(worker.Options{ShutdownTimeout: 5 * time.Second},
			func(ctx context.Context, run *worker.Run, _ args) error {
				return memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
					if err := run.CompleteIn(ctx, tx); err != nil {
						return err
					}
					time.Sleep(20 * time.Second)
					return nil
				})
			})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		took, err := b.timed(stop)
		var left *worker.StopError
		if !errors.As(err, &left) || left.Left[0].Job != id || left.Left[0].GivenBack ||
			!strings.Contains(err.Error(), "transaction") || took > 6*time.Second {
			t.Errorf("Run returned %v after %s", err, took)
		}
		b.sleep(10 * time.Second)
		if stuck := w.Health().Stuck; len(stuck) != 0 {
			t.Errorf("stuck while completing: %+v", stuck)
		}
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
	})
}

// A CompleteIn that the storage has refused leaves the attempt where it was: under
// its time-out, and under its lease.
func TestRefusedCompletionIsUnderTheTimeoutAgain(t *testing.T) {
	bubble(t, func(b *bench) {
		slow := slowJoin{b.store}
		w := worker.New(&slow, worker.Options{Logger: quiet(), Grace: time.Second})
		runs := 0
		worker.Handle(w, kindA, func(ctx context.Context, run *worker.Run, _ args) error {
			if runs++; runs > 1 {
				return nil
			}
			if err := run.CompleteIn(context.WithoutCancel(ctx), new(memory.Tx)); !errors.Is(err, errTorn) {
				t.Errorf("CompleteIn answered %v", err)
			}
			time.Sleep(time.Minute)
			return nil
		})
		b.start(w)
		id := b.enqueue(nexjob.Options{Timeout: time.Second})
		b.sleep(20 * time.Second)
		if j := b.want(id, nexjob.Scheduled, 1, 0, 0); !strings.Contains(j.Reason, "timed out") {
			t.Errorf("reason %q", j.Reason)
		}
		b.sleep(2 * time.Minute)
		b.want(id, nexjob.Succeeded, 1, 0, 0)
	})
}

// slowJoin settles nothing inside a transaction, and takes 10 s to say so.
type slowJoin struct{ *storage }

func (s *slowJoin) Join(nexjob.Tx) (nexjob.Joined, error) { return slowJoined{}, nil }

type slowJoined struct{ nexjob.Joined }

func (slowJoined) Settle(context.Context, time.Time, []nexjob.Settlement) ([]nexjob.Settled, error) {
	time.Sleep(10 * time.Second)
	return nil, errTorn
}
