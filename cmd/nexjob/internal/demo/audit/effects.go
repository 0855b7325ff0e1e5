package audit

import (
	"fmt"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// tally counts what was done to each of those that it must be done to exactly once.
type tally[K comparable] struct {
	what          string // as in "order 7 was charged 2 times"
	double, never *int
	count         map[K]int
}

// judge finds those to whom it was done twice or never, in the order of the input.
func (t tally[K]) judge(r *Report, all []K) {
	for _, one := range all {
		switch n := t.count[one]; {
		case n == 0:
			*t.never++
			r.find("%v was never %s", one, t.what)
		case n > 1:
			*t.double += n - 1
			r.find("%v was %s %d times", one, t.what, n)
		}
		delete(t.count, one)
	}
	for one := range t.count {
		r.find("%v was %s, of which no line tells", one, t.what)
	}
}

// name is what a finding calls an order.
type name struct{ order int64 }

func (n name) String() string { return fmt.Sprintf("order %d", n.order) }

func names(lines []orders.Line) []name {
	var all []name
	for _, line := range orders.First(lines) {
		all = append(all, name{line.OrderID})
	}
	return all
}

// auditPayments checks the provider's record against the orders: each charged once, with
// its amount.
func (e *Evidence) auditPayments(r *Report) {
	lines := make(map[int64]orders.Line)
	for _, line := range e.Lines {
		lines[line.OrderID] = line
	}
	charged := tally[name]{"charged", &r.DoubleCharges, &r.MissingCharges, make(map[name]int)}
	for _, p := range e.Payments {
		charged.count[name{p.OrderID}]++
		line, known := lines[p.OrderID]
		if known && (p.Cents != line.Cents || p.Currency != line.Currency) {
			r.find("order %d of %s was charged with %d cents %s", p.OrderID, line.Amount(), p.Cents, p.Currency)
		}
	}
	charged.judge(r, names(e.Lines))
}

// auditMessages checks the mailbox's record against the customers: each welcomed once.
func (e *Evidence) auditMessages(r *Report) {
	mailed := tally[string]{"mailed", &r.DoubleEmails, &r.MissingEmails, make(map[string]int)}
	for i := range e.Messages {
		for _, to := range e.Messages[i].Recipients {
			mailed.count[to]++
		}
	}
	var customers []string
	for _, line := range orders.FirstOfCustomers(e.Lines) {
		customers = append(customers, line.Customer)
	}
	mailed.judge(r, customers)
}

// auditDeliveries checks the receiver's record against the events: each delivered once.
func (e *Evidence) auditDeliveries(r *Report) {
	delivered := tally[string]{"delivered", &r.DoubleWebhooks, &r.MissingWebhooks, make(map[string]int)}
	for i := range e.Deliveries {
		delivered.count[e.Deliveries[i].Event]++
	}
	delivered.judge(r, events(e.Lines))
}

func events(lines []orders.Line) []string {
	var all []string
	for _, line := range orders.First(lines) {
		all = append(all, shop.PaidEvent(line.OrderID))
	}
	return all
}

// auditInvoices counts the rows per order and checks that each was written by the
// attempt that ended its job, for the charge that the provider made.
func (e *Evidence) auditInvoices(r *Report) {
	jobs, payments := e.byID(), make(map[string]outside.Payment, len(e.Payments))
	for _, p := range e.Payments {
		payments[p.ID] = p
	}
	invoiced := tally[name]{"invoiced", &r.DoubleInvoices, &r.MissingInvoices, make(map[name]int)}
	for _, i := range e.Invoices {
		invoiced.count[name{i.OrderID}]++
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
		if e.Paid[i.OrderID] != i.Charge {
			r.find("order %d is paid by %q in the shop, and its invoice is for charge %q",
				i.OrderID, e.Paid[i.OrderID], i.Charge)
		}
	}
	invoiced.judge(r, names(e.Lines))
}

// auditNotes checks the shop's notes of deliveries in the same way.
func (e *Evidence) auditNotes(r *Report) {
	jobs, double, never := e.byID(), 0, 0
	noted := tally[string]{"noted as delivered", &double, &never, make(map[string]int)}
	for _, n := range e.Noted {
		noted.count[n.Event]++
		switch job := jobs[n.Job]; {
		case job == nil:
			r.find("%s was noted as delivered by job %s, which is not stored", n.Event, n.Job)
		case job.SettledFence != n.Fence:
			r.find("%s was noted as delivered under fence %d, and its job was ended under fence %d",
				n.Event, n.Fence, job.SettledFence)
		}
	}
	noted.judge(r, events(e.Lines))
}

// auditBlows checks that the run was as hard as it was asked to be: a demo without its
// kills proves nothing.
func (e *Evidence) auditBlows(r *Report) {
	kills := make(map[outside.Service]int)
	for i := range e.Blows {
		switch b := &e.Blows[i]; b.Act {
		case harm.Kill:
			kills[b.Service]++
		case harm.Restart:
			r.ServerRestarts++
		case harm.Freeze:
			r.Freezes++
			r.FreezesInEffect++
			if b.Refused == 0 {
				r.find("%s was frozen past its lease inside the %s of %s, and was refused nothing", b.Worker, b.Service, b.Item)
			}
		}
	}
	r.KillsInCharge, r.KillsInMail = kills[outside.PaymentService], kills[outside.MailService]
	r.KillsInWebhook, r.KillsAnywhere = kills[outside.WebhookService], kills[""]
	if planned := len(e.Blows) - r.Freezes - r.ServerRestarts; planned != e.KillsWanted || e.Killed != e.KillsWanted {
		r.find("%d workers were killed, %d of them as planned, and %d kills were asked for", e.Killed, planned, e.KillsWanted)
	}
	if r.Freezes != e.FreezesWanted {
		r.find("%d workers were frozen past their lease and refused, and %d freezes were asked for", r.Freezes, e.FreezesWanted)
	}
	if r.ServerRestarts != e.RestartsWanted {
		r.find("the server was killed and started again %d times, and %d were asked for", r.ServerRestarts, e.RestartsWanted)
	}
	if e.KillsWanted < len(harm.Services()) {
		return
	}
	for _, service := range harm.Services() {
		if kills[service] == 0 {
			r.find("no worker was killed inside a %s", service)
		}
	}
}

// auditStale checks that nothing was taken from an attempt whose lease was over.
func (e *Evidence) auditStale(r *Report) {
	for i := range e.Stale {
		write := &e.Stale[i]
		switch {
		case write.Refused():
			r.StaleWritesRefused++
		case write.Err == nil:
			r.StaleWritesAccepted++
			r.find("a stale worker's %s for job %s was accepted", write.What, write.Lease.Job)
		default:
			r.find("a stale worker's %s for job %s could not be tried: %v", write.What, write.Lease.Job, write.Err)
		}
	}
	want := 0
	for i := range e.Blows {
		if e.Blows[i].Service != "" {
			want += 2
		}
	}
	if len(e.Stale) != want {
		r.find("%d stale writes were tried, and the kills and freezes left %d to try", len(e.Stale), want)
	}
}
