package demo

import (
	"context"
	"slices"
	"sync"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// maxKillsPerOrder bounds --kills: from its second crash on a job waits longer each
// time, so more would only be waiting.
const maxKillsPerOrder = 3

// Kill is a worker process that was killed inside a charge.
type Kill struct {
	OrderID int64          `json:"order_id"`
	At      outside.Moment `json:"moment"`
	Worker  string         `json:"worker"`
	PID     int            `json:"pid"`
	Lease   nexjob.Lease   `json:"lease"` // of the attempt that died
}

// kills plans which charges lose their worker and carries it out, standing at the
// provider's gate. A kill counts only if the worker was alive and waiting for the
// provider when it was killed; otherwise it stays planned for the next attempt.
type kills struct {
	kill   func(worker string) (pid int, killed bool) // ends the process and waits for its end
	killed func(ctx context.Context, kill Kill)       // what follows a kill, such as a repeat of the order

	mu      sync.Mutex
	planned map[int64][]outside.Moment // by order, in the order wanted
	done    []Kill
}

// planKills draws n kills over the orders, each order once before any twice. The
// first is after the provider applied the charge, where a second charge would be
// the harm; then both moments take turns.
func planKills(lines []Line, n int, seed uint64) map[int64][]outside.Moment {
	orders := orderIDs(lines)
	newRandom(seed, streamKills).Shuffle(len(orders), func(i, j int) {
		orders[i], orders[j] = orders[j], orders[i]
	})
	planned := make(map[int64][]outside.Moment, n)
	for i := range n {
		at := outside.AfterApply
		if i%2 == 1 {
			at = outside.BeforeApply
		}
		order := orders[i%len(orders)]
		planned[order] = append(planned[order], at)
	}
	return planned
}

// gate is the provider's gate: it kills the caller if that is planned for its order
// at this moment.
func (k *kills) gate(ctx context.Context, at outside.Moment, call outside.Call) (died bool) {
	order := orderOf(call)
	if !k.take(order, at) {
		return false
	}
	if ctx.Err() != nil { // its connection is closed: it died, or gave up waiting
		k.giveBack(order, at)
		return true
	}
	who, err := callerOf(call)
	if err != nil {
		k.giveBack(order, at)
		return false // the audit misses the kill
	}
	pid, killed := k.kill(who.Worker)
	if !killed { // it died at another order's kill a moment ago
		k.giveBack(order, at)
		return true
	}
	kill := Kill{OrderID: order, At: at, Worker: who.Worker, PID: pid, Lease: who.Lease}
	k.mu.Lock()
	k.done = append(k.done, kill)
	k.mu.Unlock()
	k.killed(context.WithoutCancel(ctx), kill)
	return true
}

// take removes the order's next kill from the plan if it is for this moment.
func (k *kills) take(order int64, at outside.Moment) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.planned[order]
	if len(next) == 0 || next[0] != at {
		return false
	}
	k.planned[order] = next[1:]
	return true
}

func (k *kills) giveBack(order int64, at outside.Moment) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.planned[order] = append([]outside.Moment{at}, k.planned[order]...)
}

// list returns the kills that were carried out.
func (k *kills) list() []Kill {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.done)
}
