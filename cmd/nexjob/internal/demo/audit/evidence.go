package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// Evidence is what the parties' records say after the run. The provider is believed
// about charges, the mailbox about mails, the receiver about webhooks, the shop's tables
// about rows, the storage about jobs and effects; no party is asked about another's.
type Evidence struct {
	Lines   []orders.Line
	Answers []cast.Answered
	Jobs    []nexjob.Job
	Effects []nexjob.Receipt

	Payments   []outside.Payment
	Messages   []outside.Message
	Deliveries []outside.Delivery
	Replayed   int // requests that provider and receiver recognised as repeats

	Invoices []shop.Invoice
	Noted    []shop.Delivery
	Paid     map[int64]string // orders that the shop holds for paid, and by which charge

	Blows          []harm.Blow
	KillsWanted    int
	FreezesWanted  int
	RestartsWanted int
	FreezesLeftOut bool // this system cannot stop a process
	Stale          []harm.StaleWrite
	StaleByWorkers int      // refused to the worker processes, by their own word
	Torn           []string // seen by the witness
	Trouble        []string // what else went wrong: a time limit, a process that ended by itself
	Damage         string   // what the engine says is wrong with its database; "" is well
	Started        int      // worker processes
	Killed         int      // that the demo killed, wherever they were
}

// Audit counts, and says everything that is not exactly as promised.
func (e *Evidence) Audit() Report {
	r := Report{
		Enqueues: len(e.Answers), Jobs: len(e.Jobs), Kills: e.Killed, Processes: e.Started,
		Charges: len(e.Payments), Emails: len(e.Messages), Webhooks: len(e.Deliveries),
		Invoices: len(e.Invoices), ReplayedAnswers: e.Replayed, FreezesLeftOut: e.FreezesLeftOut,
		StaleWritesRefused: e.StaleByWorkers, Findings: append([]string{}, e.Trouble...), // a list without items is no null
	}
	r.Orders, r.Customers = len(orders.First(e.Lines)), len(orders.FirstOfCustomers(e.Lines))
	e.auditAnswers(&r)
	e.auditJobs(&r)
	e.auditPayments(&r)
	e.auditMessages(&r)
	e.auditDeliveries(&r)
	e.auditInvoices(&r)
	e.auditNotes(&r)
	e.auditEffects(&r)
	e.auditBlows(&r)
	e.auditStale(&r)
	for _, torn := range e.Torn {
		r.find("not in one transaction: %s", torn)
	}
	r.TornCommits = len(e.Torn)
	if e.Damage != "" {
		r.find("the database is damaged: %s", e.Damage)
	}
	r.OK = len(r.Findings) == 0
	return r
}

// byID returns the stored jobs by their ID.
func (e *Evidence) byID() map[nexjob.ID]*nexjob.Job {
	jobs := make(map[nexjob.ID]*nexjob.Job, len(e.Jobs))
	for i := range e.Jobs {
		jobs[e.Jobs[i].ID] = &e.Jobs[i]
	}
	return jobs
}

// auditAnswers checks that each enqueue was answered as its key's policy says, that the
// answer names a job of the key, and that no job is stored that nobody was told of.
func (e *Evidence) auditAnswers(r *Report) {
	jobs, told, created := e.byID(), make(map[string]int), make(map[nexjob.ID]bool)
	for i := range e.Answers {
		a := &e.Answers[i]
		told[a.Key]++
		if a.Error != "" {
			r.find("an enqueue of key %s was answered with an error: %s", a.Key, a.Error)
			continue
		}
		switch job := jobs[a.Job]; {
		case job == nil:
			r.Lost++
			r.find("job %s of key %s was accepted and is not stored", a.Job, a.Key)
		case job.Key != a.Key:
			r.find("an enqueue of key %s was answered with job %s of key %s", a.Key, a.Job, job.Key)
		}
		switch {
		case a.Outcome == nexjob.Existing:
			r.Existing++
		case a.Outcome == nexjob.Rejected && strings.HasPrefix(a.Key, shop.WelcomeKey("")):
			r.Rejected++
		case a.Outcome == nexjob.Created && created[a.Job]:
			r.find("job %s of key %s was created twice", a.Job, a.Key)
		case a.Outcome == nexjob.Created:
			created[a.Job] = true
		default:
			r.find("an enqueue of key %s was answered as %s", a.Key, a.Outcome)
		}
	}
	r.Duplicates = len(e.Answers)
	for key := range told {
		if !strings.HasPrefix(key, shop.WebhookKey("")) { // of which the first is a charge's, and not told of
			r.Duplicates--
		}
	}
	wanted := make(map[string]int)
	for _, line := range e.Lines {
		for _, job := range cast.Arrival(line) {
			wanted[job.IdempotencyKey]++
		}
	}
	for key, n := range inOrder(wanted) {
		if told[key] < n {
			r.find("key %s was enqueued %d times of %d", key, told[key], n)
		}
	}
	// A charge's transaction, of which its invoice tells, enqueues the webhook.
	if want := len(created) + len(e.Invoices); len(e.Jobs) != want {
		r.find("%d jobs are stored, and %d were answered or committed as created", len(e.Jobs), want)
	}
}

// auditJobs checks that every job succeeded, and that no two jobs of one key were
// active at the same time.
func (e *Evidence) auditJobs(r *Report) {
	byKey := make(map[string][]*nexjob.Job)
	for i := range e.Jobs {
		job := &e.Jobs[i]
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
	for key, jobs := range inOrder(byKey) {
		slices.SortFunc(jobs, func(a, b *nexjob.Job) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) })
		for i := 1; i < len(jobs); i++ {
			if before := jobs[i-1]; before.EndedAt.IsZero() || jobs[i].EnqueuedAt.Before(before.EndedAt) {
				r.find("key %s had two active jobs: %s ended at %s, and %s was enqueued at %s", key,
					before.ID, clock(before.EndedAt), jobs[i].ID, clock(jobs[i].EnqueuedAt))
			}
		}
	}
}

// clock writes a time of the storage to its last digit.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// auditEffects checks the effect ledger against the services' records: everything that
// they did stands there as confirmed under the key that they saw, and nothing else.
func (e *Evidence) auditEffects(r *Report) {
	confirmed := make(map[string]bool)
	for i := range e.Effects {
		switch effect := &e.Effects[i]; effect.State {
		case nexjob.Confirmed:
			confirmed[effect.OutsideKey] = true
		case nexjob.Refused: // nothing happened under that key
		default:
			r.find("effect %q of operation %s is %s", effect.Name, effect.Operation, effect.State)
		}
	}
	seen := make(map[string]string)
	for _, p := range e.Payments {
		seen[p.Key] = "charge " + p.ID
	}
	for _, m := range e.Messages {
		key, _, _ := strings.Cut(m.MessageID, "@")
		seen[key] = "mail " + m.MessageID
	}
	for _, d := range e.Deliveries {
		seen[d.Key] = "the delivery of " + d.Event
	}
	for key, what := range inOrder(seen) {
		if !confirmed[key] {
			r.find("the ledger does not confirm %s", what)
		}
		delete(confirmed, key)
	}
	for key := range inOrder(confirmed) {
		r.find("the ledger confirms an effect under key %s, and no service did anything under it", key)
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
