package storagetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/nexjob/nexjob"
)

// The histories' times never meet: a lease, a deadline or a life never ends at the
// very instant of a call, where two right engines may differ.
const (
	drawnLease = lease + 500*time.Millisecond
	drawnTail  = 250 * time.Millisecond
)

func pick[T any](rt *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(rt, label)
}

func chance(rt *rapid.T, label string, oneIn int) bool {
	return rapid.IntRange(0, oneIn-1).Draw(rt, label) == oneIn-1
}

// drawCall chooses one call. Lease numbers are drawn from what the reference was
// handed out, which is what the engine was handed out too.
func drawCall(rt *rapid.T, p *player) move {
	kinds := []func(rt *rapid.T, p *player) move{
		drawEnqueue, drawEnqueue, drawClaim, drawClaim, drawPass, drawAmend, drawAmend, drawResolve, drawFind, drawPut,
	}
	if len(p.leases) > 0 {
		kinds = append(kinds, drawSettle, drawSettle, drawSettle, drawRecord, drawRecord, drawRecord, drawRecord, drawRenew)
	}
	return rapid.SampledFrom(kinds).Draw(rt, "call")(rt, p)
}

func drawID(rt *rapid.T) nexjob.ID { return poolID(rapid.IntRange(1, poolSize).Draw(rt, "job")) }

// drawJob draws an item of an enqueue. DueAt and the like are drawn as delays, for
// both clocks stand equal.
func drawJob(rt *rapid.T, now time.Time) nexjob.NewJob {
	n := jobWith(pick(rt, "key", "", "", "a", "b", "c"), pick(rt, "args", argsOne, argsTwo))
	n.ID = drawID(rt)
	n.Kind = pick(rt, "kind", charge, charge, ship)
	if chance(rt, "renamed", 8) {
		n.Kind, n.Aliases = "charge-card", []string{charge}
	}
	n.Queue = pick(rt, "queue", mainQueue, otherQueue)
	n.Priority = pick(rt, "priority", nexjob.Priority(0), nexjob.Critical, nexjob.Low)
	n.Delay = pick(rt, "delay", 0, 0, 20*time.Second+drawnTail, 3*time.Minute+drawnTail)
	if chance(rt, "due at", 8) {
		n.DueAt = now.Add(40*time.Second + drawnTail)
	}
	n.DeadlineAfter = pick(rt, "deadline", 0, 0, time.Minute+2*drawnTail, time.Hour+2*drawnTail)
	n.MaxAttempts = rapid.IntRange(0, 3).Draw(rt, "max attempts")
	n.DuplicatePolicy = pick(rt, "policy", nexjob.Policies()...)
	n.WhileActive = pick(rt, "while active", nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace)
	n.StrictArgs = chance(rt, "strict", 4)
	n.NewOperation = chance(rt, "new operation", 5)
	if n.IdempotencyKey != "" || chance(rt, "wrong", 20) {
		n.KeepKeyFor = pick(rt, "keep key", 0, 30*time.Second+3*drawnTail, 2*time.Hour+3*drawnTail)
	}
	if chance(rt, "tagged", 3) {
		n.Tags = []string{pick(rt, "tag", "x", "y"), "z"}
	}
	for range rapid.IntRange(0, 5).Draw(rt, "parents") / 4 { // mostly none
		n.Parents = append(n.Parents, nexjob.Parent{ID: drawID(rt), Rule: pick(rt, "rule", nexjob.OnSuccess, nexjob.OnFailure, nexjob.OnAnyEnd)})
	}
	return n
}

func drawJobs(rt *rapid.T, most int) []func(now time.Time) nexjob.NewJob {
	var jobs []func(now time.Time) nexjob.NewJob
	for range rapid.IntRange(0, most).Draw(rt, "jobs") {
		base := newClock().Now()
		n := drawJob(rt, base)
		jobs = append(jobs, func(now time.Time) nexjob.NewJob {
			if !n.DueAt.IsZero() {
				moved := n
				moved.DueAt = now.Add(n.DueAt.Sub(base))
				return moved
			}
			return n
		})
	}
	return jobs
}

func made(jobs []func(now time.Time) nexjob.NewJob, now time.Time) []nexjob.NewJob {
	out := make([]nexjob.NewJob, len(jobs))
	for i := range jobs {
		out[i] = jobs[i](now)
	}
	return out
}

func drawEnqueue(rt *rapid.T, _ *player) move {
	jobs := drawJobs(rt, 3)
	return move{"Enqueue " + list(made(jobs, newClock().Now())), func(p *player) (any, error) {
		answers, err := p.s.Enqueue(p.ctx, p.now(), made(jobs, p.now()))
		for i := range answers {
			answers[i] = p.tidyAnswer(answers[i])
		}
		return answers, err
	}}
}

func list(jobs []nexjob.NewJob) string {
	var s strings.Builder
	for _, n := range jobs {
		fmt.Fprintf(&s, "[job %d %s key %q %s %s]", n.ID[15], n.Kind, n.IdempotencyKey, n.DuplicatePolicy, n.WhileActive)
	}
	return s.String()
}

// drawClaim never lets a job crash twice and go on: what it waits then is random.
func drawClaim(rt *rapid.T, _ *player) move {
	ask := nexjob.ClaimRequest{
		Worker: "w1", N: pick(rt, "n", 1, 2, 3, 0), Lease: drawnLease,
		Queues:     pick(rt, "queues", []string{mainQueue, otherQueue}, []string{otherQueue, mainQueue}, []string{mainQueue}),
		Kinds:      pick(rt, "kinds", []string{charge, ship, "charge-card"}, []string{charge}, []string{ship, charge}),
		CrashLimit: rapid.IntRange(1, 2).Draw(rt, "crash limit"),
	}
	return move{fmt.Sprintf("Claim %d", ask.N), func(p *player) (any, error) {
		claimed, err := p.s.Claim(p.ctx, p.now(), ask)
		for i := range claimed {
			c := &claimed[i]
			p.leases = append(p.leases, held{c.Job.Lease(), c.Job.Operation, c.Job.Fingerprint, false})
			c.Job = p.tidyJob(c.Job)
			for k := range c.Receipts {
				c.Receipts[k] = p.tidyReceipt(c.Receipts[k])
			}
		}
		return claimed, err
	}}
}

