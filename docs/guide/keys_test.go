package guide_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Charge struct {
	OrderID int64 `json:"order_id"`
	Cents   int64 `json:"cents"`
}

type Customer struct {
	ID    int64  `json:"id"`
	Email string `json:"email"`
}

type Event struct {
	ID string `json:"id"`
}

type Notice struct {
	Contract string `json:"contract"`
}

type Tenant struct {
	Name string `json:"name"`
}

type Day struct {
	Date string `json:"date"`
}

const year = 365 * 24 * time.Hour

var (
	// payment-ORDER. A failed charge may be asked for again; it continues its operation.
	ChargeCard = nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{})

	// welcome-CUSTOMER. One mail in a customer's life.
	WelcomeMail = nexjob.KindOf[Customer]("welcome-mail", nexjob.Defaults{
		DuplicatePolicy: nexjob.RejectAlways, KeepKeyFor: 5 * year,
	})

	// webhook-EVENT. The receiver knows the event by its ID, and may want it again.
	Webhook = nexjob.KindOf[Event]("webhook", nexjob.Defaults{MaxAttempts: 15})

	// notice-CONTRACT-2026. A second letter would start a second period.
	LegalNotice = nexjob.KindOf[Notice]("legal-notice", nexjob.Defaults{
		DuplicatePolicy: nexjob.RejectAlways, KeepKeyFor: 10 * year, MaxAttempts: 1,
	})

	// tenant-NAME. Made once; after a failure a person requeues it, and it goes on.
	Provision = nexjob.KindOf[Tenant]("provision-tenant", nexjob.Defaults{
		DuplicatePolicy: nexjob.RejectAlways, KeepKeyFor: 10 * year,
	})

	// reconcile-DATE. May be repeated, but not over a failure that nobody has looked at.
	Reconcile = nexjob.KindOf[Day]("reconcile", nexjob.Defaults{
		DuplicatePolicy: nexjob.RejectIfFailed,
	})
)

// signUp is called once per request, and the browser may send one twice.
func signUp(ctx context.Context, client *nexjob.Client, c Customer) (string, error) {
	_, err := client.Enqueue(ctx, WelcomeMail.New(c, nexjob.Options{
		IdempotencyKey: fmt.Sprintf("welcome-%d", c.ID),
	}))
	duplicate, ok := errors.AsType[*nexjob.DuplicateJobError](err)
	switch {
	case err == nil:
		return "a mail is on its way", nil
	case ok && duplicate.ExistingState == nexjob.Succeeded:
		return "you have had your mail", nil // the work is done: no trouble
	case ok:
		return "", fmt.Errorf("a person must look at job %s: %w", duplicate.ExistingJobID, err)
	}
	return "", err // of the input or the storage
}

func Example_rejected() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	ann, bob := Customer{ID: 7, Email: "ann@example.com"}, Customer{ID: 8}
	ended := serve(store, WelcomeMail, func(_ context.Context, _ *worker.Run, c Customer) error {
		if c.Email == "" {
			return worker.Permanent(errors.New("no address"))
		}
		return nil
	})
	for _, c := range []Customer{ann, ann, bob, bob} {
		said, err := signUp(ctx, client, c)
		fmt.Println(said, plain(err))
		page, err := client.Find(ctx, nexjob.Query{Kinds: []string{WelcomeMail.Name()}, NewestFirst: true})
		fail(err)
		end(client, page.Jobs[0].ID)
	}
	ended()
	// Output:
	// a mail is on its way <nil>
	// you have had your mail <nil>
	// a mail is on its way <nil>
	//  a person must look at job JOB: nexjob: idempotency key "welcome-8" was used by job JOB (Failed) and RejectAlways rejects another; requeue that job, or clear the key after review
}

