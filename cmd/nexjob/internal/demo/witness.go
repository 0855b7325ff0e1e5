package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
)

// witness looks on from outside, through connections of its own: after each commit of
// a worker, and besides as often as it can without being in the way. It sees the ends
// of charges, which is when repeats after a success are sent, and it looks for what must
// never be seen: a row of the shop's whose job has not succeeded, or a charge's success
// without its invoice. Both are committed together, so there is no moment between them.
type witness struct {
	client   *nexjob.Client
	books    shop.Books
	arrivals *arrivals
	hand     *harm.Hand
	repeats  map[int64][]orders.Line // still to be sent, each after a success of its order

	answers int                 // of the arrivals that were looked at
	waiting map[nexjob.ID]int64 // accepted charges that have not ended, and their orders
	ended   map[nexjob.ID]bool
	invoice fresh          // the numbers of invoices seen
	noted   fresh          // the numbers of deliveries seen
	booked  map[int64]bool // orders with an invoice

	mu   sync.Mutex
	torn map[string]bool // what must never be seen
}

func newWitness(
	client *nexjob.Client, books shop.Books, a *arrivals, hand *harm.Hand, lines []orders.Line,
) *witness {
	repeats := make(map[int64][]orders.Line)
	for _, line := range lines {
		if line.AfterSuccess {
			repeats[line.OrderID] = append(repeats[line.OrderID], line)
		}
	}
	return &witness{
		client: client, books: books, arrivals: a, hand: hand, repeats: repeats, waiting: make(map[nexjob.ID]int64),
		ended: make(map[nexjob.ID]bool), booked: make(map[int64]bool), torn: make(map[string]bool),
		invoice: newFresh(books.InOrder()), noted: newFresh(books.InOrder()),
	}
}

// longestPause is how long the witness looks away at most.
const longestPause = 200 * time.Millisecond

