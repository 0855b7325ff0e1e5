package worker_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

type paid struct {
	ID string `json:"id"`
}

// provider is an outside service: it notes each key that reaches it and answers as
// the test says.
type provider struct {
	b      *bench
	keys   []string
	at     []time.Duration
	answer func(n int) error // of the nth send, from 1
	lookup func(n int) (paid, nexjob.Verdict, error)
	looked []time.Duration
}

func (p *provider) send(_ context.Context, key string) (paid, error) {
	p.keys, p.at = append(p.keys, key), append(p.at, p.b.at())
	if p.answer != nil {
		if err := p.answer(len(p.keys)); err != nil {
			return paid{}, err
		}
	}
	return paid{"p-1"}, nil
}

func (p *provider) look(context.Context, string) (paid, nexjob.Verdict, error) {
	p.looked = append(p.looked, p.b.at())
	return p.lookup(len(p.looked))
}

// distinct returns how many different keys reached the provider.
func (p *provider) distinct() int { return len(slices.Compact(slices.Sorted(slices.Values(p.keys)))) }

var errTorn = errors.New("connection torn")

// fails answers an error to the first n sends.
func fails(n int, err error) func(int) error {
	return func(send int) error {
		if send <= n {
			return err
		}
		return nil
	}
}

// charge runs a handler that does one effect, then returns what after answers to
// each run, from 1.
func charge(b *bench, o worker.Options, e worker.Effect[paid], after func(run int, got paid) error) *worker.Worker {
	runs := 0
	quick := nexjob.KindOf[args]("a", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Second, Max: 8 * time.Second}})
	w := b.worker(o)
	worker.Handle(w, quick, func(ctx context.Context, run *worker.Run, _ args) error {
		runs++
		got, err := e.Do(ctx, run)
		if err != nil {
			return err
		}
		if after != nil {
			return after(runs, got)
		}
		return nil
	})
	b.start(w)
	return w
}

func (b *bench) effect(id nexjob.ID, state nexjob.EffectState) nexjob.Receipt {
	b.Helper()
	receipts := b.receipts(id)
	if len(receipts) == 0 {
		b.Fatal("no effect is recorded")
	}
	last := receipts[len(receipts)-1]
	if last.State != state {
		b.Errorf("the effect is %v (%s), want %v", last.State, last.Error, state)
	}
	return last
}

// A confirmed effect is not sent again: a later attempt gets the recorded answer.
func TestEffectHappensOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		var got []string
		w := charge(b, worker.Options{Lease: 30 * time.Second}, worker.Effect[paid]{
			Name: "charge", AtMostOnce: true,
			Send: func(ctx context.Context, key string) (paid, error) {
				intent := b.find(nexjob.Query{Of: nexjob.Effects}).Effects[0]
				deadline, ok := ctx.Deadline()
				if intent.State != nexjob.Intended || intent.OutsideKey != key || !ok ||
					deadline.After(b.began.Add(30*time.Second)) || !intent.SendBefore.Equal(deadline.UTC()) {
					t.Errorf("sent under deadline %v with intent %+v", deadline, intent)
				}
				return p.send(ctx, key)
			},
		}, func(run int, paid paid) error {
			if got = append(got, paid.ID); run < 3 {
				return errTorn
			}
			return nil
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 2, 0, 0)
		want := nexjob.OutsideKey(id, "charge", "", 0)
		if len(p.keys) != 1 || p.keys[0] != want || !slices.Equal(got, []string{"p-1", "p-1", "p-1"}) {
			t.Errorf("sent %v, got %v", p.keys, got)
		}
		if r := b.effect(id, nexjob.Confirmed); string(r.Value) != `{"id":"p-1"}` || w.Health().Retried != 2 {
			t.Errorf("receipt %+v", r)
		}
	})
}

