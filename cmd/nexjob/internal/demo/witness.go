package demo

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// witness looks on from outside, through connections of its own: after each commit of
// a worker, and besides as often as it can without being in the way. It sees the ends
// of jobs, which is when repeats after a success are sent, and it looks for what must
// never be seen: an invoice whose job has not succeeded, or a success without the
// invoice. Both are committed together, so there is no moment between them.
type witness struct {
	client   *nexjob.Client
	db       *sql.DB
	enqueuer *enqueuer
	repeats  map[int64][]Line // still to be sent, each after a success of its order

	answers int                 // of the enqueuer that were looked at
	waiting map[nexjob.ID]int64 // accepted jobs that have not ended, and their orders
	ended   map[nexjob.ID]bool
	invoice int64          // the newest number seen
	booked  map[int64]bool // orders with an invoice

	mu   sync.Mutex
	torn map[string]bool // what must never be seen
}

func newWitness(client *nexjob.Client, db *sql.DB, e *enqueuer, lines []Line) *witness {
	repeats := make(map[int64][]Line)
	for _, line := range lines {
		if line.AfterSuccess {
			repeats[line.OrderID] = append(repeats[line.OrderID], line)
		}
	}
	return &witness{
		client: client, db: db, enqueuer: e, repeats: repeats, waiting: make(map[nexjob.ID]int64),
		ended: make(map[nexjob.ID]bool), booked: make(map[int64]bool), torn: make(map[string]bool),
	}
}

// watch looks on until every accepted job has ended and every repeat is sent, once
// sent says that the first sendings are through.
func (w *witness) watch(ctx context.Context, sent <-chan struct{}) error {
	for {
		through := w.enqueuer.idle()
		select {
		case <-sent:
		default:
			through = false
		}
		began := time.Now()
		if err := w.look(ctx); err != nil {
			if ctx.Err() != nil { // it was interrupted, and its error does not say why
				return context.Cause(ctx)
			}
			return err
		}
		if through && len(w.waiting) == 0 {
			return nil
		}
		// At most a fifth of one processor goes to looking.
		pause := time.NewTimer(max(time.Millisecond, 4*time.Since(began)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// look looks once.
func (w *witness) look(ctx context.Context) error {
	w.accept()
	if err := w.lookAtInvoices(ctx); err != nil {
		return err
	}
	return w.lookAtJobs(ctx)
}

// lookAtInvoices reads new invoices first and their jobs later, so that a job which
// is not seen as Succeeded had not succeeded when its invoice was there.
func (w *witness) lookAtInvoices(ctx context.Context) error {
	invoices, err := invoicesAfter(ctx, w.db, w.invoice)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(invoices, nexjob.MaxPage) {
		ids := make([]nexjob.ID, len(chunk))
		for i := range chunk {
			ids[i] = chunk[i].Job
		}
		states, err := w.states(ctx, ids)
		if err != nil {
			return err
		}
		for _, invoice := range chunk {
			w.invoice = invoice.Number
			w.booked[invoice.OrderID] = true
			if state := states[invoice.Job]; state != nexjob.Succeeded {
				w.tear("the invoice of order %d was there while its job %s was %s", invoice.OrderID, invoice.Job, state)
			}
		}
	}
	return nil
}

// lookAtJobs reads jobs first and invoices later, for the same reason.
func (w *witness) lookAtJobs(ctx context.Context) error {
	var successes []nexjob.ID
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(w.waiting)), nexjob.MaxPage) {
		states, err := w.states(ctx, chunk)
		if err != nil {
			return err
		}
		for id, state := range states {
			switch {
			case state == nexjob.Succeeded:
				successes = append(successes, id)
			case state == nexjob.Uncertain || state.Terminal():
				w.end(id) // nothing but a person moves it; the audit says why
			}
		}
	}
	if len(successes) == 0 {
		return nil
	}
	if err := w.lookAtInvoices(ctx); err != nil {
		return err
	}
	for _, id := range successes {
		order := w.waiting[id]
		if !w.booked[order] {
			w.tear("job %s of order %d had succeeded while its invoice was not there", id, order)
		}
		if err := w.repeat(ctx, order); err != nil {
			return err
		}
		w.end(id)
	}
	return nil
}

// atCommit looks at one order while the worker that committed waits, so nothing of it
// changes meanwhile.
func (w *witness) atCommit(ctx context.Context, c commit) error {
	states, err := w.states(ctx, []nexjob.ID{c.Job})
	if err != nil {
		return err
	}
	var invoices int
	err = w.db.QueryRowContext(ctx, `SELECT count(*) FROM invoices WHERE order_id = ?`, c.OrderID).Scan(&invoices)
	if err != nil {
		return fmt.Errorf("demo: count the invoices of order %d: %w", c.OrderID, err)
	}
	switch state := states[c.Job]; {
	case invoices > 0 && state != nexjob.Succeeded:
		w.tear("the invoice of order %d was there while its job %s was %s", c.OrderID, c.Job, state)
	case invoices == 0 && state == nexjob.Succeeded:
		w.tear("job %s of order %d had succeeded while its invoice was not there", c.Job, c.OrderID)
	}
	return nil
}

// tear notes what must never be seen, once.
func (w *witness) tear(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.torn[fmt.Sprintf(format, args...)] = true
}

// repeat sends the order once more, if the input says so.
func (w *witness) repeat(ctx context.Context, order int64) error {
	rest := w.repeats[order]
	if len(rest) == 0 {
		return nil
	}
	w.repeats[order] = rest[1:]
	if err := w.enqueuer.send(ctx, rest[0]); err != nil {
		return err
	}
	w.accept()
	return nil
}

// accept takes the jobs of new answers among those that are waited for.
func (w *witness) accept() {
	for _, a := range w.enqueuer.list(w.answers) {
		w.answers++
		if a.Err == nil && !w.ended[a.Answer.ID] {
			w.waiting[a.Answer.ID] = a.OrderID
		}
	}
}

func (w *witness) end(id nexjob.ID) {
	delete(w.waiting, id)
	w.ended[id] = true
}

// states returns the states of stored jobs; one that is not stored has none.
func (w *witness) states(ctx context.Context, ids []nexjob.ID) (map[nexjob.ID]nexjob.State, error) {
	states := make(map[nexjob.ID]nexjob.State, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	page, err := w.client.Find(ctx, nexjob.Query{IDs: ids, Limit: nexjob.MaxPage})
	if err != nil {
		return nil, fmt.Errorf("demo: look at the jobs: %w", err)
	}
	for i := range page.Jobs {
		states[page.Jobs[i].ID] = page.Jobs[i].State
	}
	return states, nil
}

// whyWaiting explains, per order that is not done, what it waits for.
func (w *witness) whyWaiting(ctx context.Context) []string {
	const enough = 10
	orders := slices.Sorted(maps.Values(w.waiting))
	var why []string
	for i, order := range slices.Compact(orders) {
		if i == enough {
			return append(why, "further orders wait too")
		}
		explained, err := w.client.Explain(ctx, paymentKey(order))
		if err != nil {
			why = append(why, fmt.Sprintf("order %d waits, and why cannot be read: %v", order, err))
			continue
		}
		why = append(why, fmt.Sprintf("order %d waits: %s", order, explained.Sentence))
	}
	return why
}
