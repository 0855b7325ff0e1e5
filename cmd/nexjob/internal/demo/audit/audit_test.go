package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// The jobs of the good evidence, by their place in it.
const (
	chargeOne = iota
	chargeTwo
	chargeAgain
	welcome
	webhookOne
	webhookTwo
)

// goodEvidence is what a run of two orders of one customer leaves: order 1 came twice
// while it was active and once after its success; a worker was killed inside its charge
// and another frozen inside the webhook of order 2.
func goodEvidence(t *testing.T) *Evidence {
	t.Helper()
	start := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	fence := int64(0)
	job := func(key string, from, to int) nexjob.Job {
		id := nexjob.NewID()
		fence += 10
		return nexjob.Job{
			ID: id, Operation: id, Key: key, State: nexjob.Succeeded, SettledFence: fence,
			EnqueuedAt: start.Add(time.Duration(from) * time.Second), EndedAt: start.Add(time.Duration(to) * time.Second),
		}
	}
	const ada = "ada@example.org"
	jobs := []nexjob.Job{
		chargeOne: job("payment-1", 0, 5), chargeTwo: job("payment-2", 0, 1), chargeAgain: job("payment-1", 6, 7),
		welcome: job("welcome-"+ada, 0, 1), webhookOne: job("webhook-order-1-paid", 5, 6), webhookTwo: job("webhook-order-2-paid", 1, 6),
	}
	answer := func(order int64, job int, outcome nexjob.Outcome) cast.Answered {
		return cast.Answered{OrderID: order, Key: jobs[job].Key, Job: jobs[job].ID, Outcome: outcome}
	}
	effect := func(job int, key string) nexjob.Receipt {
		return nexjob.Receipt{Operation: jobs[job].ID, Name: "effect", State: nexjob.Confirmed, OutsideKey: key}
	}
	one := orders.Line{OrderID: 1, Customer: ada, Cents: 100, Currency: "EUR"}
	late := one
	late.AfterSuccess = true
	frozen := nexjob.Lease{Job: jobs[webhookTwo].ID, Fence: 5}
	killed := nexjob.Lease{Job: jobs[chargeOne].ID, Fence: 3}
	lost := fmt.Errorf("demo: %w", nexjob.ErrLeaseLost)
	return &Evidence{
		Lines: []orders.Line{one, one, {OrderID: 2, Customer: ada, Cents: 250, Currency: "USD"}, late},
		Answers: []cast.Answered{
			answer(1, chargeOne, nexjob.Created), answer(1, welcome, nexjob.Created),
			answer(1, chargeOne, nexjob.Existing), answer(1, welcome, nexjob.Existing),
			answer(2, chargeTwo, nexjob.Created), answer(2, welcome, nexjob.Existing),
			answer(1, chargeAgain, nexjob.Created), answer(1, welcome, nexjob.Rejected), answer(1, webhookOne, nexjob.Existing),
		},
		Jobs: jobs,
		Effects: []nexjob.Receipt{
			effect(chargeOne, "k1"), effect(chargeTwo, "k2"), effect(welcome, "k3"), effect(webhookOne, "k4"), effect(webhookTwo, "k5"),
		},
		Payments: []outside.Payment{
			{ID: "ch_1", OrderID: 1, Cents: 100, Currency: "EUR", Key: "k1"},
			{ID: "ch_2", OrderID: 2, Cents: 250, Currency: "USD", Key: "k2"},
		},
		Messages:   []outside.Message{{MessageID: "k3@shop.example", Recipients: []string{ada}}},
		Deliveries: []outside.Delivery{{Event: "order-1-paid", Key: "k4"}, {Event: "order-2-paid", Key: "k5"}},
		Replayed:   1,
		Invoices: []shop.Invoice{
			{Number: 1, OrderID: 2, Cents: 250, Charge: "ch_2", Job: jobs[chargeTwo].ID, Fence: 20},
			{Number: 2, OrderID: 1, Cents: 100, Charge: "ch_1", Job: jobs[chargeOne].ID, Fence: 10},
		},
		Noted: []shop.Delivery{
			{Number: 1, Event: "order-1-paid", Job: jobs[webhookOne].ID, Fence: 50},
			{Number: 2, Event: "order-2-paid", Job: jobs[webhookTwo].ID, Fence: 60},
		},
		Paid: map[int64]string{1: "ch_1", 2: "ch_2"},
		Blows: []harm.Blow{
			{Act: harm.Kill, Service: outside.PaymentService, Item: "1", Lease: killed},
			{Act: harm.Freeze, Service: outside.WebhookService, Item: "order-2-paid", Lease: frozen, Refused: 1},
		},
		KillsWanted: 1, FreezesWanted: 1, Killed: 1, Started: 2,
		Stale: []harm.StaleWrite{
			{Lease: killed, What: "settlement", Err: nexjob.ErrLeaseLost},
			{Lease: killed, What: "transaction", Err: lost},
			{Lease: frozen, What: "settlement", Err: nexjob.ErrLeaseLost},
			{Lease: frozen, What: "transaction", Err: lost},
		},
		StaleByWorkers: 1,
	}
}

