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

// B018: a step's success is kept and its failure is not; a later attempt gets what
// was kept.
func TestStep(t *testing.T) {
	bubble(t, func(b *bench) {
		computed, runs := 0, 0
		quick := nexjob.KindOf[args]("a", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Second}})
		w := b.worker(worker.Options{})
		worker.Handle(w, quick, func(ctx context.Context, run *worker.Run, _ args) error {
			runs++
			got, err := worker.Step(ctx, run, "render", func(context.Context) (paid, error) {
				if computed++; computed == 1 {
					return paid{}, errTorn
				}
				return paid{"page"}, nil
			})
			if err == nil && got.ID != "page" {
				t.Errorf("got %v", got)
			}
			if err == nil && runs < 4 {
				err = errTorn
			}
			return err
		})
		b.start(w)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 3, 0, 0)
		if computed != 2 {
			t.Errorf("computed %d times", computed)
		}
	})
}

// A step belongs to the args; the operation goes on over a re-enqueue of the key.
func TestStepUnderOtherArgs(t *testing.T) {
	bubble(t, func(b *bench) {
		var computed []int
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, a args) error {
			got, err := worker.Step(ctx, run, "render", func(context.Context) (int, error) {
				computed = append(computed, a.N)
				return a.N, nil
			})
			if err != nil || got != a.N {
				t.Errorf("args %d: got %d, %v", a.N, got, err)
			}
			return worker.Permanent(errTorn)
		})
		for _, n := range []int{1, 2, 1} {
			b.add(kindA.New(args{n}, nexjob.Options{IdempotencyKey: "k"}))
			b.sleep(time.Second)
		}
		if len(computed) != 2 {
			t.Errorf("computed for %v", computed)
		}
	})
}

// A recorded value that no longer decodes is a permanent failure by name.
func TestStepWhoseCodeChanged(t *testing.T) {
	bubble(t, func(b *bench) {
		runs := 0
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			if runs++; runs == 1 {
				if _, err := worker.Step(ctx, run, "x", func(context.Context) (string, error) { return "text", nil }); err != nil {
					return err
				}
				return worker.RetryAfter(time.Second, errTorn)
			}
			_, err := worker.Step(ctx, run, "x", func(context.Context) (int, error) { return 1, nil })
			return err
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		if j := b.want(id, nexjob.Failed, 2, 0, 0); !strings.Contains(j.Reason, "the code changed") {
			t.Errorf("reason %q", j.Reason)
		}
	})
}

// A receipt whose answer was lost is asked for again; trouble that passes is waited
// out.
func TestReceiptIsRetried(t *testing.T) {
	bubble(t, func(b *bench) {
		b.store.set(func(s *storage) {
			s.after = func(method string) error {
				if method == "record confirmed" && s.count(method) < 3 {
					return nexjob.ErrOutcomeUnknown
				}
				return nil
			}
		})
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			_, err := worker.Step(ctx, run, "x", func(context.Context) (int, error) { return 1, nil })
			return err
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 0, 0, 0)
		if n := b.store.count("record confirmed"); n != 3 {
			t.Errorf("recorded %d times", n)
		}
	})
}

// A confirmation that cannot be written for a while is written later; one that
// never can leaves the outcome unknown, and the next attempt repeats under the key.
func TestConfirmationCannotBeWritten(t *testing.T) {
	for _, cut := range []time.Duration{5 * time.Second, 31 * time.Second} {
		bubble(t, func(b *bench) {
			p := &provider{b: b}
			b.store.set(func(s *storage) {
				s.before = func(method string) error {
					if (method == "record confirmed" || method == "renew") && b.at() < cut {
						return down()
					}
					return nil
				}
			})
			charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, RepeatableFor: time.Hour}, nil)
			id := b.enqueue(nexjob.Options{})
			b.sleep(5 * time.Minute)
			sends := 1
			if cut > 30*time.Second {
				sends = 2
			}
			if j := b.job(id); j.State != nexjob.Succeeded || len(p.keys) != sends || p.distinct() != 1 {
				t.Errorf("cut for %s: job %v (%s), sent at %v", cut, j.State, j.Reason, p.at)
			}
		})
	}
}

