package guide_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/nexjobtest"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Payment struct {
	ID string `json:"id"`
}

type Report struct {
	Month string `json:"month"`
}

var Render = nexjob.KindOf[Report]("render-report", nexjob.Defaults{
	MaxAttempts: 3,
	Timeout:     time.Minute,
	Retry:       nexjob.Retry{Initial: 10 * time.Second, Multiplier: 3, Max: time.Hour},
})

// render waits for the month's books, makes a report of them, and says how it went.
func render(ctx context.Context, run *worker.Run, r Report) error {
	switch state, err := books(ctx, r.Month); {
	case err != nil:
		return err // tried again after 10 s, then 30 s
	case state == "open":
		return worker.Snooze(time.Hour) // come back later; costs nothing
	case state == "busy":
		return worker.RetryAfter(5*time.Minute, errors.New("the books are being closed")) // costs a try
	case state == "":
		return worker.Permanent(fmt.Errorf("there is no month %q", r.Month)) // no try can mend it
	}
	return nil
}

func books(_ context.Context, month string) (string, error) {
	if month == "2026-13" {
		return "", nil
	}
	if month == "offline" {
		return "", errors.New("books: connection refused")
	}
	return month, nil // the test's word
}

func TestRender(t *testing.T) {
	for month, want := range map[string]nexjob.State{
		"closed":  nexjob.Succeeded,
		"open":    nexjob.Scheduled, // it would run again: Run works one attempt
		"busy":    nexjob.Scheduled,
		"offline": nexjob.Scheduled,
		"2026-13": nexjob.Failed,
	} {
		result := nexjobtest.Run(t, Render, render, Report{Month: month})
		if result.State != want {
			t.Errorf("%s: %s, %v", month, result.State, result.Err)
		}
	}
}

// A test of a minute's time-out takes no minute: in a bubble of synctest time is free.
func TestRenderTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := nexjobtest.Run(t, Render, func(ctx context.Context, _ *worker.Run, _ Report) error {
			<-ctx.Done()
			return ctx.Err()
		}, Report{})
		if result.State != nexjob.Scheduled || !strings.HasPrefix(result.Job.Reason, "worker: attempt timed out") {
			t.Errorf("%s: %q", result.State, result.Job.Reason)
		}
	})
}

func TestRenderPanics(t *testing.T) {
	result := nexjobtest.Run(t, Render, func(context.Context, *worker.Run, Report) error { panic("no paper") }, Report{})
	if result.State != nexjob.Scheduled || !strings.HasPrefix(result.Job.Reason, "worker: handler panicked: no paper\n\ngoroutine") {
		t.Errorf("%s: %q", result.State, result.Job.Reason)
	}
}

// The default waits, shortest and longest.
func Example_waits() {
	var whole time.Duration
	for tries := 1; tries < nexjob.DefaultMaxAttempts; tries++ {
		shortest, longest := nexjob.Retry{}.After(tries, 0), nexjob.Retry{}.After(tries, 1)
		fmt.Println("after try", tries, "wait", shortest, "to", longest)
		whole += (shortest + longest) / 2
	}
	fmt.Println("ten tries take about", whole.Round(time.Minute))
	// Output:
	// after try 1 wait 16s to 1m16s
	// after try 2 wait 31s to 2m1s
	// after try 3 wait 1m36s to 3m36s
	// after try 4 wait 4m31s to 7m1s
	// after try 5 wait 10m40s to 13m40s
	// after try 6 wait 21m51s to 25m21s
	// after try 7 wait 40m16s to 44m16s
	// after try 8 wait 1h8m31s to 1h13m1s
	// after try 9 wait 1h49m36s to 1h54m36s
	// ten tries take about 4h31m0s
}

// gateway is a payment provider over HTTP that honours idempotency keys.
type gateway struct {
	url string
}

