package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// B023: a handler that outlives its first lease by far runs once, because the lease
// is renewed; also while every slot is busy.
func TestLeaseIsRenewed(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int64
		for range 2 {
			b.run(worker.Options{Lease: 2 * time.Second, Slots: 3}, func(context.Context, *worker.Run, args) error {
				runs.Add(1)
				time.Sleep(10 * time.Second)
				return nil
			})
		}
		for range 6 {
			b.enqueue(nexjob.Options{})
		}
		b.sleep(time.Minute)
		for _, j := range b.find(nexjob.Query{}).Jobs {
			b.want(j.ID, nexjob.Succeeded, 0, 0, 0)
		}
		if runs.Load() != 6 {
			t.Errorf("%d runs of 6 jobs", runs.Load())
		}
	})
}

// What Renew answers reaches the handler as the cause of its context's end.
func TestRenewalAnswers(t *testing.T) {
	const lease = 3 * time.Second
	tests := []struct {
		name  string
		harm  func(b *bench) // a second after the job has started
		cause error
		told  time.Duration // latest time at which the handler is told
		state nexjob.State
	}{
		{"lost to another worker", func(b *bench) {
			b.store.set(func(s *storage) {
				s.renewal = func(answers []nexjob.Renewal) {
					for i := range answers {
						answers[i].Status = nexjob.Lost
					}
				}
			})
		}, nexjob.ErrLeaseLost, 2 * time.Second, nexjob.Processing},
		{"storage unreachable for good", func(b *bench) {
			b.store.set(func(s *storage) {
				s.before = func(method string) error {
					if method == "renew" {
						return down()
					}
					return nil
				}
			})
		}, nexjob.ErrLeaseLost, 4 * time.Second, nexjob.Processing},
		{"storage unreachable for half a lease", func(b *bench) {
			b.store.set(func(s *storage) {
				s.before = func(method string) error {
					if method == "renew" && b.at() < 2500*time.Millisecond {
						return down()
					}
					return nil
				}
			})
		}, nil, 0, nexjob.Succeeded},
		{"busy once", func(b *bench) {
			b.store.set(func(s *storage) {
				s.renewal = func(answers []nexjob.Renewal) {
					for i := range answers {
						if b.at() < 2500*time.Millisecond {
							answers[i] = nexjob.Renewal{Status: nexjob.Busy}
						}
					}
				}
			})
		}, nil, 0, nexjob.Succeeded},
		{"busy past the lease's end, then lost", func(b *bench) {
			b.store.set(func(s *storage) {
				s.renewal = func(answers []nexjob.Renewal) {
					for i := range answers {
						answers[i].Status = nexjob.Busy
						if b.at() > 6*time.Second {
							answers[i].Status = nexjob.Lost
						}
					}
				}
			})
		}, nexjob.ErrLeaseLost, 6500 * time.Millisecond, nexjob.Processing},
		{"busy past the lease's end, then unreachable", func(b *bench) {
			b.store.set(func(s *storage) {
				s.renewal = func(answers []nexjob.Renewal) { answers[0].Status = nexjob.Busy }
				s.before = func(method string) error {
					if method == "renew" && b.at() > 6*time.Second {
						return down()
					}
					return nil
				}
			})
		}, nexjob.ErrLeaseLost, 7 * time.Second, nexjob.Processing},
		{"asked to stop", func(b *bench) {
			b.amend(nexjob.Action{Act: nexjob.ActCancel}, nexjob.Query{})
		}, nexjob.ErrStopped, 2 * time.Second, nexjob.Cancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var cause error
				var told time.Duration
				w, stop := b.run(worker.Options{Lease: lease}, func(ctx context.Context, _ *worker.Run, _ args) error {
					select {
					case <-ctx.Done():
						cause, told = context.Cause(ctx), b.at()
						return ctx.Err()
					case <-time.After(10 * time.Second):
						return nil
					}
				})
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Second - time.Millisecond)
				tt.harm(b)
				if tt.state == nexjob.Succeeded {
					b.sleep(20 * time.Second)
				} else {
					b.sleep(tt.told - b.at() + time.Millisecond)
				}
				if !errors.Is(cause, tt.cause) || told > tt.told {
					t.Errorf("handler was told %v after %s; want %v by %s", cause, told, tt.cause, tt.told)
				}
				if j := b.job(id); j.State != tt.state || j.Tries != 0 {
					t.Errorf("job %v after %d tries", j.State, j.Tries)
				}
				if lost := w.Health().LeasesLost; (lost == 1) != errors.Is(tt.cause, nexjob.ErrLeaseLost) {
					t.Errorf("%d leases lost are counted", lost)
				}
				b.store.set(func(s *storage) { s.before, s.renewal = nil, nil })
				_ = stop()
			})
		})
	}
}