// An effect that does not say what may be done in doubt, or cannot be right, is
// refused before anything is recorded or sent, for good.
func TestEffectIsCheckedBeforeItIsSent(t *testing.T) {
	send := func(context.Context, string) (paid, error) { panic("sent") }
	tests := map[string]struct {
		effect worker.Effect[paid]
		want   string
	}{
		"says nothing":   {worker.Effect[paid]{Name: "x", Send: send}, "set RepeatableFor"},
		"no send":        {worker.Effect[paid]{Name: "x", AtMostOnce: true}, "Send is nil"},
		"no name":        {worker.Effect[paid]{Send: send, AtMostOnce: true}, "invalid effect"},
		"bad item":       {worker.Effect[paid]{Name: "x", Item: " ", Send: send, AtMostOnce: true}, "invalid item"},
		"contradiction":  {worker.Effect[paid]{Name: "x", Send: send, AtMostOnce: true, RepeatableFor: 1}, "contradict"},
		"negative":       {worker.Effect[paid]{Name: "x", Send: send, RepeatableFor: -1}, "negative"},
		"odd request":    {worker.Effect[paid]{Name: "x", Send: send, AtMostOnce: true, Request: func() {}}, "does not encode"},
		"unclear object": {worker.Effect[paid]{Name: "x", Send: send, AtMostOnce: true, Request: "\xff"}, ""},
	}
	for name, tt := range tests {
		if tt.want == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				charge(b, worker.Options{}, tt.effect, nil)
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Second)
				if j := b.want(id, nexjob.Failed, 1, 0, 0); !strings.Contains(j.Reason, tt.want) {
					t.Errorf("reason %q lacks %q", j.Reason, tt.want)
				}
				if n := len(b.receipts(id)); n != 0 {
					t.Errorf("%d receipts are recorded", n)
				}
			})
		})
	}
}

// B020: an unknown outcome inside RepeatableFor is repeated under the same key.
func TestUnknownOutcomeIsRepeated(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: fails(3, errTorn)}
		charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, RepeatableFor: time.Hour}, nil)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 3, 0, 0)
		if len(p.keys) != 4 || p.distinct() != 1 {
			t.Errorf("sent %v", p.keys)
		}
	})
}

// Past RepeatableFor a repeat could be a second charge: it is not sent.
func TestRepeatWindowCloses(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: fails(9, errTorn)}
		charge(b, worker.Options{Lease: time.Second}, worker.Effect[paid]{
			Name: "charge", Send: p.send, RepeatableFor: 5 * time.Second,
		}, nil)
		id := b.enqueue(nexjob.Options{})
		b.sleep(10 * time.Minute)
		if j := b.job(id); j.State != nexjob.Uncertain || !j.DueAt.IsZero() || !strings.Contains(j.Reason, "still unknown") {
			t.Errorf("job %v due %v: %s", j.State, j.DueAt, j.Reason)
		}
		if last := p.at[len(p.at)-1]; last > 5*time.Second || len(p.at) < 2 || p.distinct() != 1 {
			t.Errorf("sent at %v", p.at)
		}
	})
}

// The last try with an unknown outcome does not end Failed.
func TestLastTryWithUnknownOutcome(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: fails(9, errTorn)}
		charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, RepeatableFor: time.Hour}, nil)
		id := b.enqueue(nexjob.Options{MaxAttempts: 2})
		b.sleep(time.Minute)
		if j := b.want(id, nexjob.Uncertain, 2, 0, 0); j.Wished != nexjob.Failed {
			t.Errorf("wished %v", j.Wished)
		}
	})
}

// AtMostOnce: whatever happens it is not sent twice, until a person rules.
func TestAtMostOnce(t *testing.T) {
	for _, how := range []string{"error", "panic", "permanent error"} {
		for _, verdict := range []nexjob.Verdict{nexjob.Applied, nexjob.NotApplied} {
			t.Run(how+" then "+verdict.String(), func(t *testing.T) {
				bubble(t, func(b *bench) {
					p := &provider{b: b, answer: func(n int) error {
						switch {
						case n > 1:
							return nil
						case how == "panic":
							panic("in Send")
						case how == "permanent error":
							return worker.Permanent(errTorn)
						}
						return errTorn
					}}
					var got paid
					charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, AtMostOnce: true},
						func(_ int, paid paid) error { got = paid; return nil })
					id := b.enqueue(nexjob.Options{})
					b.sleep(time.Hour)
					if j := b.job(id); j.State != nexjob.Uncertain || !j.DueAt.IsZero() || len(p.keys) != 1 {
						t.Fatalf("job %v, due %v, sent %v", j.State, j.DueAt, p.keys)
					}
					b.effect(id, nexjob.Intended)
					done := b.amend(nexjob.Action{
						Act: nexjob.ActResolve, By: "ann", Verdict: verdict, Value: []byte(`{"id":"seen"}`),
					}, nexjob.Query{})
					b.sleep(time.Second)
					if done.Done() != 1 || b.job(id).State != nexjob.Succeeded {
						t.Fatalf("resolved %+v, job %v", done, b.job(id).State)
					}
					want, sent := "seen", 1
					if verdict == nexjob.NotApplied {
						want, sent = "p-1", 2
					}
					if got.ID != want || len(p.keys) != sent || p.distinct() != 1 {
						t.Errorf("got %v, sent %v", got, p.keys)
					}
				})
			})
		}
	}
}

