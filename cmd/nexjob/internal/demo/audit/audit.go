package demo

import (
	"cmp"
	"maps"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// evidence is what the parties' records say after the run. The provider's record is
// believed about charges, the table of invoices about invoices, the storage about
// jobs and effects; no party is asked about another's.
type evidence struct {
	lines       []Line
	answers     []Answered
	jobs        []nexjob.Job
	effects     []nexjob.Receipt
	payments    []outside.Payment
	replayed    int
	invoices    []Invoice
	paid        map[int64]string // orders that the shop holds for paid, and by which charge
	kills       []Kill
	killsWanted int
	stale       []StaleWrite
	torn        []string // seen by the witness
	trouble     []string // what else went wrong: a time limit, a process that ended by itself
	integrity   string   // what SQLite says of the file; "ok" is well
	started     int      // worker processes
	killed      int      // that the demo killed, wherever they were
}

// audit counts and says everything that is not exactly as promised.
func (e *evidence) audit() Report {
	r := Report{
		Enqueues: len(e.answers), Jobs: len(e.jobs), Kills: e.killed, KillsInCharge: len(e.kills),
		Charges: len(e.payments), ReplayedAnswers: e.replayed, Invoices: len(e.invoices), Processes: e.started,
		Findings: slices.Clone(e.trouble),
	}
	orders := make(map[int64]Line)
	for _, line := range e.lines {
		orders[line.OrderID] = line
	}
	r.Orders = len(orders)
	r.Duplicates = r.Enqueues - r.Orders
	e.auditAnswers(&r)
	e.auditJobs(&r)
	e.auditPayments(&r, orders)
	e.auditInvoices(&r, orders)
	e.auditEffects(&r)
	e.auditKills(&r)
	for _, torn := range e.torn {
		r.find("not in one transaction: %s", torn)
	}
	r.TornCommits = len(e.torn)
	if e.integrity != "ok" {
		r.find("the database file is damaged: %s", e.integrity)
	}
	r.OK = len(r.Findings) == 0
	return r
}

// auditAnswers checks that each enqueue was accepted, and that its answer names a
// job of the order.
func (e *evidence) auditAnswers(r *Report) {
	keys := make(map[nexjob.ID]string, len(e.jobs))
	for i := range e.jobs {
		keys[e.jobs[i].ID] = e.jobs[i].Key
	}
	sendings := make(map[int64]int)
	created := make(map[nexjob.ID]bool)
	for _, a := range e.answers {
		sendings[a.OrderID]++
		id := a.Answer.ID
		if a.Err != nil {
			r.find("an enqueue of order %d was answered with an error: %v", a.OrderID, a.Err)
			continue
		}
		switch key, stored := keys[id]; {
		case !stored:
			r.Lost++
			r.find("job %s of order %d was accepted and is not stored", id, a.OrderID)
		case key != paymentKey(a.OrderID):
			r.find("an enqueue of order %d was answered with job %s of key %q", a.OrderID, id, key)
		}
		switch a.Answer.Outcome {
		case nexjob.Existing:
			r.Existing++
		case nexjob.Created:
			if created[id] {
				r.find("job %s of order %d was created twice", id, a.OrderID)
			}
			created[id] = true
		default:
			r.find("an enqueue of order %d was answered as %s", a.OrderID, a.Answer.Outcome)
		}
	}
	wanted := make(map[int64]int)
	for _, line := range e.lines {
		wanted[line.OrderID]++
	}
	for order, n := range inOrder(wanted) {
		if sendings[order] < n {
			r.find("order %d was sent %d times of %d", order, sendings[order], n)
		}
	}
	if len(created) != len(e.jobs) {
		r.find("%d jobs are stored, and %d were answered as created", len(e.jobs), len(created))
	}
}

// auditJobs checks that every job succeeded, and that no two jobs of one key were
// active at the same time.
func (e *evidence) auditJobs(r *Report) {
	byKey := make(map[string][]nexjob.Job)
	for i := range e.jobs {
		job := e.jobs[i]
		byKey[job.Key] = append(byKey[job.Key], job)
		switch {
		case job.State == nexjob.Uncertain:
			r.Uncertain++
			r.find("job %s of key %s is Uncertain: %s", job.ID, job.Key, job.Reason)
		case !job.State.Terminal():
			r.Lost++
			r.find("job %s of key %s has not ended, it is %s: %s", job.ID, job.Key, job.State, job.Reason)
		case job.State != nexjob.Succeeded:
			r.find("job %s of key %s ended %s: %s", job.ID, job.Key, job.State, job.Reason)
		}
	}
	for key, jobs := range byKey {
		slices.SortFunc(jobs, func(a, b nexjob.Job) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) })
		for i := 1; i < len(jobs); i++ {
			if before := &jobs[i-1]; before.EndedAt.IsZero() || jobs[i].EnqueuedAt.Before(before.EndedAt) {
				r.find("key %s had two active jobs: %s and %s", key, before.ID, jobs[i].ID)
			}
		}
	}
}

