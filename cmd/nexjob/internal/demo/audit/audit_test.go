package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// goodEvidence is what a run of two orders leaves: order 1 was sent twice while it
// was active and once after its success, and the worker that charged it was killed.
func goodEvidence() *evidence {
	start := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	job := func(order int64, from, to int) nexjob.Job {
		id := nexjob.NewID()
		return nexjob.Job{
			ID: id, Operation: id, Key: paymentKey(order), State: nexjob.Succeeded, SettledFence: order * 10,
			EnqueuedAt: start.Add(time.Duration(from) * time.Second), EndedAt: start.Add(time.Duration(to) * time.Second),
		}
	}
	one, two, again := job(1, 0, 5), job(2, 0, 1), job(1, 6, 7)
	lines := []Line{
		{OrderID: 1, Cents: 100, Currency: "EUR"},
		{OrderID: 1, Cents: 100, Currency: "EUR"},
		{OrderID: 2, Cents: 250, Currency: "USD"},
		{OrderID: 1, Cents: 100, Currency: "EUR", AfterSuccess: true},
	}
	answered := func(order int64, id nexjob.ID, outcome nexjob.Outcome) Answered {
		return Answered{OrderID: order, Answer: nexjob.Answer{ID: id, Outcome: outcome}}
	}
	return &evidence{
		lines: lines,
		answers: []Answered{
			answered(1, one.ID, nexjob.Created), answered(1, one.ID, nexjob.Existing),
			answered(2, two.ID, nexjob.Created), answered(1, one.ID, nexjob.Existing),
			answered(1, again.ID, nexjob.Created),
		},
		jobs: []nexjob.Job{one, two, again},
		effects: []nexjob.Receipt{
			{Operation: one.ID, Name: "charge", State: nexjob.Confirmed, OutsideKey: "k1"},
			{Operation: two.ID, Name: "charge", State: nexjob.Confirmed, OutsideKey: "k2"},
		},
		payments: []outside.Payment{
			{ID: "ch_1", OrderID: 1, Cents: 100, Currency: "EUR", Key: "k1"},
			{ID: "ch_2", OrderID: 2, Cents: 250, Currency: "USD", Key: "k2"},
		},
		replayed: 1,
		invoices: []Invoice{
			{Number: 1, OrderID: 2, Cents: 250, Charge: "ch_2", Job: two.ID, Fence: 20},
			{Number: 2, OrderID: 1, Cents: 100, Charge: "ch_1", Job: one.ID, Fence: 10},
		},
		paid:  map[int64]string{1: "ch_1", 2: "ch_2"},
		kills: []Kill{{OrderID: 1}}, killsWanted: 1, killed: 1, started: 2,
		stale: []StaleWrite{
			{1, "settlement", nexjob.ErrLeaseLost}, {1, "transaction", fmt.Errorf("demo: %w", nexjob.ErrLeaseLost)},
		},
		integrity: "ok",
	}
}