// A refusal finishes the key: a later try sends under the next one.
func TestRefusedUsesNextKey(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, err := range map[string]error{
		"refused": worker.Refused(errTorn), "not sent": worker.NotSent(errTorn), "dialling failed": dial,
		"name look-up failed": &net.DNSError{Err: "no such host"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				p := &provider{b: b, answer: fails(2, err)}
				charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, AtMostOnce: true}, nil)
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Minute)
				b.want(id, nexjob.Succeeded, 2, 0, 0)
				if len(p.keys) != 3 || p.distinct() != 3 {
					t.Errorf("sent %v", p.keys)
				}
				if receipts := b.receipts(id); len(receipts) != 3 || receipts[0].State != nexjob.Refused {
					t.Errorf("receipts %+v", receipts)
				}
			})
		})
	}
}

// A repeat that was not sent says nothing of the send before it: the key stays.
func TestNotSentOnRepeatKeepsTheKey(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: func(n int) error {
			switch n {
			case 1:
				return errTorn // may have arrived
			case 2:
				return &net.OpError{Op: "dial", Err: errTorn}
			case 3:
				return worker.NotSent(errTorn)
			}
			return nil
		}}
		charge(b, worker.Options{}, worker.Effect[paid]{Name: "charge", Send: p.send, RepeatableFor: time.Hour}, nil)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Succeeded, 3, 0, 0)
		if len(p.keys) != 4 || p.distinct() != 1 {
			t.Errorf("sent %v", p.keys)
		}
	})
}

// An effect that stands under another request is refused before anything leaves.
func TestEffectMismatch(t *testing.T) {
	for _, state := range []nexjob.EffectState{nexjob.Confirmed, nexjob.Intended} {
		t.Run(state.String(), func(t *testing.T) {
			bubble(t, func(b *bench) {
				p := &provider{b: b}
				if state == nexjob.Intended {
					p.answer = fails(1, errTorn)
				}
				runs := 0
				quick := nexjob.KindOf[args]("a", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Second}})
				w := b.worker(worker.Options{})
				worker.Handle(w, quick, func(ctx context.Context, run *worker.Run, _ args) error {
					runs++
					_, err := worker.Effect[paid]{
						Name: "charge", Send: p.send, RepeatableFor: time.Hour, Request: map[string]int{"run": runs},
					}.Do(ctx, run)
					if err == nil {
						err = errTorn
					}
					return err
				})
				b.start(w)
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Minute)
				j := b.job(id)
				if runs != 2 || len(p.keys) != 1 || !strings.Contains(j.Reason, "now asked for under") {
					t.Errorf("%d runs, sent %v, reason %q", runs, p.keys, j.Reason)
				}
				want := nexjob.Failed
				if state == nexjob.Intended {
					want = nexjob.Uncertain
				}
				b.want(id, want, 2, 0, 0)
			})
		})
	}
}

// Two effects or steps of one name in one run are an error; Item tells turns apart.
func TestNamesAreUniqueInARun(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			for _, item := range []string{"", "1", "2"} {
				if _, err := (worker.Effect[paid]{Name: "x", Item: item, Send: p.send, AtMostOnce: true}).Do(ctx, run); err != nil {
					return err
				}
			}
			_, err := worker.Step(ctx, run, "x", func(context.Context) (int, error) { return 1, nil })
			return err
		})
		id := b.enqueue(nexjob.Options{})
		synctest.Wait()
		if j := b.want(id, nexjob.Failed, 1, 0, 0); !strings.Contains(j.Reason, "used this name already") {
			t.Errorf("reason %q", j.Reason)
		}
		if p.distinct() != 3 {
			t.Errorf("sent %v", p.keys)
		}
	})
}