// A cancelled job whose handler finishes all the same has succeeded.
func TestStopAndSuccess(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{Lease: 3 * time.Second}, func(ctx context.Context, _ *worker.Run, _ args) error {
			<-ctx.Done()
			return nil
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		b.amend(nexjob.Action{Act: nexjob.ActCancel}, nexjob.Query{})
		b.sleep(2 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
	})
}

// B004, B027: a job whose worker was killed runs again although it had one try and
// although its own key is held by itself; the key stays taken meanwhile.
func TestKilledWorkerCostsNoTry(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.enqueue(nexjob.Options{IdempotencyKey: "k", MaxAttempts: 1})
		if n := len(b.deadClaim(30*time.Second, 5)); n != 1 {
			t.Fatalf("the dead worker got %d jobs", n)
		}
		var ran time.Duration
		b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { ran = b.at(); return nil })
		b.sleep(29 * time.Second)
		if answer := b.answer(kindA.New(args{}, nexjob.Options{IdempotencyKey: "k"})); answer.ID != id {
			t.Errorf("another enqueue of the key: %+v", answer)
		}
		b.sleep(20 * time.Second)
		b.want(id, nexjob.Succeeded, 0, 1, 0)
		if ran < 30*time.Second || ran > 42*time.Second {
			t.Errorf("it ran again after %s", ran)
		}
	})
}

// B028: a job that kills its worker every time ends after the crash limit.
func TestCrashLimit(t *testing.T) {
	bubble(t, func(b *bench) {
		bad := b.enqueue(nexjob.Options{})
		for range 3 {
			for len(b.deadClaim(time.Second, 3)) == 0 && b.job(bad).State.Active() {
				b.sleep(time.Second)
			}
		}
		good := b.add(kindA.New(args{1}, nexjob.Options{}))
		b.run(worker.Options{Lease: time.Second, CrashLimit: 3}, func(_ context.Context, _ *worker.Run, a args) error {
			if a.N != 1 {
				t.Error("the bad job ran")
			}
			return nil
		})
		b.sleep(time.Minute)
		if j := b.want(bad, nexjob.Failed, 0, 3, 0); j.Reason != "worker lost" {
			t.Errorf("reason %q", j.Reason)
		}
		b.want(good, nexjob.Succeeded, 0, 0, 0)
	})
}

// B031: jobs that crashed twice come back after a back-off, not at the head.
func TestRecoveredJobsDoNotStarveOthers(t *testing.T) {
	bubble(t, func(b *bench) {
		bad := []nexjob.ID{b.enqueue(nexjob.Options{}), b.enqueue(nexjob.Options{})}
		b.deadClaim(time.Second, 5)
		for len(b.deadClaim(time.Second, 5)) == 0 { // recovers, and takes them again at once
			b.sleep(500 * time.Millisecond)
		}
		for range 10 {
			b.add(kindA.New(args{1}, nexjob.Options{}))
		}
		var good atomic.Int64
		b.run(worker.Options{Slots: 2, Lease: time.Second}, func(_ context.Context, _ *worker.Run, a args) error {
			if n := good.Add(int64(a.N)); a.N == 0 && n < 10 {
				t.Error("a job that crashed twice ran before the good ones")
			}
			return nil
		})
		b.sleep(time.Minute)
		for _, id := range bad {
			b.want(id, nexjob.Succeeded, 0, 2, 0)
		}
		if good.Load() != 10 {
			t.Errorf("%d good jobs ran", good.Load())
		}
	})
}

// B026: a handler that ignores its time-out loses its attempt, not its slot; the
// job is tried again, and the late result is refused.
func TestHandlerIgnoresTimeout(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		retry := nexjob.KindOf[args]("a", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Second}})
		w := b.worker(worker.Options{Slots: 2, Lease: 3 * time.Second, Grace: 2 * time.Second})
		worker.Handle(w, retry, func(ctx context.Context, run *worker.Run, _ args) error {
			if runs++; runs == 1 {
				time.Sleep(time.Minute)
				if context.Cause(ctx) != worker.ErrTimeout { //nolint:errorlint // the cause itself
					t.Errorf("cause %v", context.Cause(ctx))
				}
				if err := run.SetResult("late"); !errors.Is(err, nexjob.ErrLeaseLost) {
					t.Errorf("SetResult of an ended attempt: %v", err)
				}
			}
			return nil
		})
		stop := b.start(w)
		id := b.enqueue(nexjob.Options{Timeout: time.Second})
		b.sleep(2 * time.Second)
		if h := w.Health(); len(h.Stuck) != 0 {
			t.Errorf("stuck within the grace: %+v", h.Stuck)
		}
		b.sleep(8 * time.Second)
		j := b.want(id, nexjob.Succeeded, 1, 0, 0)
		if len(j.Attempts) != 2 || j.Attempts[0].Ending != nexjob.EndRetry || j.Attempts[1].Fence <= j.Attempts[0].Fence {
			t.Errorf("attempts %+v", j.Attempts)
		}
		h := w.Health()
		if len(h.Stuck) != 1 || h.Stuck[0].Job != id || h.Busy != 1 || h.TimedOut != 1 {
			t.Errorf("health %+v", h)
		}
		b.sleep(time.Minute)
		if h := w.Health(); len(h.Stuck) != 0 || h.Busy != 0 || h.LateResults != 1 {
			t.Errorf("health at the end %+v", h)
		}
		b.want(id, nexjob.Succeeded, 1, 0, 0)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A handler that heeds its time-out fails the try with that reason.
