package nexjobtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/nexjobtest"
	"github.com/nexjob/nexjob/worker"
)

type invoice struct {
	ID int `json:"id"`
}

var (
	sendInvoice = nexjob.KindOf[invoice]("send-invoice", nexjob.Defaults{Queue: "mail", Timeout: time.Minute})
	archive     = nexjob.KindOf[invoice]("archive", nexjob.Defaults{})
)

func TestRun(t *testing.T) {
	boom := errors.New("boom")
	tests := map[string]struct {
		handler func(ctx context.Context, run *worker.Run, in invoice) error
		want    nexjob.State
		check   func(t *testing.T, r nexjobtest.Result)
	}{
		"success": {func(ctx context.Context, run *worker.Run, in invoice) error {
			number, err := worker.Step(ctx, run, "number", func(context.Context) (int, error) { return in.ID * 10, nil })
			if err != nil {
				return err
			}
			if err := run.Next(archive.New(in, nexjob.Options{})); err != nil {
				return err
			}
			return run.SetResult(number)
		}, nexjob.Succeeded, func(t *testing.T, r nexjobtest.Result) {
			var number int
			if err := r.Decode(&number); err != nil || number != 420 || len(r.Receipts) != 1 {
				t.Errorf("result %d, %v, receipts %+v", number, err, r.Receipts)
			}
			if len(r.Followers) != 1 || r.Followers[0].Kind != "archive" {
				t.Errorf("followers %+v", r.Followers)
			}
		}},
		"error": {
			func(context.Context, *worker.Run, invoice) error { return boom },
			nexjob.Scheduled, func(t *testing.T, r nexjobtest.Result) {
				if !errors.Is(r.Err, boom) || r.Job.Tries != 1 {
					t.Errorf("error %v after %d tries", r.Err, r.Job.Tries)
				}
			},
		},
		"permanent error": {
			func(context.Context, *worker.Run, invoice) error { return worker.Permanent(boom) },
			nexjob.Failed, nil,
		},
		"snooze that is due at once": {
			func(context.Context, *worker.Run, invoice) error { return worker.Snooze(0) },
			nexjob.Scheduled, func(t *testing.T, r nexjobtest.Result) {
				if r.Job.Snoozes != 1 {
					t.Errorf("%d snoozes", r.Job.Snoozes)
				}
			},
		},
		"panic": {
			func(context.Context, *worker.Run, invoice) error { panic("ouch") },
			nexjob.Scheduled, func(t *testing.T, r nexjobtest.Result) {
				var panicked *worker.PanicError
				if !errors.As(r.Err, &panicked) || panicked.Value != "ouch" ||
					!strings.Contains(panicked.Stack, "run_test.go") {
					t.Errorf("error %v", r.Err)
				}
			},
		},
		"an effect in doubt": {func(ctx context.Context, run *worker.Run, _ invoice) error {
			_, err := worker.Effect[worker.None]{
				Name: "mail", AtMostOnce: true,
				Send: worker.NoResult(func(context.Context, string) error { return boom }),
			}.Do(ctx, run)
			return err
		}, nexjob.Uncertain, func(t *testing.T, r nexjobtest.Result) {
			if len(r.Receipts) != 1 || r.Receipts[0].State != nexjob.Intended {
				t.Errorf("receipts %+v", r.Receipts)
			}
		}},
		"a time-out": {func(ctx context.Context, _ *worker.Run, _ invoice) error {
			<-ctx.Done()
			return ctx.Err()
		}, nexjob.Scheduled, func(t *testing.T, r nexjobtest.Result) {
			if !errors.Is(r.Err, context.DeadlineExceeded) {
				t.Errorf("error %v", r.Err)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runs := 0
				handler := func(ctx context.Context, run *worker.Run, in invoice) error {
					runs++
					return tt.handler(ctx, run, in)
				}
				r := nexjobtest.Run(t, sendInvoice, handler, invoice{42})
				if r.State != tt.want || runs != 1 || r.Job.Queue != "mail" {
					t.Errorf("state %v after %d runs, reason %q", r.State, runs, r.Job.Reason)
				}
				if tt.check != nil {
					tt.check(t, r)
				}
			})
		})
	}
}

// In real time it takes no longer than the handler does.
func TestRunInRealTime(t *testing.T) {
	began := time.Now()
	r := nexjobtest.Run(t, archive, func(context.Context, *worker.Run, invoice) error { return nil }, invoice{1})
	if took := time.Since(began); r.State != nexjob.Succeeded || took > 5*time.Second {
		t.Errorf("state %v after %s", r.State, took)
	}
}

// Without a result Decode says how the job ended, not that JSON is missing.
// A handler that completes its job in another engine's transaction learns how to test it.
func TestRunRefusesAnotherEngine(t *testing.T) {
	r := nexjobtest.Run(t, sendInvoice, func(ctx context.Context, run *worker.Run, _ invoice) error {
		return run.CompleteIn(ctx, foreignTx{})
	}, invoice{})
	if !errors.Is(r.Err, nexjob.ErrUnsupported) || !strings.Contains(r.Err.Error(), "not one of elsewhere; test with a store of that engine") {
		t.Error(r.Err)
	}
}

type foreignTx struct{ nexjob.Tx }

func (foreignTx) Engine() string { return "elsewhere" }

func TestDecodeWithoutAResult(t *testing.T) {
	kind := nexjob.KindOf[struct{}]("none", nexjob.Defaults{})
	result := nexjobtest.Run(t, kind, func(context.Context, *worker.Run, struct{}) error { return nil }, struct{}{})
	var into any
	if err := result.Decode(&into); err == nil || !strings.Contains(err.Error(), "the job is Succeeded and left no result") {
		t.Errorf("decode: %v", err)
	}
}

// A job that expires before its handler could be called ends the run too.
func TestRunOfAJobThatExpires(t *testing.T) {
	k := nexjob.KindOf[int]("short-lived", nexjob.Defaults{DeadlineAfter: time.Nanosecond})
	synctest.Test(t, func(t *testing.T) {
		r := nexjobtest.Run(t, k, func(context.Context, *worker.Run, int) error { t.Error("it was called"); return nil }, 1)
		if r.State != nexjob.Expired || r.Err != nil {
			t.Errorf("state %v, error %v", r.State, r.Err)
		}
	})
}
