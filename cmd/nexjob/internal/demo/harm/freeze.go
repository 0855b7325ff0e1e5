package harm

import (
	"context"
	"time"
)

// How long a frozen process is waited for: its job to be taken over, and then its own
// word that it was refused.
const (
	takeoverTime = 30 * time.Second
	refusalTime  = 10 * time.Second
)

// frozen stops the process of a call inside its effect, until its lease is over and
// another has its job, and thaws it: it wakes in the middle of a send whose time has
// passed long ago. The call's answer waits meanwhile.
//
// A process that holds the file's write lock when it is stopped stops everybody: SQLite
// has no other way. That is no case of an expired lease, for nobody else gets anywhere,
// so it is let go and stopped again a moment later.
func (h *Hand) frozen(ctx context.Context, deed Deed, blow Blow) {
	before := h.refusals(blow.Worker)
	for {
		pid, frozen := h.Victims.Freeze(blow.Worker)
		if !frozen {
			h.move(deed)
			return
		}
		if blow.PID = pid; h.Ghost.free(ctx) {
			break
		}
		h.Victims.Thaw(blow.Worker)
		if !wait(ctx, tick/4) {
			h.Victims.Spare(blow.Worker, false)
			h.move(deed)
			return
		}
	}
	h.Say("froze %s (process %d) inside the %s of %s, %s", blow.Worker, blow.PID, blow.Service, blow.Item, blow.At)
	h.mu.Lock()
	h.later(func(ctx context.Context) { h.Hit(ctx, blow) })
	h.mu.Unlock()
	taken, cancel := context.WithTimeout(ctx, takeoverTime)
	defer cancel()
	over := h.Ghost.over(taken, blow.Lease)
	h.Victims.Thaw(blow.Worker)
	h.Say("thawed %s (process %d)", blow.Worker, blow.PID)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.later(func(ctx context.Context) {
		defer func() {
			h.Victims.Spare(blow.Worker, false)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.freeze = false
		}()
		h.thawed(ctx, blow, over, before)
	})
}

// thawed waits for the process's own word that it was refused, and counts the freeze.
func (h *Hand) thawed(ctx context.Context, blow Blow, over bool, before int64) {
	ctx, cancel := context.WithTimeout(ctx, refusalTime)
	defer cancel()
	for h.refusals(blow.Worker) <= before {
		if !wait(ctx, tick) {
			h.Say("%v", errNoRefusal(blow))
			return
		}
	}
	blow.Refused = h.refusals(blow.Worker) - before
	if over {
		h.Ghost.rise(ctx, blow.Lease)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, blow)
}
