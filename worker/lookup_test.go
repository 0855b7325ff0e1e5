package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// lookups answers verdicts in order; the last one stays.
func lookups(verdicts ...nexjob.Verdict) func(int) (paid, nexjob.Verdict, error) {
	return func(n int) (paid, nexjob.Verdict, error) {
		return paid{"found"}, verdicts[min(n, len(verdicts))-1], nil
	}
}

// near allows for the moments that a settlement and a claim take.
func near(got, want time.Duration) bool { return got >= want && got < want+100*time.Millisecond }

// What a look-up answers decides what becomes of an effect whose outcome is not
// known, and spends no try.
func TestLookup(t *testing.T) {
	tests := map[string]struct {
		lookup   func(n int) (paid, nexjob.Verdict, error)
		state    nexjob.State
		got      string
		sent     int
		looked   int
		earliest time.Duration // of the second send
	}{
		"applied":       {lookups(nexjob.Applied), nexjob.Succeeded, "found", 1, 1, 0},
		"applied later": {lookups(nexjob.StillUnknown, nexjob.Applied), nexjob.Succeeded, "found", 1, 2, 0},
		"not applied": {
			lookups(nexjob.NotApplied), nexjob.Succeeded, "p-1", 2, 2, 27*time.Second + time.Minute,
		},
		"a look-up that fails": {func(n int) (paid, nexjob.Verdict, error) {
			if n == 1 {
				return paid{}, nexjob.Applied, errTorn
			}
			return paid{"found"}, nexjob.Applied, nil
		}, nexjob.Succeeded, "found", 1, 2, 0},
		"a verdict for persons": {lookups(nexjob.Compensate), nexjob.Uncertain, "", 1, 4, 0},
		"still unknown":         {lookups(nexjob.StillUnknown), nexjob.Uncertain, "", 1, 4, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				p := &provider{b: b, answer: fails(1, errTorn), lookup: tt.lookup}
				var got paid
				charge(b, worker.Options{LookupLimit: 3, Poll: time.Minute}, worker.Effect[paid]{
					Name: "charge", Send: p.send, Lookup: p.look,
				}, func(_ int, paid paid) error { got = paid; return nil })
				id := b.enqueue(nexjob.Options{MaxAttempts: 1})
				b.sleep(time.Second / 2)
				if j := b.job(id); j.State != nexjob.Uncertain || !near(j.DueAt.Sub(b.began), time.Second) {
					t.Errorf("job %v, due after %s", j.State, j.DueAt.Sub(b.began))
				}
				b.sleep(3 * time.Hour)
				j := b.want(id, tt.state, 0, 0, 0)
				if got.ID != tt.got || len(p.keys) != tt.sent || len(p.looked) != tt.looked || p.distinct() != 1 {
					t.Errorf("got %q, sent %d times, looked %d times at %v", got.ID, len(p.keys), len(p.looked), p.looked)
				}
				// The first comes soon; the second when "not applied" first counts, 27 s for
				// the send and a minute after it; only then the back-off begins, with a minute.
				for i, want := range []time.Duration{time.Second, 87 * time.Second} {
					if i < len(p.looked) && !near(p.looked[i], want) {
						t.Errorf("looked at %v, want %s", p.looked, want)
					}
				}
				if len(p.looked) > 2 && (p.looked[2]-p.looked[1] < 50*time.Second || p.looked[2]-p.looked[1] > 71*time.Second) {
					t.Errorf("looked at %v, the third without the first step of the back-off", p.looked)
				}
				if tt.sent == 2 && p.at[1] < tt.earliest {
					t.Errorf("sent again after %s, before the first send could have been seen", p.at[1])
				}
				if tt.state == nexjob.Uncertain && !j.DueAt.IsZero() {
					t.Errorf("past its limit it is looked up again at %v", j.DueAt)
				}
			})
		})
	}
}

// NotApplied counts only if the question was asked late enough: an answer that took
// long may be older than the newest send's arrival.
func TestNotAppliedTooEarly(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: fails(1, errTorn)}
		p.lookup = func(int) (paid, nexjob.Verdict, error) {
			time.Sleep(100 * time.Second) // the first is asked before the time and answers after it
			return paid{}, nexjob.NotApplied, nil
		}
		charge(b, worker.Options{}, worker.Effect[paid]{
			Name: "charge", Send: p.send, RepeatableFor: time.Millisecond, Lookup: p.look,
		}, nil)
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Hour)
		b.want(id, nexjob.Succeeded, 1, 0, 0)
		if len(p.looked) != 2 || p.looked[0] > 10*time.Second || len(p.keys) != 2 || p.at[1] < p.looked[1] {
			t.Errorf("sent at %v, looked up at %v", p.at, p.looked)
		}
	})
}

