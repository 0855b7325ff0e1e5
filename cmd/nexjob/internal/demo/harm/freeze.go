package harm

import (
	"context"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
)

// How long a frozen process is waited for: its job to be taken over, and then its own
// word that it was refused.
const (
	takeoverTime = 30 * time.Second
	refusalTime  = 10 * time.Second
)

// frozen stops the process of a call inside its effect, until its lease is over and
// another has its job, and thaws it: it wakes in the middle of a send whose time has
// passed long ago. The call's answer waits for thawed meanwhile. The freeze counts once
// the process has said that it was refused.
//
// A process that is stopped inside a transaction keeps what it has locked. In SQLite that
// is the whole file, on a server it may be the row of its lease. That is no case of an
// expired lease, for nobody else gets anywhere, so it is let go and stopped again a moment
// later. A stop takes a moment on a busy machine, and the lock may be taken in it; so the
// file is tried for as long as it lasts.
func (h *Hand) frozen(ctx context.Context, deed Deed, blow Blow, thawed chan<- struct{}) {
	defer h.freezeOver(blow.Worker)
	before := h.refusals(blow.Worker)
	over := h.hold(ctx, &blow)
	close(thawed)
	if !over {
		if ctx.Err() == nil {
			h.move(deed)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, refusalTime)
	defer cancel()
	for h.refusals(blow.Worker) <= before {
		if !wait(ctx, tick) {
			h.Say("%s (process %d) does not say that it was refused anything", blow.Worker, blow.PID)
			return // the audit misses the freeze
		}
	}
	blow.Refused = h.refusals(blow.Worker) - before
	h.Ghost.rise(ctx, blow.Lease)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, blow)
}

// hold keeps the process frozen until its lease is over.
func (h *Hand) hold(ctx context.Context, blow *Blow) (over bool) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTime)
	defer cancel()
	for told := false; ; {
		pid, frozen := h.Victims.Freeze(blow.Worker)
		if !frozen {
			return false
		}
		blow.PID = pid
		since := time.Now()
		held := !h.Ghost.free(ctx, cast.Lease/10)
		if !held && !told {
			if !h.Ghost.current(ctx, blow.Lease) {
				h.Victims.Thaw(blow.Worker)
				return false
			}
			told = true
			h.Say("froze %s (process %d) inside the %s of %s, %s", blow.Worker, pid, blow.Service, blow.Item, blow.At)
			hit := *blow
			h.mu.Lock()
			h.later(func(ctx context.Context) { h.Hit(ctx, hit) }) // it writes, and may have to wait for the file
			h.mu.Unlock()
		}
		over = !held && h.outlast(ctx, blow.Lease) && wait(ctx, h.FreezeFor-time.Since(since))
		h.Victims.Thaw(blow.Worker)
		if over {
			h.Say("thawed %s (process %d)", blow.Worker, pid)
			return true
		}
		if !h.Ghost.current(ctx, blow.Lease) || !wait(ctx, h.Ghost.breath()) {
			return false
		}
	}
}

// outlast waits until the lease is over; it answers false when the file cannot be written
// meanwhile, or nobody can take the job.
func (h *Hand) outlast(ctx context.Context, lease nexjob.Lease) bool {
	ctx, cancel := context.WithTimeout(ctx, takeoverTime/5)
	defer cancel()
	for h.Ghost.current(ctx, lease) {
		if !wait(ctx, tick) || !h.Ghost.free(ctx, cast.Lease/2) {
			return false
		}
	}
	return ctx.Err() == nil
}

// freezeOver lets the process be killed again, and another be frozen.
func (h *Hand) freezeOver(worker string) {
	h.Victims.Spare(worker, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freeze = false
}