func TestTimeoutIsHeeded(t *testing.T) {
	bubble(t, func(b *bench) {
		b.run(worker.Options{Timeout: time.Second}, func(ctx context.Context, _ *worker.Run, _ args) error {
			<-ctx.Done()
			return ctx.Err()
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(2 * time.Second)
		if j := b.want(id, nexjob.Scheduled, 1, 0, 0); j.Reason != "worker: attempt timed out: context deadline exceeded" {
			t.Errorf("reason %q", j.Reason)
		}
	})
}

// A claim whose answer took more than a third of the lease runs only if it can be
// renewed; else it is given back and costs nothing.
func TestLateClaim(t *testing.T) {
	for _, renewable := range []bool{true, false} {
		bubble(t, func(b *bench) {
			late := true
			b.store.set(func(s *storage) {
				s.after = func(method string) error {
					if method == "claim" && late && b.at() > 0 {
						late = false
						time.Sleep(990 * time.Millisecond)
						return nil
					}
					return nil
				}
				s.before = func(method string) error {
					if method == "renew" && !renewable {
						return down()
					}
					return nil
				}
			})
			b.sleep(time.Second)
			id := b.enqueue(nexjob.Options{})
			w, _ := b.run(worker.Options{Lease: 2940 * time.Millisecond}, func(context.Context, *worker.Run, args) error {
				return nil
			})
			b.sleep(time.Second)
			h := w.Health()
			if renewable {
				b.want(id, nexjob.Succeeded, 0, 0, 0)
			} else {
				b.want(id, nexjob.Succeeded, 0, 0, 1)
			}
			if (h.ClaimsDropped == 0) != renewable {
				t.Errorf("renewable %v: %d claims dropped", renewable, h.ClaimsDropped)
			}
		})
	}
}

// The worker serves queues in order, or by weight.
func TestQueueOrder(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		bubble(t, func(b *bench) {
			var order []string
			queues := []worker.Queue{{Name: "one"}, {Name: "two"}}
			if weighted {
				queues[0].Weight, queues[1].Weight = 1, 4
			}
			for range 100 {
				b.enqueue(nexjob.Options{Queue: "two"})
				b.enqueue(nexjob.Options{Queue: "one"})
			}
			b.run(worker.Options{Slots: 1, Queues: queues, Weighted: weighted},
				func(_ context.Context, run *worker.Run, _ args) error {
					order = append(order, run.Queue())
					return nil
				})
			b.sleep(time.Minute)
			twos := 0
			for _, q := range order[:100] {
				if q == "two" {
					twos++
				}
			}
			if len(order) != 200 || !weighted && twos != 0 || weighted && (twos < 60 || twos > 95) {
				t.Errorf("weighted %v: %d of the first 100 of %d are of queue two", weighted, twos, len(order))
			}
		})
	}
}

// How long the job of a worker that died waits, as Options.Lease says.
func TestADeadWorkersJobWaits(t *testing.T) {
	const lease = 30 * time.Second
	for name, tt := range map[string]struct {
		alone       time.Duration // until there is another worker
		options     worker.Options
		least, most time.Duration // from then on
	}{
		"another worker is there":          {0, worker.Options{Lease: lease}, lease, lease + 2*time.Second},
		"another worker comes in the time": {20 * time.Second, worker.Options{Lease: lease}, lease / 3, lease / 3 * 2},
		"another worker comes an hour on":  {time.Hour, worker.Options{Lease: lease}, lease / 3, lease + 2*time.Second},
		"it polls seldom":                  {0, worker.Options{Lease: lease, Poll: lease}, lease, 3*lease + 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := b.enqueue(nexjob.Options{})
				b.deadClaim(lease, 5)
				b.sleep(tt.alone)
				var ran time.Duration
				b.run(tt.options, func(context.Context, *worker.Run, args) error {
					ran = b.at() - tt.alone
					return nil
				})
				b.sleep(10 * lease)
				b.want(id, nexjob.Succeeded, 0, 1, 0)
				if ran < tt.least || ran > tt.most {
					t.Errorf("it ran after %s, want %s to %s", ran, tt.least, tt.most)
				}
			})
		})
	}
}