// An unknown outcome is remembered: a handler that hides it behind another error
// cannot turn it into an ordinary failure.
func TestHiddenUnknownOutcome(t *testing.T) {
	bubble(t, func(b *bench) {
		p := &provider{b: b, answer: fails(1, errTorn)}
		b.run(worker.Options{}, func(ctx context.Context, run *worker.Run, _ args) error {
			_, err := worker.Effect[paid]{Name: "charge", Send: p.send, AtMostOnce: true}.Do(ctx, run)
			var still *nexjob.StillUnknownError
			if !errors.As(err, &still) || !errors.Is(err, errTorn) {
				t.Errorf("Do answered %v", err)
			}
			return errors.New("something else")
		})
		id := b.enqueue(nexjob.Options{})
		b.sleep(time.Minute)
		b.want(id, nexjob.Uncertain, 0, 0, 0)
	})
}

// A look-up whose handler fails before it asks is a look-up that could not tell: it
// spends no try and backs off.
func TestLookupThatDoesNotAsk(t *testing.T) {
	for _, err := range []error{nil, errTorn, worker.Permanent(errTorn)} {
		bubble(t, func(b *bench) {
			p := &provider{b: b, answer: fails(1, errTorn), lookup: lookups(nexjob.Applied)}
			runs := 0
			w := b.worker(worker.Options{LookupLimit: 4, Poll: time.Minute})
			worker.Handle(w, kindA, func(ctx context.Context, run *worker.Run, _ args) error {
				if runs++; runs > 1 {
					return err
				}
				_, err := worker.Effect[paid]{Name: "charge", Send: p.send, Lookup: p.look}.Do(ctx, run)
				return err
			})
			b.start(w)
			id := b.enqueue(nexjob.Options{})
			b.sleep(5 * time.Hour)
			j := b.want(id, nexjob.Uncertain, 0, 0, 0)
			if runs != 6 || // the send, an early look-up, and four that count
				!j.DueAt.IsZero() || len(p.keys) != 1 {
				t.Errorf("%d runs, due %v, sent %v", runs, j.DueAt, p.keys)
			}
		})
	}
}

// A cancel while an outcome is unknown is noted: a look-up settles the effect, and
// nothing more is sent.
func TestCancelWithUnknownOutcome(t *testing.T) {
	for _, verdict := range []nexjob.Verdict{nexjob.Applied, nexjob.NotApplied} {
		t.Run(verdict.String(), func(t *testing.T) {
			bubble(t, func(b *bench) {
				p := &provider{b: b, lookup: lookups(verdict)}
				effect := worker.Effect[paid]{Name: "charge", Lookup: p.look}
				effect.Send = func(ctx context.Context, key string) (paid, error) {
					_, _ = p.send(ctx, key)
					<-ctx.Done()
					return paid{}, ctx.Err()
				}
				other := worker.Effect[paid]{Name: "mail", Send: p.send, AtMostOnce: true}
				b.run(worker.Options{Lease: 30 * time.Second}, func(ctx context.Context, run *worker.Run, _ args) error {
					if _, err := effect.Do(ctx, run); err != nil {
						return err
					}
					_, err := other.Do(ctx, run)
					return err
				})
				id := b.enqueue(nexjob.Options{})
				b.sleep(time.Second)
				b.amend(nexjob.Action{Act: nexjob.ActCancel, By: "ann"}, nexjob.Query{})
				b.sleep(9500 * time.Millisecond) // it was told 9 s on, and the first look-up comes after 10
				if j := b.job(id); j.State != nexjob.Uncertain || j.Wished != nexjob.Cancelled {
					t.Errorf("job %v, wished %v", j.State, j.Wished)
				}
				b.sleep(time.Hour)
				if j := b.want(id, nexjob.Cancelled, 0, 0, 1); !strings.Contains(j.Reason, "ann") {
					t.Errorf("job %v: %s", j.State, j.Reason)
				}
				looked := 1
				if verdict == nexjob.NotApplied {
					looked = 2 // the first was too early for it
				}
				if len(p.keys) != 1 || len(p.looked) != looked {
					t.Errorf("sent %d times, looked %d times", len(p.keys), len(p.looked))
				}
			})
		})
	}
}
