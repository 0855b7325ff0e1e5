package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nexjob/nexjob"
)

// gather reads the records of all parties.
func (s *stage) gather(ctx context.Context) (*evidence, error) {
	db := s.store.DB()
	e := &evidence{
		answers: s.enqueuer.list(0), payments: s.provider.Payments(), replayed: s.provider.Replayed(),
		kills: s.kills.list(), stale: s.stale.list(),
	}
	e.started, e.killed = s.crew.counts()
	for torn := range inOrder(s.witness.torn) {
		e.torn = append(e.torn, torn)
	}
	var err error
	if e.jobs, err = s.allJobs(ctx); err != nil {
		return nil, err
	}
	if e.effects, err = s.allEffects(ctx, e.jobs); err != nil {
		return nil, err
	}
	if e.invoices, err = invoicesAfter(ctx, db, 0); err != nil {
		return nil, err
	}
	if e.paid, err = paidOrders(ctx, db); err != nil {
		return nil, err
	}
	if err := db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&e.integrity); err != nil {
		return nil, fmt.Errorf("demo: check the database file: %w", err)
	}
	return e, nil
}

// allJobs reads every job of the storage, page by page: there are none but the
// shop's.
func (s *stage) allJobs(ctx context.Context) ([]nexjob.Job, error) {
	var jobs []nexjob.Job
	q := nexjob.Query{Limit: nexjob.MaxPage}
	for {
		page, err := s.client.Find(ctx, q)
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
			page, err := s.client.Find(ctx, q)
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
func keepRecords(dir string, e *evidence, r *Report) error {
	for name, record := range map[string]any{
		"report.json": r, "payments.json": e.payments, "kills.json": e.kills,
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