func TestAuditPassesWhatIsRight(t *testing.T) {
	r := goodEvidence(t).Audit()
	want := Report{
		OK: true, Orders: 2, Customers: 1, Enqueues: 9, Duplicates: 6, Existing: 4, Rejected: 1, Jobs: 6,
		Processes: 2, Kills: 1, KillsInCharge: 1, Freezes: 1, FreezesInEffect: 1,
		Charges: 2, Emails: 1, Webhooks: 2, ReplayedAnswers: 1, Invoices: 2, StaleWritesRefused: 5,
		Findings: []string{},
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// harmed is one way to spoil good evidence.
type harmed struct {
	name  string
	spoil func(e *Evidence)
	want  string              // a part of a finding
	count func(r *Report) int // that must be 1; nil: none counts it
}

// TestAuditFindsHarm spoils what the services did and the shop wrote, in one way each.
func TestAuditFindsHarm(t *testing.T) {
	check(t, []harmed{
		{
			"double charge", func(e *Evidence) { e.Payments = append(e.Payments, e.Payments[0]) },
			"order 1 was charged 2 times", func(r *Report) int { return r.DoubleCharges },
		},
		{
			"missing charge", func(e *Evidence) { e.Payments = e.Payments[:1] },
			"order 2 was never charged", func(r *Report) int { return r.MissingCharges },
		},
		{"wrong amount", func(e *Evidence) { e.Payments[0].Cents = 99 }, "order 1 of 1.00 EUR was charged with 99 cents", nil},
		{"wrong currency", func(e *Evidence) { e.Payments[0].Currency = "CHF" }, "with 100 cents CHF", nil},
		{"foreign charge", func(e *Evidence) { e.Payments[0].OrderID = 3 }, "order 3 was charged, of which no line tells", nil},
		{
			"double mail", func(e *Evidence) { e.Messages = append(e.Messages, e.Messages[0]) },
			"ada@example.org was mailed 2 times", func(r *Report) int { return r.DoubleEmails },
		},
		{
			"missing mail", func(e *Evidence) { e.Messages = nil },
			"ada@example.org was never mailed", func(r *Report) int { return r.MissingEmails },
		},
		{"foreign mail", func(e *Evidence) { e.Messages[0].Recipients[0] = "eve@example.org" }, "eve@example.org was mailed, of which", nil},
		{
			"double webhook", func(e *Evidence) {
				e.Deliveries = append(e.Deliveries, outside.Delivery{Event: "order-1-paid", Key: "k9"})
			},
			"order-1-paid was delivered 2 times", func(r *Report) int { return r.DoubleWebhooks },
		},
		{
			"missing webhook", func(e *Evidence) { e.Deliveries = e.Deliveries[:1] },
			"order-2-paid was never delivered", func(r *Report) int { return r.MissingWebhooks },
		},
		{
			"double invoice", func(e *Evidence) { e.Invoices = append(e.Invoices, e.Invoices[0]) },
			"order 2 was invoiced 2 times", func(r *Report) int { return r.DoubleInvoices },
		},
		{
			"missing invoice", func(e *Evidence) { e.Invoices = e.Invoices[:1] },
			"order 1 was never invoiced", func(r *Report) int { return r.MissingInvoices },
		},
		{"invoice for no charge", func(e *Evidence) { e.Invoices[0].Charge = "ch_9" }, `charge "ch_9"`, nil},
		{"invoice with another amount", func(e *Evidence) { e.Invoices[0].Cents = 1 }, "invoice 1 of order 2 is for charge", nil},
		{"invoice of another attempt", func(e *Evidence) { e.Invoices[1].Fence = 9 }, "under fence 9, and its job was ended under fence 10", nil},
		{"invoice of no job", func(e *Evidence) { e.Invoices[0].Job = nexjob.NewID() }, "which is not stored", nil},
		{"order not marked", func(e *Evidence) { delete(e.Paid, 1) }, `order 1 is paid by "" in the shop`, nil},
		{"delivery noted twice", func(e *Evidence) { e.Noted = append(e.Noted, e.Noted[0]) }, "order-1-paid was noted as delivered 2 times", nil},
		{"delivery not noted", func(e *Evidence) { e.Noted = e.Noted[1:] }, "order-1-paid was never noted as delivered", nil},
		{"note of another attempt", func(e *Evidence) { e.Noted[0].Fence = 9 }, "order-1-paid was noted as delivered under fence 9", nil},
	})
}

// TestAuditFindsBrokenPromises spoils what the storage says, and how hard the run was.
func TestAuditFindsBrokenPromises(t *testing.T) {
	check(t, []harmed{
		{
			"uncertain job", func(e *Evidence) { e.Jobs[welcome].State = nexjob.Uncertain },
			"is Uncertain", func(r *Report) int { return r.Uncertain },
		},
		{
			"waiting job", func(e *Evidence) { e.Jobs[webhookOne].State = nexjob.Enqueued },
			"has not ended, it is Enqueued", func(r *Report) int { return r.Lost },
		},
		{"failed job", func(e *Evidence) { e.Jobs[chargeOne].State = nexjob.Failed }, "ended Failed", nil},
		{"job gone", func(e *Evidence) { e.Jobs = slices.Delete(e.Jobs, chargeTwo, chargeTwo+1) }, "was accepted and is not stored", nil},
		{
			"job that nobody was told of", func(e *Evidence) { e.Jobs = append(e.Jobs, e.Jobs[2]); e.Jobs[6].ID = nexjob.NewID() },
			"7 jobs are stored, and 6 were answered or committed as created", nil,
		},
		{"created twice", func(e *Evidence) { e.Answers[2].Outcome = nexjob.Created }, "was created twice", nil},
		{
			"two active jobs of a key",
			func(e *Evidence) { e.Jobs[chargeAgain].EnqueuedAt = e.Jobs[chargeOne].EndedAt.Add(-time.Millisecond) },
			"key payment-1 had two active jobs", nil,
		},
		{"answer with a stranger's job", func(e *Evidence) { e.Answers[4].Job = e.Jobs[0].ID }, "was answered with job", nil},
		{"enqueue refused", func(e *Evidence) { e.Answers[1].Error = "no" }, "answered with an error: no", nil},
		{"charge rejected", func(e *Evidence) { e.Answers[2].Outcome = nexjob.Rejected }, "payment-1 was answered as rejected", nil},
		{"odd outcome", func(e *Evidence) { e.Answers[2].Outcome = nexjob.Replaced }, "answered as replaced", nil},
		{"repeat not sent", func(e *Evidence) { e.Lines = append(e.Lines, e.Lines[2]) }, "key payment-2 was enqueued 1 times of 2", nil},
		{"effect without an outcome", func(e *Evidence) { e.Effects[0].State = nexjob.Intended }, `effect "effect" of operation`, nil},
		{"ledger and service disagree", func(e *Evidence) { e.Effects[0].OutsideKey = "k9" }, "an effect under key k9, and no service", nil},
		{"mail that the ledger does not know", func(e *Evidence) { e.Messages[0].MessageID = "k8@shop.example" }, "does not confirm mail k8", nil},
		{"kill not done", func(e *Evidence) { e.KillsWanted = 2 }, "1 workers were killed, 1 of them as planned, and 2 kills", nil},
		{"no kill inside a mail", func(e *Evidence) {
			e.Blows = append(e.Blows, harm.Blow{Act: harm.Kill}, harm.Blow{Act: harm.Kill})
			e.KillsWanted, e.Killed = 3, 3
		}, "no worker was killed inside a mail", nil},
		{"freeze not done", func(e *Evidence) { e.FreezesWanted = 2 }, "and 2 freezes were asked for", nil},
		{"freeze without a refusal", func(e *Evidence) { e.Blows[1].Refused = 0 }, "and was refused nothing", nil},
		{
			"stale write accepted", func(e *Evidence) { e.Stale[1].Err = nil },
			"a stale worker's transaction for job", func(r *Report) int { return r.StaleWritesAccepted },
		},
		{"stale write failed otherwise", func(e *Evidence) { e.Stale[0].Err = errors.New("busy") }, "could not be tried: busy", nil},
		{"stale write not tried", func(e *Evidence) { e.Stale = e.Stale[:2] }, "2 stale writes were tried, and the kills and freezes left 4", nil},
		{
			"torn commit", func(e *Evidence) { e.Torn = []string{"an invoice alone"} },
			"not in one transaction: an invoice alone", func(r *Report) int { return r.TornCommits },
		},
		{"damaged database", func(e *Evidence) { e.Damage = "row missing" }, "damaged: row missing", nil},
		{"trouble", func(e *Evidence) { e.Trouble = []string{"not done after 1m"} }, "not done after 1m", nil},
	})
}

func check(t *testing.T, tests []harmed) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence(t)
			tt.spoil(e)
			r := e.Audit()
			if r.OK || !strings.Contains(strings.Join(r.Findings, "\n"), tt.want) {
				t.Errorf("ok = %t, findings %q, want %q", r.OK, r.Findings, tt.want)
			}
			if tt.count != nil && tt.count(&r) != 1 {
				t.Errorf("the count is %d, want 1", tt.count(&r))
			}
		})
	}
}

