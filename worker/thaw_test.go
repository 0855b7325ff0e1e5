package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
)

// sleeper is a storage on a machine that goes to sleep when an effect's intent is to be
// recorded, or has been.
type sleeper struct {
	*memory.Store
	before, after func()
	clocks        atomic.Int64
}

func (s *sleeper) Clock(ctx context.Context) (time.Time, error) {
	s.clocks.Add(1)
	return s.Store.Clock(ctx)
}

func (s *sleeper) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	if receipts[0].State != nexjob.Intended {
		return s.Store.Record(ctx, now, receipts)
	}
	defer s.after()
	s.before()
	return s.Store.Record(ctx, now, receipts)
}

// B085: a worker whose machine has slept does not send under the deadline from before its
// sleep. It reads the storage's clock again, and a later attempt sends, once.
func TestNothingIsSentAfterASleep(t *testing.T) {
	type fall = func(time.Duration)
	none := func(fall, time.Duration) {}
	sleep := func(f fall, d time.Duration) { f(d) }
	for name, tt := range map[string]struct {
		handler, before, after func(fall, time.Duration)
		slept                  time.Duration
		sent                   int // in which attempt
	}{
		"before the intent":       {sleep, none, none, time.Hour, 2},
		"while it is recorded":    {none, sleep, none, time.Hour, 2},
		"between intent and send": {none, none, sleep, time.Hour, 2},
		"for less than the lease": {none, none, sleep, 5 * time.Second, 2},
		"no longer than a moment": {none, none, sleep, 900 * time.Millisecond, 1},
		"its clock goes back":     {none, none, sleep, -900 * time.Millisecond, 1},
		"it never sleeps":         {none, none, none, 0, 1},
		"for days":                {none, none, sleep, 50 * time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The bubble's clock knows nothing of the sleep, so the host's goes ahead only
				// for what was reckoned before: until the first attempt has ended.
				var asleep, ahead atomic.Int64
				storage := func() time.Time { return time.Now().Add(time.Duration(asleep.Load())) }
				host := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				attempts := 0
				first := func(f func(fall, time.Duration)) {
					if attempts == 1 {
						f(func(d time.Duration) { asleep.Store(int64(d)); ahead.Store(int64(d)) }, tt.slept)
					}
				}
				store := &sleeper{Store: memory.New(memory.Options{Clock: storage})}
				store.before, store.after = func() { first(tt.before) }, func() { first(tt.after) }
				w := New(store, Options{Poll: 10 * time.Second, Logger: slog.New(slog.DiscardHandler)})
				w.board.wall = host
				kind := nexjob.KindOf[struct{}]("k", nexjob.Defaults{})
				var sent []int
				Handle(w, kind, func(ctx context.Context, run *Run, _ struct{}) error {
					attempts++
					clocks := store.clocks.Load()
					first(tt.handler)
					_, err := Effect[int]{Name: "charge", AtMostOnce: true, Send: func(context.Context, string) (int, error) {
						sent = append(sent, attempts)
						return 1, nil
					}}.Do(ctx, run)
					ahead.Store(0)
					if tt.sent == 2 && attempts == 1 && store.clocks.Load() == clocks {
						t.Error("the storage's clock was not read again")
					}
					return err
				})
				ctx, stop := context.WithCancel(t.Context())
				stopped := make(chan error)
				go func() { stopped <- w.Run(ctx) }()
				client := nexjob.NewClient(store, nexjob.ClientOptions{})
				answer, err := client.Enqueue(ctx, kind.New(struct{}{}, nexjob.Options{}))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if len(sent) != 1 || sent[0] != tt.sent {
					t.Errorf("sent in attempts %v, want %d", sent, tt.sent)
				}
				if j, err := client.Job(ctx, answer.ID); err != nil || j.State != nexjob.Succeeded {
					t.Errorf("%v, job %v: %s", err, j.State, j.Reason)
				}
				if err := client.Close(ctx); err != nil {
					t.Error(err)
				}
				stop()
				if err := <-stopped; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestNothingStartsAfterASleep: a job that waited for a slot while the machine slept is
// given back.
func TestNothingStartsAfterASleep(t *testing.T) {
	b := newBoard()
	a := &attempt{ends: time.Now().Add(time.Hour)}
	b.keep([]*attempt{a}, time.Now().Add(time.Minute))
	b.wall = func() time.Time { return time.Now().Add(2 * time.Second) }
	if late := b.next(1, func(*attempt) { t.Error("it was started") }); len(late) != 1 {
		t.Errorf("late are %v", late)
	}
}
