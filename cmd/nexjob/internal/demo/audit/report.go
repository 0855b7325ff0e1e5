package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// Report is the audit's result. The JSON names are part of the command's interface.
type Report struct {
	OK bool `json:"ok"`

	Orders     int `json:"orders"`     // different ones
	Enqueues   int `json:"enqueues"`   // of all of them, repeats included
	Duplicates int `json:"duplicates"` // enqueues of an order that had been enqueued before
	Existing   int `json:"existing"`   // duplicates that were answered with the active job
	Jobs       int `json:"jobs"`       // created: one per order, and one per repeat after its success

	Processes     int `json:"processes"`       // worker processes started
	Kills         int `json:"kills"`           // worker processes killed
	KillsInCharge int `json:"kills_in_charge"` // of them while they waited for the provider

	Charges         int `json:"charges"` // that the provider applied
	DoubleCharges   int `json:"double_charges"`
	MissingCharges  int `json:"missing_charges"`
	ReplayedAnswers int `json:"replayed_answers"` // requests that the provider recognised as repeats

	Invoices        int `json:"invoices"` // rows
	DoubleInvoices  int `json:"double_invoices"`
	MissingInvoices int `json:"missing_invoices"`
	TornCommits     int `json:"torn_commits"` // invoice and success not seen together

	Uncertain           int `json:"uncertain"` // jobs that wait for a person
	Lost                int `json:"lost"`      // accepted jobs that are gone or have not ended
	StaleWritesRefused  int `json:"stale_writes_refused"`
	StaleWritesAccepted int `json:"stale_writes_accepted"`

	Input    string   `json:"input"`
	Seed     uint64   `json:"seed"`
	Seconds  float64  `json:"seconds"`
	Kept     string   `json:"kept,omitempty"` // the folder with the database, logs and records
	Findings []string `json:"findings"`       // everything that is not as promised; empty is well
}

func (r *Report) find(format string, args ...any) {
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(out io.Writer) error {
	if r.Findings == nil {
		r.Findings = []string{} // a list without items, not null
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("demo: write the report: %w", err)
	}
	return nil
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(what string, n int, note string, args ...any) {
		fmt.Fprintf(table, "%s\t%d\t\t%s\n", what, n, fmt.Sprintf(note, args...))
	}
	row("orders", r.Orders, "enqueued %d times from %s", r.Enqueues, r.Input)
	row("duplicates", r.Duplicates, "%d answered with the active job, %d came after its success",
		r.Existing, r.Duplicates-r.Existing)
	row("kills", r.Kills, "worker processes killed, %d of them inside a charge", r.KillsInCharge)
	row("charges", r.Charges, "by the provider's record: %d double, %d missing; it recognised %d repeats",
		r.DoubleCharges, r.MissingCharges, r.ReplayedAnswers)
	row("invoices", r.Invoices, "rows: %d double, %d missing, %d not committed with their job",
		r.DoubleInvoices, r.MissingInvoices, r.TornCommits)
	row("jobs", r.Jobs, "%d lost, %d uncertain", r.Lost, r.Uncertain)
	row("stale writes", r.StaleWritesRefused, "refused, %d accepted", r.StaleWritesAccepted)
	if err := table.Flush(); err != nil {
		return fmt.Errorf("demo: write the report: %w", err)
	}
	if r.Kept != "" {
		fmt.Fprintf(out, "\nKept in %s.\n", r.Kept)
	}
	if !r.OK {
		fmt.Fprintf(out, "\nNot as promised:\n")
		for _, finding := range r.Findings {
			fmt.Fprintf(out, "  - %s\n", finding)
		}
	}
	verdict := "Each order was charged and invoiced exactly once."
	if !r.OK {
		verdict = "FAILED."
	}
	_, err := fmt.Fprintf(out, "\n%s Seed %d, %.1f s.\n", verdict, r.Seed, r.Seconds)
	return err
}