func TestReportForms(t *testing.T) {
	good := goodEvidence(t)
	r := good.Audit()
	r.Seed, r.Seconds, r.Input = 1_893_456_000_123_456, 3.25, orders.Shipped
	var text bytes.Buffer
	if err := view.WriteJSON(&text, &r); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"orders", "enqueues", "duplicates", "kills", "freezes", "charges", "double_charges", "missing_charges",
		"emails", "double_emails", "invoices", "webhooks", "stale_writes_refused", "kills_in_charge", "kills_in_mail",
		"kills_in_webhook", "freezes_in_effect", "uncertain", "lost", "seconds", "ok", "existing", "rejected",
		"missing_emails", "double_webhooks", "missing_webhooks", "double_invoices", "missing_invoices", "seed", "findings",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("the JSON report has no %q:\n%s", name, &text)
		}
	}
	if !strings.Contains(text.String(), `"findings":[]`) {
		t.Errorf("no findings should be an empty list, not null:\n%s", &text)
	}
	text.Reset()
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(got, "delivered once. Seed 1893456000123456, 3.2 s.") {
		t.Errorf("the table is\n%s", got)
	}
	if got := text.String(); !strings.Contains(got, "past their lease, then thawed") {
		t.Errorf("the table is\n%s", got)
	}
	r.Freezes, r.FreezesLeftOut = 0, true
	text.Reset()
	if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "left out: this system has no SIGSTOP") {
		t.Errorf("%v, the table is\n%s", err, &text)
	}
	good.Payments = append(good.Payments, good.Payments[0])
	r = good.Audit()
	text.Reset()
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 double", "  - order 1 was charged 2 times", "FAILED."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, &text)
		}
	}
}
