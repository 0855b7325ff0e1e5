package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// timed calls stop and returns what it answered and how long it took.
func (b *bench) timed(stop func() error) (took time.Duration, err error) {
	began := time.Now()
	err = stop()
	took = time.Since(began)
	synctest.Wait()
	return took, err
}

// A stop waits for a handler that ends by itself, claims nothing more, and leaves
// its context alone.
func TestStopWaits(t *testing.T) {
	bubble(t, func(b *bench) {
		_, stop := b.run(worker.Options{Slots: 1}, func(ctx context.Context, _ *worker.Run, _ args) error {
			time.Sleep(20 * time.Second)
			return ctx.Err()
		})
		id, next := b.enqueue(nexjob.Options{}), b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		took, err := b.timed(stop)
		if err != nil || took != 19*time.Second {
			t.Errorf("Run returned %v after %s", err, took)
		}
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if j := b.want(next, nexjob.Enqueued, 0, 0, 0); j.Started {
			t.Error("the second job was claimed in the stop")
		}
	})
}

// A handler that heeds its context gives its job back: due at once, no try spent.
func TestStopInterrupts(t *testing.T) {
	tests := map[string]struct {
		err   func(ctx context.Context) error
		state nexjob.State
		tries int
		given int
	}{
		"error of the context": {func(ctx context.Context) error { return ctx.Err() }, nexjob.Enqueued, 0, 1},
		"cause wrapped as permanent": {
			func(ctx context.Context) error { return worker.Permanent(context.Cause(ctx)) }, nexjob.Enqueued, 0, 1,
		},
		"any error": {func(context.Context) error { return errors.New("torn") }, nexjob.Enqueued, 0, 1},
		"a permanent error of its own": {
			func(context.Context) error { return worker.Permanent(errors.New("bad")) }, nexjob.Failed, 1, 0,
		},
		"success":  {func(context.Context) error { return nil }, nexjob.Succeeded, 0, 0},
		"a snooze": {func(context.Context) error { return worker.Snooze(time.Hour) }, nexjob.Scheduled, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				_, stop := b.run(worker.Options{}, func(ctx context.Context, _ *worker.Run, _ args) error {
					<-ctx.Done()
					if !errors.Is(context.Cause(ctx), nexjob.ErrShutdown) {
						t.Errorf("cause %v", context.Cause(ctx))
					}
					return tt.err(ctx)
				})
				id := b.enqueue(nexjob.Options{})
				synctest.Wait()
				if took, err := b.timed(stop); err != nil || took != 27*time.Second {
					t.Errorf("Run returned %v after %s", err, took)
				}
				b.want(id, tt.state, tt.tries, 0, tt.given)
			})
		})
	}
}

// B053: a handler that ignores everything does not hold up the stop, which names
// the job and gives it back; its late result is refused.
func TestStopIsOnTime(t *testing.T) {
	bubble(t, func(b *bench) {
		w, stop := b.run(worker.Options{ShutdownTimeout: 5 * time.Second},
			func(context.Context, *worker.Run, args) error {
				time.Sleep(time.Minute)
				return nil
			})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		took, err := b.timed(stop)
		var left *worker.StopError
		if !errors.As(err, &left) || len(left.Left) != 1 || left.Left[0].Job != id || !left.Left[0].GivenBack ||
			!strings.Contains(err.Error(), id.String()) {
			t.Errorf("Run returned %v", err)
		}
		if took > 5*time.Second {
			t.Errorf("Run returned after %s", took)
		}
		b.want(id, nexjob.Enqueued, 0, 0, 1)
		other, _ := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { return nil })
		b.sleep(time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 1)
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 0, 0, 1)
		if h := w.Health(); h.LateResults != 1 || h.Running || other.Health().Succeeded != 1 {
			t.Errorf("health %+v", h)
		}
	})
}

// A stop while the storage is down is on time too, and says what is left.
func TestStopWithoutStorage(t *testing.T) {
	bubble(t, func(b *bench) {
		_, stop := b.run(worker.Options{ShutdownTimeout: 5 * time.Second, Lease: time.Minute},
			func(context.Context, *worker.Run, args) error { return nil })
		synctest.Wait()
		b.cut("settle", 0, time.Hour)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		took, err := b.timed(stop)
		if err == nil || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), "settlement") {
			t.Errorf("Run returned %v", err)
		}
		if took > 5200*time.Millisecond {
			t.Errorf("Run returned after %s", took)
		}
	})
}

// Jobs of a claim that was under way when the stop began are given back unrun.
func TestStopDuringClaim(t *testing.T) {
	bubble(t, func(b *bench) {
		b.store.set(func(s *storage) {
			s.after = func(method string) error {
				if method == "claim" {
					time.Sleep(2 * time.Second)
				}
				return nil
			}
		})
		id := b.enqueue(nexjob.Options{})
		w, stop := b.run(worker.Options{}, func(context.Context, *worker.Run, args) error {
			t.Error("the job ran")
			return nil
		})
		b.sleep(time.Second)
		if took, err := b.timed(stop); err != nil || took > 2*time.Second {
			t.Errorf("Run returned %v after %s", err, took)
		}
		b.want(id, nexjob.Enqueued, 0, 0, 1)
		if w.Health().ClaimsDropped != 1 {
			t.Error("the dropped claim is not counted")
		}
	})
}

// Whatever is under way, a stop takes its own time and no more, and what it left runs
// elsewhere.
func TestStopsOfAnyLength(t *testing.T) {
	for _, d := range []time.Duration{1, time.Millisecond, 30 * time.Millisecond, time.Second} {
		for name, h := range map[string]func(ctx context.Context, run *worker.Run) error{
			"deaf":  func(context.Context, *worker.Run) error { time.Sleep(2 * time.Minute); return nil },
			"heeds": func(ctx context.Context, _ *worker.Run) error { <-ctx.Done(); return ctx.Err() },
			"sends": func(ctx context.Context, run *worker.Run) error {
				_, err := worker.Effect[paid]{
					Name: "x", AtMostOnce: true,
					Send: func(context.Context, string) (paid, error) { time.Sleep(2 * time.Minute); return paid{}, nil },
				}.Do(ctx, run)
				return err
			},
			"has a goroutine": func(_ context.Context, run *worker.Run) error {
				run.Go(func() error { time.Sleep(2 * time.Minute); return nil })
				return nil
			},
		} {
			t.Run(name+" "+d.String(), func(t *testing.T) {
				bubble(t, func(b *bench) {
					w, stop := b.run(worker.Options{ShutdownTimeout: d, Slots: 5},
						func(ctx context.Context, run *worker.Run, _ args) error { return h(ctx, run) })
					for range 7 {
						b.enqueue(nexjob.Options{})
					}
					b.sleep(time.Second)
					took, err := b.timed(stop)
					if took > d+1200*time.Millisecond || name != "heeds" && err == nil || name == "heeds" && err != nil && d > 1 {
						t.Errorf("Run returned %v after %s", err, took)
					}
					if h := w.Health(); h.Running || h.Stopping {
						t.Errorf("health %+v", h)
					}
					b.run(worker.Options{}, func(context.Context, *worker.Run, args) error { return nil })
					b.sleep(5 * time.Minute)
					for _, j := range b.find(nexjob.Query{}).Jobs {
						want := nexjob.Succeeded
						if name == "sends" && j.Started && j.OpenEffects > 0 {
							want = nexjob.Uncertain
						}
						if j.State != want || j.Tries != 0 {
							t.Errorf("job %v after %d tries: %s", j.State, j.Tries, j.Reason)
						}
					}
				})
			})
		}
	}
}