func drawPass(rt *rapid.T, _ *player) move {
	d := pick(rt, "pass", time.Second, 7*time.Second, 21*time.Second, 33*time.Second, 2*time.Minute, 70*time.Minute, 3*time.Hour)
	return move{fmt.Sprintf("%s pass", d), func(p *player) (any, error) { return nil, live(p.ctx, p.s, p.clock, d) }}
}

// drawLease draws a lease, mostly one that is not known to be over.
func drawLease(rt *rapid.T, p *player) int {
	var current []int
	for i := range p.leases {
		if !p.leases[i].over {
			current = append(current, i)
		}
	}
	if len(current) > 0 && !chance(rt, "any lease", 5) {
		return rapid.SampledFrom(current).Draw(rt, "current lease")
	}
	return rapid.IntRange(0, len(p.leases)-1).Draw(rt, "lease")
}

func drawSettle(rt *rapid.T, p *player) move {
	number := drawLease(rt, p)
	end := nexjob.Settlement{
		As:    pick(rt, "ending", nexjob.EndSucceeded, nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndRetry, nexjob.EndSnoozed, nexjob.EndInterrupted, nexjob.EndUncertain, nexjob.EndCancelled),
		Delay: pick(rt, "delay", 0, 10*time.Second+drawnTail, 2*time.Minute+drawnTail),
		Error: pick(rt, "error", "", "it broke"),
	}
	var followers []func(now time.Time) nexjob.NewJob
	if end.As == nexjob.EndSucceeded {
		followers = drawJobs(rt, 2)
		end.Result = []byte(pick(rt, "result", "", "done"))
	}
	return move{
		fmt.Sprintf("Settle lease %d as %s, followers %s", number, end.As, list(made(followers, newClock().Now()))),
		func(p *player) (any, error) {
			end := end
			end.Lease, end.Followers = p.leases[number].lease, made(followers, p.now())
			settled, err := p.s.Settle(p.ctx, p.now(), []nexjob.Settlement{end})
			p.note(number, err == nil)
			for i := range settled {
				settled[i].Err = p.tidyError(settled[i].Err)
				for k := range settled[i].Followers {
					settled[i].Followers[k] = p.tidyAnswer(settled[i].Followers[k])
				}
			}
			return settled, err
		},
	}
}

func drawRenew(rt *rapid.T, p *player) move {
	numbers := []int{drawLease(rt, p), drawLease(rt, p)}
	return move{fmt.Sprintf("Renew leases %v", numbers), func(p *player) (any, error) {
		var ask []nexjob.Lease
		for _, n := range numbers {
			ask = append(ask, p.leases[n].lease)
		}
		renewals, err := p.s.Renew(p.ctx, p.now(), p.now().Add(drawnLease), ask)
		for i := range renewals {
			renewals[i].Until = tidyUntil(renewals[i].Until)
		}
		return renewals, err
	}}
}

// drawRecord draws a step, an intent or an outcome.
func drawRecord(rt *rapid.T, p *player) move {
	number := drawLease(rt, p)
	r := nexjob.Receipt{
		Sort: pick(rt, "sort", nexjob.StepReceipt, nexjob.EffectReceipt, nexjob.EffectReceipt, nexjob.EffectReceipt),
		Name: pick(rt, "name", "card", "mail"), State: nexjob.Confirmed, Value: []byte(pick(rt, "value", "", "paid")),
	}
	if r.Sort == nexjob.EffectReceipt {
		r.State = pick(rt, "state", nexjob.Intended, nexjob.Intended, nexjob.Confirmed, nexjob.Refused, nexjob.Disproved)
		r.Turn = rapid.IntRange(0, 3).Draw(rt, "turn") / 3
		r.RepeatableFor = pick(rt, "repeatable", 0, 90*time.Second+drawnTail, 24*time.Hour+drawnTail)
		r.LookupAfter = pick(rt, "look up after", 0, time.Minute)
		r.Lookup, r.AtMostOnce = chance(rt, "look-up", 3), r.RepeatableFor == 0
	}
	other := chance(rt, "other request", 6)
	return move{
		fmt.Sprintf("Record by lease %d: %s %s turn %d as %s", number, r.Sort, r.Name, r.Turn, r.State),
		func(p *player) (any, error) {
			r, by := r, p.leases[number]
			r.Operation, r.Writer, r.Fingerprint = by.operation, by.lease, by.args
			if other {
				r.Fingerprint = nexjob.FingerprintOf([]byte("another request"))
			}
			if r.Sort == nexjob.EffectReceipt {
				r.OutsideKey = nexjob.OutsideKey(r.Operation, r.Name, r.Item, r.Turn)
				r.SendBefore = p.now().Add(20*time.Second + 2*drawnTail)
			}
			recorded, err := p.s.Record(p.ctx, p.now(), []nexjob.Receipt{r})
			for i := range recorded {
				p.note(number, errors.Is(recorded[i].Err, nexjob.ErrLeaseLost))
				recorded[i].Standing = p.tidyReceipt(recorded[i].Standing)
				recorded[i].Err = p.tidyError(recorded[i].Err)
			}
			return recorded, err
		},
	}
}