func TestAuditPassesWhatIsRight(t *testing.T) {
	r := goodEvidence().audit()
	want := Report{
		OK: true, Orders: 2, Enqueues: 5, Duplicates: 3, Existing: 2, Jobs: 3, Processes: 2, Kills: 1, KillsInCharge: 1,
		Charges: 2, ReplayedAnswers: 1, Invoices: 2, StaleWritesRefused: 2,
	}
	if len(r.Findings) > 0 {
		t.Errorf("found %q", r.Findings)
	}
	if got, want := asJSON(t, r), asJSON(t, want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestAuditFindsWhatIsWrong spoils good evidence in one way each.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(e *evidence)
		want  string              // a part of a finding
		count func(r *Report) int // that must be 1; nil: none counts it
	}{
		{
			"double charge", func(e *evidence) { e.payments = append(e.payments, e.payments[0]) },
			"order 1 was charged 2 times", func(r *Report) int { return r.DoubleCharges },
		},
		{
			"missing charge", func(e *evidence) { e.payments = e.payments[:1] },
			"order 2 was never charged", func(r *Report) int { return r.MissingCharges },
		},
		{"wrong amount", func(e *evidence) { e.payments[0].Cents = 99 }, "order 1 of 1.00 EUR was charged with 99 cents", nil},
		{"wrong currency", func(e *evidence) { e.payments[0].Currency = "CHF" }, "with 100 cents CHF", nil},
		{"foreign charge", func(e *evidence) { e.payments[0].OrderID = 3 }, "charged order 3, which nobody sent", nil},
		{
			"double invoice", func(e *evidence) { e.invoices = append(e.invoices, e.invoices[0]) },
			"order 2 has 2 invoices", func(r *Report) int { return r.DoubleInvoices },
		},
		{
			"missing invoice", func(e *evidence) { e.invoices = e.invoices[:1] },
			"order 1 has no invoice", func(r *Report) int { return r.MissingInvoices },
		},
		{"invoice for no charge", func(e *evidence) { e.invoices[0].Charge = "ch_9" }, `charge "ch_9"`, nil},
		{"invoice with another amount", func(e *evidence) { e.invoices[0].Cents = 1 }, "invoice 1 of order 2 is for charge", nil},
		{"invoice of another attempt", func(e *evidence) { e.invoices[1].Fence = 9 }, "under fence 9, and its job was ended under fence 10", nil},
		{"invoice of no job", func(e *evidence) { e.invoices[0].Job = nexjob.NewID() }, "which is not stored", nil},
		{"order not marked", func(e *evidence) { delete(e.paid, 1) }, `order 1 is paid by "" in the shop`, nil},
		{
			"uncertain job", func(e *evidence) { e.jobs[0].State = nexjob.Uncertain },
			"is Uncertain", func(r *Report) int { return r.Uncertain },
		},
		{
			"waiting job", func(e *evidence) { e.jobs[0].State = nexjob.Enqueued },
			"has not ended, it is Enqueued", func(r *Report) int { return r.Lost },
		},
		{"failed job", func(e *evidence) { e.jobs[0].State = nexjob.Failed }, "ended Failed", nil},
		{
			"job gone", func(e *evidence) { e.jobs = e.jobs[1:]; e.answers = slices.Delete(e.answers, 1, 2) },
			"was accepted and is not stored", nil,
		},
		{
			"job that nobody was told of", func(e *evidence) { e.jobs = append(e.jobs, e.jobs[2]); e.jobs[3].ID = nexjob.NewID() },
			"4 jobs are stored, and 3 were answered as created", nil,
		},
		{"created twice", func(e *evidence) { e.answers[1].Answer.Outcome = nexjob.Created }, "was created twice", nil},
		{
			"two active jobs of a key", func(e *evidence) { e.jobs[2].EnqueuedAt = e.jobs[0].EndedAt.Add(-time.Millisecond) },
			"key payment-1 had two active jobs", nil,
		},
		{"answer with a stranger's job", func(e *evidence) { e.answers[2].Answer.ID = e.jobs[0].ID }, "was answered with job", nil},
		{"enqueue refused", func(e *evidence) { e.answers[1].Err = errors.New("no") }, "answered with an error: no", nil},
		{"odd outcome", func(e *evidence) { e.answers[1].Answer.Outcome = nexjob.Replaced }, "answered as replaced", nil},
		{"repeat not sent", func(e *evidence) { e.lines = append(e.lines, e.lines[2]) }, "order 2 was sent 1 times of 2", nil},
		{"effect without an outcome", func(e *evidence) { e.effects[0].State = nexjob.Intended }, `effect "charge" of operation`, nil},
		{
			"ledger and provider disagree", func(e *evidence) { e.effects[0].OutsideKey = "k9" },
			"the ledger confirms a charge under key k9", nil,
		},
		{"kill not done", func(e *evidence) { e.killsWanted = 2 }, "1 workers were killed inside a charge, and 2 kills were asked for", nil},
		{
			"stale write accepted", func(e *evidence) { e.stale[1].Err = nil },
			"a stale worker's transaction for order 1 was accepted", func(r *Report) int { return r.StaleWritesAccepted },
		},
		{"stale write failed otherwise", func(e *evidence) { e.stale[0].Err = errors.New("busy") }, "could not be tried: busy", nil},
		{"stale write not tried", func(e *evidence) { e.stale = nil }, "0 stale writes were tried", nil},
		{
			"torn commit", func(e *evidence) { e.torn = []string{"an invoice alone"} },
			"not in one transaction: an invoice alone", func(r *Report) int { return r.TornCommits },
		},
		{"damaged file", func(e *evidence) { e.integrity = "row missing" }, "damaged: row missing", nil},
		{"trouble", func(e *evidence) { e.trouble = []string{"not done after 1m"} }, "not done after 1m", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := goodEvidence()
			tt.spoil(e)
			r := e.audit()
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
	good := goodEvidence()
	r := good.audit()
	r.Seed, r.Seconds, r.Input = 1_893_456_000_123_456, 3.25, shippedName
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"ok", "orders", "enqueues", "duplicates", "existing", "kills", "kills_in_charge", "charges", "double_charges",
		"missing_charges", "invoices", "double_invoices", "missing_invoices", "uncertain", "lost",
		"stale_writes_refused", "seed", "seconds", "findings",
	} {
		if _, ok := fields[name]; !ok {
			t.Errorf("the JSON report has no %q:\n%s", name, &text)
		}
	}
	if !strings.Contains(text.String(), `"findings": []`) {
		t.Errorf("no findings should be an empty list, not null:\n%s", &text)
	}
	text.Reset()
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(got, "exactly once. Seed 1893456000123456, 3.2 s.") {
		t.Errorf("the table is\n%s", got)
	}
	good.payments = append(good.payments, good.payments[0])
	r = good.audit()
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