// watch looks on until every job has ended, every repeat is sent and every planned blow
// is carried out, once sent says that the first arrivals are through.
func (w *witness) watch(ctx context.Context, sent <-chan struct{}) error {
	look := func() (done bool, err error) {
		err = cast.Patiently(ctx, func() error { // the server may be away
			done, err = w.look(ctx)
			return err
		})
		return done, err
	}
	for {
		through := w.arrivals.idle()
		select {
		case <-sent:
		default:
			through = false
		}
		began := time.Now()
		done, err := look()
		if err != nil {
			if ctx.Err() != nil { // it was interrupted, and its error does not say why
				return context.Cause(ctx)
			}
			return err
		}
		if through && done && !w.hand.Rest() && w.arrivals.idle() && w.seen() {
			return nil
		}
		// About a fifth of one processor goes to looking. A look that had to wait for the file
		// says nothing of that, so the pause is bounded.
		pause := time.NewTimer(min(max(time.Millisecond, 4*time.Since(began)), longestPause))
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// look looks once, and reports whether nothing is left to be worked.
func (w *witness) look(ctx context.Context) (done bool, err error) {
	w.accept()
	if err := w.lookAtRows(ctx); err != nil {
		return false, err
	}
	if err := w.lookAtCharges(ctx); err != nil {
		return false, err
	}
	if len(w.waiting) > 0 {
		return false, nil
	}
	left, err := w.working(ctx, 1)
	return len(left) == 0 && len(w.waiting) == 0, err
}

// seen reports whether every answer was looked at.
func (w *witness) seen() bool { return len(w.arrivals.list(w.answers)) == 0 }

// working returns jobs that have not ended and that somebody will move: an Uncertain one
// without a due time waits for a person, and the audit says why. All states are asked for
// at once: of two questions, a job that is claimed for its look-up between them would be
// in neither answer, and the run would end before its job does.
func (w *witness) working(ctx context.Context, limit int) ([]nexjob.Job, error) {
	q := nexjob.Query{Limit: nexjob.MaxPage, States: []nexjob.State{
		nexjob.Enqueued, nexjob.Scheduled, nexjob.Processing, nexjob.AwaitingContinuation, nexjob.Uncertain,
	}}
	var left []nexjob.Job
	for {
		page, err := w.client.Find(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("demo: look for jobs that wait: %w", err)
		}
		for i := range page.Jobs {
			if j := &page.Jobs[i]; j.State != nexjob.Uncertain || !j.DueAt.IsZero() {
				left = append(left, *j)
			}
		}
		if q.After = page.Next; q.After == "" || len(left) >= limit {
			return left[:min(len(left), limit)], nil
		}
	}
}

// fresh tells new rows of a table by their numbers. Where rows appear in the order of
// their numbers the newest is enough; elsewhere one with a smaller number may come later.
type fresh struct {
	last int64          // all up to it are seen
	seen map[int64]bool // nil: in order
}

func newFresh(inOrder bool) fresh {
	if inOrder {
		return fresh{}
	}
	return fresh{seen: make(map[int64]bool)}
}

func (f *fresh) take(number int64) {
	if f.seen == nil {
		f.last = number
		return
	}
	f.seen[number] = true
}

// row is one of the shop's rows that is committed with the success of its job.
type row struct {
	what string
	job  nexjob.ID
}

// lookAtRows reads new rows first and their jobs later, so that a job which is not seen
// as Succeeded had not succeeded when its row was there.
func (w *witness) lookAtRows(ctx context.Context) error {
	invoices, err := shop.Invoices(ctx, w.books, w.invoice.last)
	if err != nil {
		return fmt.Errorf("demo: look at the rows: %w", err)
	}
	notes, err := shop.Deliveries(ctx, w.books, w.noted.last)
	if err != nil {
		return fmt.Errorf("demo: look at the rows: %w", err)
	}
	invoices = slices.DeleteFunc(invoices, func(i shop.Invoice) bool { return w.invoice.seen[i.Number] })
	notes = slices.DeleteFunc(notes, func(n shop.Delivery) bool { return w.noted.seen[n.Number] })
	var rows []row
	for _, i := range invoices {
		rows = append(rows, row{fmt.Sprintf("the invoice of order %d", i.OrderID), i.Job})
	}
	for _, n := range notes {
		rows = append(rows, row{"the note that " + n.Event + " is delivered", n.Job})
	}
	for chunk := range slices.Chunk(rows, nexjob.MaxPage) {
		ids := make([]nexjob.ID, len(chunk))
		for i := range chunk {
			ids[i] = chunk[i].job
		}
		states, err := w.states(ctx, ids)
		if err != nil {
			return err
		}
		for _, r := range chunk {
			if state := states[r.job]; state != nexjob.Succeeded {
				w.tear("%s was there while its job %s was %s", r.what, r.job, state)
			}
		}
	}
	for _, i := range invoices {
		w.invoice.take(i.Number)
		w.booked[i.OrderID] = true
	}
	for _, n := range notes {
		w.noted.take(n.Number)
	}
	return nil
}

// lookAtCharges reads jobs first and invoices later, for the same reason.
func (w *witness) lookAtCharges(ctx context.Context) error {
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
	if err := w.lookAtRows(ctx); err != nil {
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

// atCommit looks at one job and its rows while the worker that committed waits, so
// nothing of them changes meanwhile.
func (w *witness) atCommit(ctx context.Context, job nexjob.ID) error {
	states, err := w.states(ctx, []nexjob.ID{job})
	if err != nil {
		return err
	}
	rows, err := shop.CountRows(ctx, w.books, job)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	switch state := states[job]; {
	case rows > 0 && state != nexjob.Succeeded:
		w.tear("a row of job %s was committed while the job was %s", job, state)
	case rows == 0 && state == nexjob.Succeeded:
		w.tear("job %s had succeeded while its row was not there", job)
	}
	return nil
}

// tear notes what must never be seen, once.
func (w *witness) tear(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.torn[fmt.Sprintf(format, args...)] = true
}

// seenTorn returns what must never be seen and was.
func (w *witness) seenTorn() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.torn))
}

// repeat sends the order once more, if the input says so.
func (w *witness) repeat(ctx context.Context, order int64) error {
	rest := w.repeats[order]
	if len(rest) == 0 {
		return nil
	}
	w.repeats[order] = rest[1:]
	if err := w.arrivals.send(ctx, "after success", rest[0]); err != nil {
		return err
	}
	w.accept()
	return nil
}

// accept takes the charges of new answers among those that are waited for.
func (w *witness) accept() {
	for _, a := range w.arrivals.list(w.answers) {
		w.answers++
		if a.Error == "" && a.Key == shop.PaymentKey(a.OrderID) && !w.ended[a.Job] {
			w.waiting[a.Job] = a.OrderID
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

// whyWaiting explains, per key that is not done, what it waits for.
func (w *witness) whyWaiting(ctx context.Context) []string {
	const enough = 10
	left, err := w.working(ctx, enough+1)
	if err != nil {
		return []string{err.Error()}
	}
	var why []string
	for i := range left {
		if i == enough {
			return append(why, "further jobs wait too")
		}
		explained, err := w.client.Explain(ctx, left[i].Key)
		if err != nil {
			why = append(why, fmt.Sprintf("%s waits, and why cannot be read: %v", left[i].Key, err))
			continue
		}
		why = append(why, fmt.Sprintf("%s waits: %s", left[i].Key, explained.Sentence))
	}
	return why
}