// auditPayments checks the provider's record against the orders: each charged once,
// with its amount.
func (e *evidence) auditPayments(r *Report, orders map[int64]Line) {
	charged := make(map[int64][]outside.Payment)
	for _, p := range e.payments {
		charged[p.OrderID] = append(charged[p.OrderID], p)
		line, known := orders[p.OrderID]
		switch {
		case !known:
			r.find("the provider charged order %d, which nobody sent", p.OrderID)
		case p.Cents != line.Cents || p.Currency != line.Currency:
			r.find("order %d of %s was charged with %d cents %s", p.OrderID, line.amount(), p.Cents, p.Currency)
		}
	}
	for order := range inOrder(orders) {
		switch n := len(charged[order]); {
		case n == 0:
			r.MissingCharges++
			r.find("order %d was never charged", order)
		case n > 1:
			r.DoubleCharges += n - 1
			r.find("order %d was charged %d times", order, n)
		}
	}
}

// auditInvoices counts the rows per order and checks that each was written by the
// attempt that ended its job, for the charge that the provider made.
func (e *evidence) auditInvoices(r *Report, orders map[int64]Line) {
	jobs := make(map[nexjob.ID]*nexjob.Job, len(e.jobs))
	for i := range e.jobs {
		jobs[e.jobs[i].ID] = &e.jobs[i]
	}
	payments := make(map[string]outside.Payment, len(e.payments))
	for _, p := range e.payments {
		payments[p.ID] = p
	}
	rows := make(map[int64]int)
	for _, i := range e.invoices {
		rows[i.OrderID]++
		if p, known := payments[i.Charge]; !known || p.OrderID != i.OrderID || p.Cents != i.Cents {
			r.find("invoice %d of order %d is for charge %q of %d cents, of which the provider knows nothing",
				i.Number, i.OrderID, i.Charge, i.Cents)
		}
		switch job := jobs[i.Job]; {
		case job == nil:
			r.find("invoice %d of order %d was written by job %s, which is not stored", i.Number, i.OrderID, i.Job)
		case job.SettledFence != i.Fence:
			r.find("invoice %d of order %d was written under fence %d, and its job was ended under fence %d",
				i.Number, i.OrderID, i.Fence, job.SettledFence)
		}
		if e.paid[i.OrderID] != i.Charge {
			r.find("order %d is paid by %q in the shop, and its invoice is for charge %q",
				i.OrderID, e.paid[i.OrderID], i.Charge)
		}
	}
	for order := range inOrder(orders) {
		switch n := rows[order]; {
		case n == 0:
			r.MissingInvoices++
			r.find("order %d has no invoice", order)
		case n > 1:
			r.DoubleInvoices += n - 1
			r.find("order %d has %d invoices", order, n)
		}
	}
}

// auditEffects checks the effect ledger against the provider's record: every charge
// stands there as confirmed under the key that the provider saw, and nothing else.
func (e *evidence) auditEffects(r *Report) {
	confirmed := make(map[string]bool)
	for i := range e.effects {
		effect := &e.effects[i]
		switch effect.State {
		case nexjob.Confirmed:
			confirmed[effect.OutsideKey] = true
		default:
			r.find("effect %q of operation %s is %s", effect.Name, effect.Operation, effect.State)
		}
	}
	for _, p := range e.payments {
		if !confirmed[p.Key] {
			r.find("the ledger does not confirm charge %s of order %d", p.ID, p.OrderID)
		}
		delete(confirmed, p.Key)
	}
	for key := range inOrder(confirmed) {
		r.find("the ledger confirms a charge under key %s, and the provider made none", key)
	}
}

// auditKills checks that the run was as hard as it was asked to be: a demo without
// its kills proves nothing.
func (e *evidence) auditKills(r *Report) {
	if len(e.kills) != e.killsWanted {
		r.find("%d workers were killed inside a charge, and %d kills were asked for", len(e.kills), e.killsWanted)
	}
	for i := range e.stale {
		write := &e.stale[i]
		switch {
		case write.refused():
			r.StaleWritesRefused++
		case write.Err == nil:
			r.StaleWritesAccepted++
			r.find("a stale worker's %s for order %d was accepted", write.What, write.OrderID)
		default:
			r.find("a stale worker's %s for order %d could not be tried: %v", write.What, write.OrderID, write.Err)
		}
	}
	if want := 2 * len(e.kills); len(e.stale) != want {
		r.find("%d stale writes were tried, and the kills left %d to try", len(e.stale), want)
	}
}

// inOrder yields a map's entries by key, so that findings come in one order.
func inOrder[K cmp.Ordered, V any](m map[K]V) func(yield func(K, V) bool) {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