// A handler that charges without looking charges again for a duplicate that comes after
// its success.
func Example_repeatedSuccess() {
	store, client, done := open(`CREATE TABLE invoices (order_id INTEGER)`)
	defer done()
	ctx := context.Background()
	db := store.DB()
	order := Charge{OrderID: 42, Cents: 1999}
	again := func() {
		for range 2 {
			answer, err := client.Enqueue(ctx, ChargeCard.New(order, nexjob.Options{IdempotencyKey: "payment-42"}))
			fail(err)
			state := end(client, answer.ID)
			fmt.Println(answer.Outcome, state)
		}
	}

	careless := func(ctx context.Context, run *worker.Run, c Charge) error {
		_, err := worker.Effect[worker.None]{
			Name:          "charge",
			RepeatableFor: 24 * time.Hour,
			Send: worker.NoResult(func(ctx context.Context, key string) error {
				fmt.Println("charged", c.Cents) // the provider's call, under another key for each job
				return nil
			}),
		}.Do(ctx, run)
		return err // and nothing is left that the next job could look for
	}
	stop := serve(store, ChargeCard, careless)
	again()
	stop()

	careful := func(ctx context.Context, run *worker.Run, c Charge) error {
		paid := false
		err := db.QueryRowContext(ctx, `SELECT count(*) > 0 FROM invoices WHERE order_id = ?`, c.OrderID).Scan(&paid)
		if err != nil || paid {
			return err
		}
		fmt.Println("charged", c.Cents)
		return sqlite.InTx(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO invoices VALUES (?)`, c.OrderID); err != nil {
				return err
			}
			return run.CompleteIn(ctx, sqlite.Tx(tx))
		})
	}
	fmt.Println("careful")
	stop = serve(store, ChargeCard, careful)
	again()
	stop()
	// Output:
	// charged 1999
	// created Succeeded
	// charged 1999
	// created Succeeded
	// careful
	// charged 1999
	// created Succeeded
	// created Succeeded
}

func Example_whileActive() {
	_, client, done := open("")
	defer done()
	ctx := context.Background()

	// Many edits within ten seconds are one job, with the newest args.
	reconcile := func(date string) {
		answer, err := client.Enqueue(ctx, Reconcile.New(Day{Date: date}, nexjob.Options{
			IdempotencyKey: "reconcile",
			WhileActive:    nexjob.Replace,
			Delay:          10 * time.Second,
		}))
		fmt.Println(answer.Outcome, answer.State, err)
	}
	reconcile("2026-11-29")
	reconcile("2026-11-30")

	// Whoever must know that nothing new was accepted asks for an error.
	_, err := client.Enqueue(ctx, Reconcile.New(Day{Date: "2026-11-30"}, nexjob.Options{
		IdempotencyKey: "reconcile",
		WhileActive:    nexjob.Reject,
	}))
	fmt.Println(plain(err))
	// Output:
	// created Scheduled <nil>
	// replaced Scheduled <nil>
	// nexjob: idempotency key "reconcile" is held by job JOB (Scheduled); wait for that job, or cancel it
}

func Example_otherArgs() {
	_, client, done := open("")
	defer done()
	ctx := context.Background()
	pay := func(cents int64, strict bool) (nexjob.Answer, error) {
		return client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: cents}, nexjob.Options{
			IdempotencyKey: "payment-42",
			StrictArgs:     strict,
		}))
	}

	answer, err := pay(1999, false)
	fmt.Println(answer.Outcome, answer.ArgsDiffer, err)
	answer, err = pay(2999, false)
	fmt.Println(answer.Outcome, answer.ArgsDiffer, err)
	_, err = pay(2999, true)
	fmt.Println(plain(err))

	_, err = client.Enqueue(ctx, WelcomeMail.New(Customer{ID: 42}, nexjob.Options{IdempotencyKey: "payment-42"}))
	fmt.Println(plain(err))
	// Output:
	// created false <nil>
	// existing true <nil>
	// nexjob: idempotency key "payment-42" belongs to job JOB with other args (fingerprint HASH, not HASH); use another key for other work, or leave StrictArgs out to be answered with that job
	// nexjob: idempotency key "payment-42" belongs to job JOB of kind "charge-card", not "welcome-mail"; give each kind keys of its own
}

// After a failure RejectIfFailed waits for a person.
func Example_clearKey() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	var mended atomic.Bool
	stop := serve(store, Reconcile, func(context.Context, *worker.Run, Day) error {
		if !mended.Load() {
			return worker.Permanent(errors.New("the bank's file is short"))
		}
		return nil
	})
	defer stop()
	job := Reconcile.New(Day{Date: "2026-11-30"}, nexjob.Options{IdempotencyKey: "reconcile-2026-11-30"})

	first, err := client.Enqueue(ctx, job)
	fail(err)
	fmt.Println(end(client, first.ID))
	_, err = client.Enqueue(ctx, job)
	fmt.Println(errors.Is(err, nexjob.ErrDuplicateJob))
	why, err := client.Explain(ctx, "reconcile-2026-11-30")
	fmt.Println(undated(why.Sentence), err)

	mended.Store(true)

	// Either: the same job again, with all its tries.
	_, err = client.AmendJob(ctx, first.ID, nexjob.Action{
		Act: nexjob.ActRequeue, By: "ann", Reason: "the bank has sent it again",
	})

	fail(err)
	fmt.Println(end(client, first.ID))

	// Or: the next enqueue may pass, with other args if need be.
	err = client.ClearKey(ctx, "reconcile-2026-11-30", "ann", "the bank has sent it again")

	fail(err)
	second, err := client.Enqueue(ctx, job)
	fmt.Println(second.Outcome, second.Continues, err)
	// Output:
	// Failed: the bank's file is short
	// true
	// Job JOB of kind "reconcile" failed at TIME after 1 try: the bank's file is short. Requeue it, or enqueue again under AllowAfterFailed: either continues its operation, so confirmed effects are not repeated. RejectIfFailed and RejectAlways reject an enqueue as long as the job's record is kept, unless the key is cleared after review. <nil>
	// Succeeded
	// created false <nil>
}

// The card was charged before the job failed. Whoever asks again with another price is
// refused before anything is sent.
func Example_operation() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	pay := func(cents int64, second bool) nexjob.Answer {
		answer, err := client.Enqueue(ctx, ChargeCard.New(Charge{OrderID: 42, Cents: cents}, nexjob.Options{
			IdempotencyKey: "payment-42",
			NewOperation:   second,
		}))
		fail(err)
		return answer
	}
	var bug atomic.Bool
	stop := serve(store, ChargeCard, func(ctx context.Context, run *worker.Run, c Charge) error {
		_, err := worker.Effect[worker.None]{
			Name:          "charge",
			RepeatableFor: 24 * time.Hour,
			Send: worker.NoResult(func(ctx context.Context, key string) error {
				fmt.Println("charged", c.Cents)
				return nil
			}),
		}.Do(ctx, run)
		if err == nil && bug.Load() {
			return worker.Permanent(errors.New("a bug behind the charge"))
		}
		return err
	})
	defer stop()
	bug.Store(true)
	first := pay(1999, false)
	fmt.Println(end(client, first.ID))
	bug.Store(false)

	fmt.Println("same price")
	same := pay(1999, false)
	fmt.Println(same.Continues, same.Operation == first.Operation, end(client, same.ID))

	bug.Store(true)
	third := pay(1999, false) // after a success: a new operation
	fmt.Println(third.Continues, end(client, third.ID))
	bug.Store(false)
	fmt.Println("another price")
	other := pay(2999, false)
	fmt.Println(other.Continues, plain(errors.New(end(client, other.ID))))
	fmt.Println("a second charge is meant")
	meant := pay(2999, true)
	fmt.Println(meant.Continues, end(client, meant.ID))
	// Output:
	// charged 1999
	// Failed: a bug behind the charge
	// same price
	// true true Succeeded
	// charged 1999
	// false Failed: a bug behind the charge
	// another price
	// true Failed: worker: effect "charge": nexjob: effect "charge" of operation JOB is confirmed under request HASH, and now asked for under HASH; look at the job, and enqueue with NewOperation if a second effect is meant
	// a second charge is meant
	// charged 2999
	// false Succeeded
}

// place commits an order together with its jobs, or nothing.
func place(
	ctx context.Context, db *sql.DB, client *nexjob.Client, order int64, customer Customer,
) (answers []nexjob.Answer, err error) {
	err = sqlite.InTx(ctx, db, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, order); err != nil {
			return err
		}
		var err error
		answers, err = client.In(sqlite.Tx(tx)).EnqueueMany(ctx, []nexjob.NewJob{
			ChargeCard.New(Charge{OrderID: order}, nexjob.Options{IdempotencyKey: fmt.Sprintf("payment-%d", order)}),
			WelcomeMail.New(customer, nexjob.Options{IdempotencyKey: fmt.Sprintf("welcome-%d", customer.ID)}),
		})
		return err // of the whole step; each item has its own in Answer.Err
	})
	return answers, err
}

func Example_inTransaction() {
	store, client, done := open(`CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
	defer done()
	show := func(answers []nexjob.Answer, err error) {
		for _, answer := range answers {
			fmt.Println(answer.Outcome, answer.Err)
		}
		fmt.Println(err)
	}
	ctx := context.Background()
	show(place(ctx, store.DB(), client, 42, Customer{ID: 7}))
	show(place(ctx, store.DB(), client, 43, Customer{ID: 7}))
	show(place(ctx, store.DB(), client, 43, Customer{ID: 8}))

	// Without In the call waits for the transaction that it stands in, which waits for
	// it. Under WithOpenTx, and in a handler, it is refused at once.
	ctx, _ = nexjob.WithOpenTx(ctx)
	err := sqlite.InTx(ctx, store.DB(), func(*sql.Tx) error {
		_, err := client.Enqueue(ctx, Webhook.New(Event{ID: "e1"}, nexjob.Options{}))
		return err
	})
	fmt.Println(err)
	// Output:
	// created <nil>
	// created <nil>
	// <nil>
	// created <nil>
	// existing <nil>
	// <nil>
	// constraint failed: UNIQUE constraint failed: orders.id (1555)
	// nexjob: enqueue: nexjob: cannot be done inside an open transaction; use Client.In with the transaction
}

// A key goes with the record, or lives exactly as long as KeepKeyFor says.
func Example_keyLife() {
	store, client, done := open("")
	defer done()
	ctx := context.Background()
	enqueue := func(key string, keep time.Duration) (nexjob.Answer, error) {
		return client.Enqueue(ctx, Webhook.New(Event{ID: "e1"}, nexjob.Options{
			IdempotencyKey: key, DuplicatePolicy: nexjob.RejectAlways, KeepKeyFor: keep,
		}))
	}
	stop := serve(store, Webhook, func(context.Context, *worker.Run, Event) error { return nil })
	plainly, err := enqueue("with-the-record", 0)
	fail(err)
	kept, err := enqueue("for-a-year", year)
	fail(err)
	end(client, plainly.ID)
	end(client, kept.ID)
	stop()

	// What retention does by itself after seven days.
	_, err = client.Amend(ctx, nexjob.Query{States: []nexjob.State{nexjob.Succeeded}}, nexjob.Action{Act: nexjob.ActPurge}, 100)
	fail(err)
	answer, err := enqueue("with-the-record", 0)
	fmt.Println(answer.Outcome, err)
	_, err = enqueue("for-a-year", 0)
	fmt.Println(plain(err))
	// Output:
	// created <nil>
	// nexjob: idempotency key "for-a-year" was used by job JOB (Succeeded, its record is gone) and RejectAlways rejects another; clear the key after review
}