// A stop in the middle of a send leaves the outcome unknown and spends no try; the
// next attempt repeats it under the same key.
func TestStopDuringSend(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		effect := worker.Effect[paid]{Name: "charge", RepeatableFor: time.Hour}
		effect.Send = func(ctx context.Context, key string) (paid, error) {
			if _, err := p.send(ctx, key); err != nil || len(p.keys) > 1 {
				return paid{"p-2"}, err
			}
			<-ctx.Done()
			return paid{}, ctx.Err()
		}
		handler := func(ctx context.Context, run *worker.Run, _ args) error {
			_, err := effect.Do(ctx, run)
			return err
		}
		_, stop := b.run(worker.Options{ShutdownTimeout: 10 * time.Second}, handler)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		b.want(id, nexjob.Enqueued, 0, 0, 1)
		b.effect(id, nexjob.Intended)
		b.run(worker.Options{}, handler)
		b.sleep(time.Second)
		b.want(id, nexjob.Succeeded, 0, 0, 1)
		if len(p.keys) != 2 || p.distinct() != 1 {
			t.Errorf("sent %v", p.keys)
		}
	})
}

// A send that lasts as long as the lease is cut before the lease ends.
func TestSendEndsBeforeTheLease(t *testing.T) {
	bubble(t, func(b *bench) {
		var ended time.Duration
		p := &provider{b: b}
		charge(b, worker.Options{Lease: 10 * time.Second}, worker.Effect[paid]{
			Name: "charge", AtMostOnce: true,
			Send: func(ctx context.Context, key string) (paid, error) {
				_, _ = p.send(ctx, key)
				<-ctx.Done()
				ended = b.at()
				return paid{}, ctx.Err()
			},
		}, nil)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Uncertain, 0, 0, 0)
		if ended != 9*time.Second || len(p.keys) != 1 {
			t.Errorf("the send was cut after %s", ended)
		}
	})
}

// What has happened is recorded even if the handler was told to stop meanwhile.
func TestConfirmedAfterTheContextEnded(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b}
		w := charge(b, worker.Options{Grace: 10 * time.Second}, worker.Effect[paid]{
			Name: "charge", AtMostOnce: true,
			Send: func(ctx context.Context, key string) (paid, error) {
				<-ctx.Done()
				return p.send(ctx, key)
			},
		}, func(int, paid) error { return errTorn })
		id := b.enqueue(nexjob.Options{Timeout: time.Second, MaxAttempts: 2})
		b.sleep(time.Minute)
		b.want(id, nexjob.Failed, 2, 0, 0)
		b.effect(id, nexjob.Confirmed)
		if len(p.keys) != 1 || w.Health().TimedOut != 0 {
			t.Errorf("sent at %v", p.at)
		}
	})
}

// With a context that has ended, or too little of the lease left, nothing is
// recorded and nothing is sent.
func TestEffectThatCannotBeSentInTime(t *testing.T) {
	for _, late := range []bool{false, true} {
		bubble(t, func(b *bench) {
			p := &provider{b: b}
			b.cut("renew", 0, time.Hour)
			b.run(worker.Options{Lease: 10 * time.Second}, func(ctx context.Context, run *worker.Run, _ args) error {
				if late {
					time.Sleep(8500 * time.Millisecond)
				} else {
					ended, cancel := context.WithCancel(ctx)
					cancel()
					ctx = ended
				}
				_, err := worker.Effect[paid]{Name: "charge", Send: p.send, AtMostOnce: true}.Do(ctx, run)
				return err
			})
			id := b.enqueue(nexjob.Options{})
			b.sleep(9 * time.Second)
			tries := 1
			if late { // that the lease could not be renewed is no fault of the handler's
				tries = 0
			}
			b.want(id, nexjob.Scheduled, tries, 0, 0)
			if n := len(b.receipts(id)); n != 0 || len(p.keys) != 0 {
				t.Errorf("%d receipts, sent at %v", n, p.at)
			}
		})
	}
}