// send charges under a key, and says what is known of the outcome.
func (g gateway) send(ctx context.Context, key string, c Charge) (payment Payment, err error) {
	body, err := json.Marshal(c)
	if err != nil {
		return payment, worker.NotSent(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, bytes.NewReader(body)) // ctx: see below
	if err != nil {
		return payment, worker.NotSent(err)
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return payment, err // not connected: known as not sent; else nobody knows
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
		err = json.NewDecoder(response.Body).Decode(&payment) // an answer cut short: nobody knows
		return payment, err
	case http.StatusPaymentRequired: // declined, and it will be declined again
		return payment, worker.Permanent(worker.Refused(errors.New("card declined")))
	case http.StatusTooManyRequests: // turned away at the door; an earlier call may have come through
		err = worker.NotSent(errors.New(response.Status))
		if seconds, no := strconv.Atoi(response.Header.Get("Retry-After")); no == nil {
			err = worker.RetryAfter(time.Duration(seconds)*time.Second, err)
		}
		return payment, err
	}
	return payment, errors.New(response.Status) // 409 in progress, 500, 502, …: nobody knows
}

func (g gateway) charge(ctx context.Context, run *worker.Run, c Charge) error {
	payment, err := worker.Effect[Payment]{
		Name:          "charge",
		RepeatableFor: 24 * time.Hour,
		Send: func(ctx context.Context, key string) (Payment, error) {
			return g.send(ctx, key, c)
		},
	}.Do(ctx, run)
	if err != nil {
		return err
	}
	return run.SetResult(payment)
}

func TestGateway(t *testing.T) {
	for _, tt := range []struct {
		status int
		job    nexjob.State
		effect nexjob.EffectState
	}{
		{http.StatusOK, nexjob.Succeeded, nexjob.Confirmed},
		{http.StatusPaymentRequired, nexjob.Failed, nexjob.Refused},
		{http.StatusTooManyRequests, nexjob.Scheduled, nexjob.Refused},
		{http.StatusInternalServerError, nexjob.Scheduled, nexjob.Intended},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(`{"id": "P-1"}`))
		}))
		result := nexjobtest.Run(t, ChargeCard, gateway{server.URL}.charge, Charge{OrderID: 42, Cents: 1999})
		server.Close()
		if result.State != tt.job || result.Receipts[0].State != tt.effect {
			t.Errorf("%d: the job is %s, the effect %s", tt.status, result.State, result.Receipts[0].State)
		}
		result = nexjobtest.Run(t, ChargeCard, gateway{server.URL}.charge, Charge{OrderID: 42, Cents: 1999})
		if result.State != nexjob.Scheduled || result.Receipts[0].State != nexjob.Refused {
			t.Errorf("closed: the job is %s, the effect %s", result.State, result.Receipts[0].State)
		}
	}
}

