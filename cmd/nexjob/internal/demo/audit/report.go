package audit

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Report is the audit's result. The JSON names are part of the command's interface.
type Report struct {
	OK bool `json:"ok"`

	Orders     int `json:"orders"`     // different ones
	Customers  int `json:"customers"`  // different ones
	Enqueues   int `json:"enqueues"`   // of charges, mails and late webhooks by those who tell of orders
	Duplicates int `json:"duplicates"` // enqueues of a key that had been enqueued before
	Existing   int `json:"existing"`   // duplicates that were answered with the active job
	Rejected   int `json:"rejected"`   // duplicates of a welcome mail, after it was sent
	Jobs       int `json:"jobs"`       // created: one per key, and one per repeat after its success

	Processes      int  `json:"processes"` // worker processes started
	Kills          int  `json:"kills"`     // worker processes killed
	KillsInCharge  int  `json:"kills_in_charge"`
	KillsInMail    int  `json:"kills_in_mail"`
	KillsInWebhook int  `json:"kills_in_webhook"`
	KillsAnywhere  int  `json:"kills_anywhere"` // not aimed
	Freezes        int  `json:"freezes"`        // worker processes frozen past their lease, thawed and refused
	FreezesLeftOut bool `json:"freezes_left_out,omitempty"`

	ServerRestarts int `json:"server_restarts,omitempty"` // the database's server killed and started again

	FreezesInEffect int `json:"freezes_in_effect"` // of them inside a charge, mail or webhook

	Charges         int `json:"charges"` // that the provider applied
	DoubleCharges   int `json:"double_charges"`
	MissingCharges  int `json:"missing_charges"`
	Emails          int `json:"emails"` // that the mailbox took
	DoubleEmails    int `json:"double_emails"`
	MissingEmails   int `json:"missing_emails"`
	Webhooks        int `json:"webhooks"` // deliveries that the receiver took as new
	DoubleWebhooks  int `json:"double_webhooks"`
	MissingWebhooks int `json:"missing_webhooks"`
	ReplayedAnswers int `json:"replayed_answers"` // requests that a service recognised as repeats

	Invoices        int `json:"invoices"` // rows
	DoubleInvoices  int `json:"double_invoices"`
	MissingInvoices int `json:"missing_invoices"`
	TornCommits     int `json:"torn_commits"` // rows and success not seen together

	Uncertain           int `json:"uncertain"` // jobs whose effect is neither known nor ruled out
	Lost                int `json:"lost"`      // accepted jobs that are gone or have not ended
	StaleWritesRefused  int `json:"stale_writes_refused"`
	StaleWritesAccepted int `json:"stale_writes_accepted"`

	Input   string  `json:"input"`
	Seed    uint64  `json:"seed"`
	Seconds float64 `json:"seconds"`
	Kept    string  `json:"kept,omitempty"` // the folder with the database, logs and records
	// KeptSchema is the schema that stays on a server.
	KeptSchema string   `json:"kept_schema,omitempty"`
	Findings   []string `json:"findings"` // everything that is not as promised; empty is well
}

func (r *Report) find(format string, args ...any) {
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(what string, n int, note string, args ...any) {
		fmt.Fprintf(table, "%s\t%d\t\t%s\n", what, n, fmt.Sprintf(note, args...))
	}
	row("orders", r.Orders, "of %d customers, from %s; enqueued %d times", r.Customers, view.Safe(r.Input), r.Enqueues)
	row("duplicates", r.Duplicates, "%d answered with the active job, %d rejected, %d a new operation after success",
		r.Existing, r.Rejected, r.Duplicates-r.Existing-r.Rejected)
	row("kills", r.Kills, "worker processes: %d inside a charge, %d a mail, %d a webhook, %d anywhere",
		r.KillsInCharge, r.KillsInMail, r.KillsInWebhook, r.KillsAnywhere)
	if r.FreezesLeftOut {
		row("freezes", 0, "left out: this system has no SIGSTOP")
	} else {
		row("freezes", r.Freezes, "worker processes: %d inside an effect, past their lease, then thawed", r.FreezesInEffect)
	}
	if r.ServerRestarts > 0 {
		row("restarts", r.ServerRestarts, "of the database's server, killed and started again")
	}
	row("charges", r.Charges, "by the provider's record: %d double, %d missing", r.DoubleCharges, r.MissingCharges)
	row("emails", r.Emails, "by the mailbox's record: %d double, %d missing", r.DoubleEmails, r.MissingEmails)
	row("webhooks", r.Webhooks, "by the receiver's record: %d double, %d missing", r.DoubleWebhooks, r.MissingWebhooks)
	row("repeats", r.ReplayedAnswers, "recognised by provider and receiver, by the idempotency key")
	row("invoices", r.Invoices, "rows: %d double, %d missing, %d not committed with their job",
		r.DoubleInvoices, r.MissingInvoices, r.TornCommits)
	row("jobs", r.Jobs, "%d lost, %d uncertain", r.Lost, r.Uncertain)
	row("stale writes", r.StaleWritesRefused, "refused, %d accepted", r.StaleWritesAccepted)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("demo: write the report: %w", err)
	}
	if r.Kept != "" {
		fmt.Fprintf(out, "\nKept in %s.\n", view.Safe(r.Kept))
	}
	if r.KeptSchema != "" {
		fmt.Fprintf(out, "Kept in the database: schema %s.\n", view.Safe(r.KeptSchema))
	}
	if !r.OK {
		fmt.Fprintf(out, "\nNot as promised:\n")
		for _, finding := range r.Findings {
			fmt.Fprintf(out, "  - %s\n", view.SafeLines(finding))
		}
	}
	verdict := "Each order was charged and invoiced exactly once, each customer mailed once, each event delivered once."
	if !r.OK {
		verdict = "FAILED."
	}
	_, err := fmt.Fprintf(out, "\n%s Seed %d, %.1f s.\n", verdict, r.Seed, r.Seconds)
	return err
}