// B045: an answer that cannot be kept does not repeat the effect.
func TestAnswerThatCannotBeKept(t *testing.T) {
	tests := map[string]func() any{
		"does not encode": func() any { return func() {} },
		"too large":       func() any { return strings.Repeat("x", nexjob.MaxReceiptBytes) },
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				sent := 0
				b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
					_, err := worker.Effect[any]{
						Name: "charge", RepeatableFor: time.Hour,
						Send: func(context.Context, string) (any, error) { sent++; return answer(), nil },
					}.Do(ctx, run)
					return err
				})
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Minute)
				j := b.want(id, nexjob.Failed, 1, 0, 0)
				b.effect(id, nexjob.Confirmed)
				b.amend(nexjob.Action{Act: nexjob.ActRequeue}, nexjob.Query{})
				b.sleep(time.Minute)
				b.want(id, nexjob.Failed, 1, 0, 0)
				if sent != 1 || !strings.Contains(j.Reason, "could not be kept") {
					t.Errorf("sent %d times, reason %q", sent, j.Reason)
				}
			})
		})
	}
}

// A step or an effect under an open transaction could only wait for itself: it is
// refused at once. StepIn is part of the transaction.
func TestInTransaction(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		computed, runs := 0, 0
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			runs++
			err := memory.InTx(ctx, b.store.Store, func(tx *memory.Tx) error {
				_, err := worker.Effect[paid]{Name: "x", Send: p.send, AtMostOnce: true}.Do(ctx, run)
				if !errors.Is(err, nexjob.ErrInTransaction) {
					t.Errorf("effect: %v", err)
				}
				_, err = worker.Step(ctx, run, "x", func(context.Context) (int, error) { return 1, nil })
				if !errors.Is(err, nexjob.ErrInTransaction) {
					t.Errorf("step: %v", err)
				}
				got, err := worker.StepIn(ctx, run, tx, "x", func(context.Context) (int, error) {
					computed++
					return 7, nil
				})
				if err == nil && got != 7 {
					t.Errorf("step in the transaction: %d", got)
				}
				if err == nil && runs == 1 {
					err = errTorn // rolls back
				}
				return err
			})
			if err != nil || runs == 2 {
				return worker.RetryAfter(time.Second, err)
			}
			return nil
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 2, 0, 0)
		if computed != 2 || runs != 3 || len(p.keys) != 0 {
			t.Errorf("computed %d times in %d runs, sent %v", computed, runs, p.keys)
		}
	})
}

// Receipts of a worker that lost its lease are refused and its handler is told.
func TestReceiptOfStaleAttempt(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		w, _ := b.run(worker.Options{Poll: time.Hour}, func(ctx context.Context, run *worker.Run, _ args) error {
			if _, err := b.store.Store.Settle(ctx, time.Now(), []nexjob.Settlement{{
				Lease: nexjob.Lease{Job: run.JobID(), Fence: run.Fence()}, As: nexjob.EndFailed,
			}}); err != nil {
				t.Error(err)
			}
			_, err := worker.Effect[paid]{Name: "x", Send: p.send, AtMostOnce: true}.Do(ctx, run)
			if !errors.Is(err, nexjob.ErrLeaseLost) || !errors.Is(context.Cause(ctx), nexjob.ErrLeaseLost) {
				t.Errorf("effect answered %v, cause %v", err, context.Cause(ctx))
			}
			return err
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		b.want(id, nexjob.Failed, 1, 0, 0)
		if h := w.Health(); len(p.keys) != 0 || h.LeasesLost != 1 || h.StaleWritesRefused != 1 {
			t.Errorf("sent %v, health %+v", p.keys, h)
		}
	})
}