// A provider that charges, answers 500, and then turns the next call away, is not asked
// under another key: it would charge again.
func TestTurnedAwayAfterALostAnswer(t *testing.T) {
	charged := make(map[string]int)
	answers := []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := answers[0]
		answers = answers[1:]
		if status != http.StatusTooManyRequests {
			charged[r.Header.Get("Idempotency-Key")]++
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"id": "P-1"}`))
	}))
	defer server.Close()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
	k := nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Millisecond}})
	stop := serve(store, k, gateway{server.URL}.charge)
	answer, err := client.Enqueue(t.Context(), k.New(Charge{OrderID: 42, Cents: 1999}, nexjob.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	state := end(client, answer.ID)
	stop()
	if state != "Succeeded" || len(charged) != 1 {
		t.Errorf("%s, charged under %d keys", state, len(charged))
	}
}

// What an effect without a word of what the provider offers meets.
func TestEffectThatSaysNothing(t *testing.T) {
	result := nexjobtest.Run(t, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
		_, err := worker.Effect[Payment]{
			Name: "charge", Send: func(context.Context, string) (Payment, error) { return Payment{}, nil },
		}.Do(ctx, run)
		return err
	}, Charge{})
	if result.State != nexjob.Failed || !strings.Contains(result.Job.Reason, "it does not say what may be done") {
		t.Errorf("%s: %q", result.State, result.Job.Reason)
	}
}

// What cannot do harm twice may be sent again for as long as there are durations.
func TestRepeatableForLong(t *testing.T) {
	result := nexjobtest.Run(t, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
		_, err := worker.Effect[worker.None]{
			Name: "put", RepeatableFor: nexjob.MaxDuration,
			Send: worker.NoResult(func(context.Context, string) error { return errors.New("500") }),
		}.Do(ctx, run)
		return err
	}, Charge{})
	if result.State != nexjob.Scheduled || result.Receipts[0].State != nexjob.Intended {
		t.Errorf("%s, %v", result.State, result.Receipts)
	}
}

// A Send has a deadline before the lease's end.
func TestSendHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nexjobtest.Run(t, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
			time.Sleep(9 * time.Second) // just before the renewal
			_, err := worker.Effect[Payment]{
				Name: "charge", AtMostOnce: true, Send: func(ctx context.Context, _ string) (Payment, error) {
					deadline, _ := ctx.Deadline()
					if left := time.Until(deadline); left < 17*time.Second || left > 19*time.Second {
						t.Errorf("%s are left", left)
					}
					return Payment{}, nil
				},
			}.Do(ctx, run)
			return err
		}, Charge{})
	})
}

// The numbers of a report are computed once, although a later part of the job fails.
func Example_step() {
	store, client, done := open("")
	defer done()
	k := nexjob.KindOf[Report]("report", nexjob.Defaults{Retry: nexjob.Retry{Initial: time.Millisecond}})
	stop := serve(store, k, func(ctx context.Context, run *worker.Run, r Report) error {
		total, err := worker.Step(ctx, run, "total", func(ctx context.Context) (int, error) {
			fmt.Println("adding up", r.Month)
			return 1999, nil // a long computation
		})
		if err != nil {
			return err
		}
		if run.Try() == 1 {
			return errors.New("the printer is on fire")
		}
		fmt.Println("printed", total, "in try", run.Try())
		return nil
	})
	defer stop()
	answer, err := client.Enqueue(context.Background(), k.New(Report{Month: "2026-11"}, nexjob.Options{}))
	fail(err)
	fmt.Println(end(client, answer.ID))
	// Output:
	// adding up 2026-11
	// printed 1999 in try 2
	// Succeeded
}

// mail sends a mail, and asks the mailbox for the Message-ID before it sends it again.
func (m *mailbox) mail(ctx context.Context, run *worker.Run, c Customer) error {
	_, err := worker.Effect[worker.None]{
		Name: "mail",
		Send: worker.NoResult(func(ctx context.Context, key string) error {
			return m.send(ctx, key+"@shop.example", c.Email)
		}),
		Lookup: func(ctx context.Context, key string) (worker.None, nexjob.Verdict, error) {
			found, err := m.has(ctx, key+"@shop.example")
			if err != nil {
				return worker.None{}, nexjob.StillUnknown, err // asked again later
			}
			if found {
				return worker.None{}, nexjob.Applied, nil
			}
			return worker.None{}, nexjob.NotApplied, nil // sent again under the same key
		},
		LookupAfter: time.Minute, // how long the mailbox may take to show a mail
	}.Do(ctx, run)
	return err
}

// mailbox is a mail server that loses the connection each time, but takes the mails
// after the first.
type mailbox struct {
	sent atomic.Int64
	kept string
}

func (m *mailbox) send(_ context.Context, id, _ string) error {
	if m.sent.Add(1) > 1 {
		m.kept = id
	}
	return errors.New("smtp: connection reset")
}

func (m *mailbox) has(_ context.Context, id string) (bool, error) { return m.kept == id, nil }

// The first mail is lost with the connection, the second one arrives; neither is known
// at once. The look-ups find that out, at the times that the page names.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		client := nexjob.NewClient(store, nexjob.ClientOptions{Logger: quiet()})
		var box mailbox
		stop := serve(store, WelcomeMail, box.mail)
		answer, err := client.Enqueue(t.Context(), WelcomeMail.New(Customer{Email: "ann@example.com"}, nexjob.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			sends int64
			least time.Duration
		}{{1, 0}, {1, 80 * time.Second}, {2, 0}} {
			job, err := client.Wait(t.Context(), answer.ID)
			if err != nil || job.State != nexjob.Uncertain || box.sent.Load() != want.sends {
				t.Fatalf("%s after %d sends, %v: %s", job.State, box.sent.Load(), err, job.Reason)
			}
			wait := time.Until(job.DueAt)
			if wait < want.least || wait > want.least+10*time.Second {
				t.Errorf("after %d sends the next look-up comes after %s", want.sends, wait)
			}
			time.Sleep(wait + time.Second/2)
		}
		job, err := client.Wait(t.Context(), answer.ID)
		if err != nil || job.State != nexjob.Succeeded || box.sent.Load() != 2 || job.Tries != 0 {
			t.Errorf("%s after %d sends and %d tries, %v", job.State, box.sent.Load(), job.Tries, err)
		}
		stop()
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Nobody can tell whether the letter left: a person finds out and says so.
func Example_verdict() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	stop := serve(store, LegalNotice, func(ctx context.Context, run *worker.Run, n Notice) error {
		number, err := worker.Effect[string]{
			Name:       "letter",
			AtMostOnce: true,
			Send: func(ctx context.Context, key string) (string, error) {
				return "", errors.New("print shop: connection reset")
			},
		}.Do(ctx, run)
		if err != nil {
			return err
		}
		return run.SetResult("sent as " + number)
	})
	defer stop()
	answer, err := client.Enqueue(ctx, LegalNotice.New(Notice{Contract: "C-1"}, nexjob.Options{
		IdempotencyKey: "notice-C-1-2026",
	}))
	fail(err)
	job, err := client.Wait(ctx, answer.ID) // returns when it is Uncertain, too
	fmt.Println(job.State, job.OpenEffects, err)
	fmt.Println(job.Reason)

	// Ann has called the print shop.
	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{
		Act: nexjob.ActResolve, Verdict: nexjob.Applied,
		Value: []byte(`"L-17"`), // what Send would have returned, as JSON
		By:    "ann", Reason: "the print shop has it as L-17",
	})
	fmt.Println(err)
	job, err = client.Wait(ctx, answer.ID)
	fmt.Println(job.State, string(job.Result), err)

	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{
		Act: nexjob.ActResolve, Verdict: nexjob.NotApplied, By: "ann", Reason: "it was another letter",
	})
	fmt.Println(plain(err))
	// Output:
	// Uncertain 1 <nil>
	// worker: effect "letter": nexjob: the outcome of effect "letter" is still unknown: it was sent, and what came of it is not known: print shop: connection reset
	// <nil>
	// Succeeded "sent as L-17" <nil>
	// nexjob: resolve job JOB: nexjob: the job is not Uncertain
}

// The last try leaves a charge whose outcome nobody knows: the job does not end Failed,
// which would let somebody start anew, but waits for a person.
func TestTheLastTryIsUncertain(t *testing.T) {
	k := nexjob.KindOf[Charge]("charge-once", nexjob.Defaults{MaxAttempts: 1})
	result := nexjobtest.Run(t, k, func(ctx context.Context, run *worker.Run, _ Charge) error {
		_, err := worker.Effect[Payment]{
			Name: "charge", RepeatableFor: time.Hour,
			Send: func(context.Context, string) (Payment, error) { return Payment{}, errors.New("500") },
		}.Do(ctx, run)
		return err
	}, Charge{})
	if result.State != nexjob.Uncertain || result.Job.Wished != nexjob.Failed || !result.Job.DueAt.IsZero() {
		t.Errorf("%s, then %s, due %s", result.State, result.Job.Wished, result.Job.DueAt)
	}
}

// With the verdict the job takes the end that was noted, and a requeue goes on from there:
// what a person found out is not sent again.
func Example_lastTry() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	k := nexjob.KindOf[Charge]("charge-once", nexjob.Defaults{MaxAttempts: 1})
	stop := serve(store, k, func(ctx context.Context, run *worker.Run, _ Charge) error {
		payment, err := worker.Effect[Payment]{
			Name: "charge", RepeatableFor: time.Hour,
			Send: func(context.Context, string) (Payment, error) {
				fmt.Println("sent")
				return Payment{}, errors.New("500")
			},
		}.Do(ctx, run)
		if err != nil {
			return err
		}
		return run.SetResult(payment.ID)
	})
	defer stop()
	answer, err := client.Enqueue(ctx, k.New(Charge{OrderID: 42}, nexjob.Options{}))
	fail(err)
	job, err := client.Wait(ctx, answer.ID)
	fmt.Println(job.State, "and then", job.Wished, err)
	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{
		Act: nexjob.ActResolve, Verdict: nexjob.Applied, Value: []byte(`{"id": "P-1"}`),
		By: "ann", Reason: "it is on the account",
	})
	fmt.Println(end(client, answer.ID), err)
	_, err = client.AmendJob(ctx, answer.ID, nexjob.Action{Act: nexjob.ActRequeue, By: "ann"})
	fail(err)
	job, err = client.Wait(ctx, answer.ID)
	fmt.Println(job.State, string(job.Result), err)
	// Output:
	// sent
	// Uncertain and then Failed <nil>
	// Failed: worker: effect "charge": 500 <nil>
	// Succeeded "P-1" <nil>
}

// The test kit's store is in memory, and takes no transaction of a file.
func TestRunTakesNoTransactionOfAFile(t *testing.T) {
	store, _, done := open("")
	defer done()
	result := nexjobtest.Run(t, ChargeCard, func(ctx context.Context, run *worker.Run, _ Charge) error {
		return sqlite.InTx(ctx, store.DB(), func(tx *sql.Tx) error { return run.CompleteIn(ctx, sqlite.Tx(tx)) })
	}, Charge{})
	if !errors.Is(result.Err, nexjob.ErrUnsupported) {
		t.Error(result.Err)
	}
	t.Log(result.Err)
}
