package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/audit"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
)

// gather reads the records of all parties.
func (s *stage) gather(ctx context.Context) (*audit.Evidence, error) {
	e := &audit.Evidence{
		Answers: s.arrivals.list(0), Payments: s.services.payment.Payments(), Messages: s.services.mail.Messages(),
		Deliveries: s.services.webhook.Deliveries(),
		Replayed:   s.services.payment.Replayed() + s.services.webhook.Replayed(),
		Blows:      s.hand.Blows(), Stale: s.ghost.Writes(), StaleByWorkers: s.hand.StaleRefused(),
		Torn: s.witness.seenTorn(),
	}
	e.Started, e.Killed = s.crew.Counts()
	var err error
	if e.Jobs, err = s.allJobs(ctx); err != nil {
		return nil, err
	}
	if e.Effects, err = s.allEffects(ctx, e.Jobs); err != nil {
		return nil, err
	}
	if e.Invoices, err = shop.Invoices(ctx, s.at.Books, 0); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if e.Noted, err = shop.Deliveries(ctx, s.at.Books, 0); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if e.Paid, err = shop.Payments(ctx, s.at.Books); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if e.Damage, err = s.at.Books.Check(ctx); err != nil {
		return nil, fmt.Errorf("demo: check the database: %w", err)
	}
	return e, nil
}

// allJobs reads every job of the storage, page by page: there are none but the
// shop's.
func (s *stage) allJobs(ctx context.Context) ([]nexjob.Job, error) {
	var jobs []nexjob.Job
	q := nexjob.Query{Limit: nexjob.MaxPage}
	for {
		page, err := s.at.Client.Find(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("demo: read the jobs: %w", err)
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" {
			return jobs, nil
		}
		q.After = page.Next
	}
}

// allEffects reads the effect ledger of the jobs' operations.
func (s *stage) allEffects(ctx context.Context, jobs []nexjob.Job) ([]nexjob.Receipt, error) {
	var operations []nexjob.ID
	seen := make(map[nexjob.ID]bool)
	for i := range jobs {
		if id := jobs[i].Operation; !seen[id] {
			seen[id] = true
			operations = append(operations, id)
		}
	}
	var effects []nexjob.Receipt
	for chunk := range slices.Chunk(operations, 500) {
		q := nexjob.Query{Of: nexjob.Effects, Operations: chunk, Limit: nexjob.MaxPage}
		for {
			page, err := s.at.Client.Find(ctx, q)
			if err != nil {
				return nil, fmt.Errorf("demo: read the effect ledger: %w", err)
			}
			effects = append(effects, page.Effects...)
			if q.After = page.Next; q.After == "" {
				break
			}
		}
	}
	return effects, nil
}

// keepRecords leaves the report and the records that are not in the database beside
// it, for people.
func keepRecords(dir string, e *audit.Evidence, r *audit.Report) error {
	for name, record := range map[string]any{
		"report.json": r, "payments.json": e.Payments, "mails.json": e.Messages,
		"webhooks.json": e.Deliveries, "kills.json": e.Blows,
	} {
		text, err := json.MarshalIndent(record, "", "  ")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o600)
		}
		if err != nil {
			return fmt.Errorf("demo: keep %s: %w", name, err)
		}
	}
	return nil
}
