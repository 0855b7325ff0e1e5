package harm

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// Blow is a kill or a freeze that was carried out.
type Blow struct {
	Act     Act             `json:"act"`
	At      Moment          `json:"moment"`
	Service outside.Service `json:"inside,omitempty"` // "": at any time
	Item    string          `json:"item,omitempty"`
	Worker  string          `json:"worker"`
	PID     int             `json:"pid"`
	Lease   nexjob.Lease    `json:"lease,omitzero"` // of the attempt that was hit
	// Refused counts what the thawed process was refused, by its own word.
	Refused int64 `json:"refused,omitempty"`
}

// Victims are the processes that a hand is laid on.
type Victims interface {
	// Kill ends the process and waits until it is gone. It answers false if the process
	// was dying already or must be spared.
	Kill(name string) (pid int, killed bool)
	// Freeze stops the process, and spares it until Spare is called with false.
	Freeze(name string) (pid int, frozen bool)
	Thaw(name string)
	Spare(name string, spare bool)
	// Alive returns the processes that may be killed.
	Alive() []string
}

// Server is the database's, where it is the demo's own.
type Server interface {
	// Restart ends it as a crash does and answers once it serves again.
	Restart(ctx context.Context) (pid int, err error)
}

// Hand carries out what is planned, standing at every moment of every effect. A deed
// counts only if the process was alive and waited there; otherwise it moves to another
// effect of its kind, a freeze to any, that comes to the same moment.
type Hand struct {
	Victims Victims
	Ghost   *Ghost
	Server  Server
	Say     func(format string, args ...any)
	// Hit is what follows a blow inside an effect at once, such as a repeat of the order
	// while the job still belongs to the one that was hit.
	Hit func(ctx context.Context, blow Blow)
	// FreezeFor is how long a process stays frozen at least.
	FreezeFor time.Duration

	mu      sync.Mutex
	planned map[target]Deed
	moved   []Deed // missed their effect, and take the next that fits
	timed   []Deed // of AnyTime
	effects int    // applied so far
	hit     map[target]bool
	done    []Blow
	health  map[string]cast.Health
	busy    int  // calls of what follows and timed deeds that are under way
	freeze  bool // a process is frozen, or thawed and has not said that it was refused; or the server is away
	work    chan func(context.Context)
	quit    chan struct{} // closed when Run has ended
}

type target struct {
	service outside.Service
	item    string
}

// Plan says what is to be done; Run must be running before the first is.
func (h *Hand) Plan(deeds []Deed) {
	h.planned, h.hit = make(map[target]Deed), make(map[target]bool)
	h.health = make(map[string]cast.Health)
	h.work, h.quit = make(chan func(context.Context), 4*len(deeds)+1), make(chan struct{})
	for _, d := range deeds {
		if d.At == AnyTime {
			h.timed = append(h.timed, d)
			continue
		}
		h.planned[target{d.Service, d.Item}] = d
	}
}

// Run does what follows the blows, and what is not bound to a call, until ctx ends.
func (h *Hand) Run(ctx context.Context) {
	var following sync.WaitGroup
	defer following.Wait()
	defer close(h.quit)
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.work:
			following.Go(func() {
				defer h.settle()
				f(ctx)
			})
		}
	}
}

// later has Run do something. It is called under the lock.
func (h *Hand) later(f func(context.Context)) {
	select {
	case h.work <- f:
		h.busy++
	case <-h.quit: // the run is over, or was broken off
	}
}

func (h *Hand) settle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy--
}

// Planned reports whether the call's effect has its hour ahead: services that make
// trouble leave it alone, so that it comes to it.
func (h *Hand) Planned(call outside.Call) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, planned := h.planned[target{call.Service, call.Item}]
	return planned
}

// Later reports whether a call must come back before it is sent: its caller is to be frozen,
// and another is frozen now. One at a time is, for somebody must be left to take the job,
// and who is left would have done all the work before the next one's turn.
func (h *Hand) Later(call outside.Call) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	deed, planned := h.planned[target{call.Service, call.Item}]
	return planned && deed.Act == Freeze && h.freeze
}

// Meet is passed by every call at every moment. It answers true if the caller died here.
func (h *Hand) Meet(ctx context.Context, at Moment, call outside.Call) (died bool) {
	deed, ok := h.take(at, call)
	if !ok {
		return false
	}
	who, err := cast.CallerOf(call)
	if err != nil || ctx.Err() != nil { // a stranger; or its connection is closed: it died, or gave up
		h.move(deed)
		return err == nil
	}
	blow := Blow{
		Act: deed.Act, At: at, Service: call.Service, Item: call.Item, Worker: who.Worker, Lease: who.Lease,
	}
	if deed.Act == Freeze {
		h.freezeHere(deed, blow)
		return false
	}
	pid, killed := h.Victims.Kill(who.Worker)
	if !killed {
		h.move(deed)
		return ctx.Err() != nil
	}
	blow.PID = pid
	h.Say("killed %s (process %d) inside the %s of %s, %s", blow.Worker, pid, call.Service, call.Item, at)
	h.record(blow)
	return true
}

// freezeHere has Run freeze and thaw the caller, and waits for it.
func (h *Hand) freezeHere(deed Deed, blow Blow) {
	thawed := make(chan struct{})
	h.mu.Lock()
	h.later(func(ctx context.Context) { h.frozen(ctx, deed, blow, thawed) })
	h.mu.Unlock()
	select {
	case <-thawed:
	case <-h.quit:
	}
}

// take removes from the plan what is to be done to this call at this moment.
func (h *Hand) take(at Moment, call outside.Call) (Deed, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at == AfterApply {
		h.effects++
		h.releaseTimed(h.effects)
	}
	here := target{call.Service, call.Item}
	deed, ok := h.planned[here]
	switch {
	case ok && deed.At != at || !ok && h.hit[here]:
		return Deed{}, false
	case ok:
		delete(h.planned, here)
	default:
		i := slices.IndexFunc(h.moved, func(d Deed) bool {
			return d.At == at && (d.Service == call.Service || d.Act == Freeze) && !(d.Act == Freeze && h.freeze)
		})
		if i < 0 {
			return Deed{}, false
		}
		deed = h.moved[i]
		h.moved = slices.Delete(h.moved, i, i+1)
	}
	if deed.Act == Freeze && h.freeze { // it was sent a moment before the other was frozen
		h.moved = append(h.moved, deed)
		return Deed{}, false
	}
	h.hit[here] = true
	h.freeze = h.freeze || deed.Act == Freeze
	return deed, true
}

// releaseTimed does what is due after so many effects. It is called under the lock.
func (h *Hand) releaseTimed(effects int) {
	h.timed = slices.DeleteFunc(h.timed, func(d Deed) bool {
		if d.After > effects {
			return false
		}
		h.later(func(ctx context.Context) { h.timedDeed(ctx, d) })
		return true
	})
}

// move gives a deed that missed back.
func (h *Hand) move(d Deed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = append(h.moved, d)
	if d.Act == Freeze {
		h.freeze = false
	}
}

// record counts a blow and has done what follows it.
func (h *Hand) record(b Blow) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, b)
	if b.Service == "" {
		return
	}
	h.later(func(ctx context.Context) { h.Hit(ctx, b) })
	h.later(func(ctx context.Context) { h.Ghost.rise(ctx, b.Lease) })
}

// timedDeed does what is not aimed at an effect.
func (h *Hand) timedDeed(ctx context.Context, d Deed) {
	if d.Act != Restart {
		h.strike(ctx, d.Pause)
		return
	}
	if !h.alone(ctx) {
		return
	}
	defer h.notAlone()
	h.Say("kill the server")
	since := time.Now()
	pid, err := h.Server.Restart(ctx)
	if err != nil {
		h.Say("the server does not come back: %v", err) // the audit misses the restart
		return
	}
	h.Say("the server (process %d) was killed and is back after %s", pid, time.Since(since).Round(time.Millisecond))
	h.record(Blow{Act: Restart, PID: pid})
}

// alone waits until nothing is frozen and keeps it so: a process that thaws without a
// server notices by itself that its lease is over, and then nobody refuses it anything.
func (h *Hand) alone(ctx context.Context) bool {
	for {
		h.mu.Lock()
		free := !h.freeze
		h.freeze = true
		h.mu.Unlock()
		if free {
			return true
		}
		if !wait(ctx, tick) {
			return false
		}
	}
}

func (h *Hand) notAlone() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.freeze = false
}

// strike kills a process, whatever it does.
func (h *Hand) strike(ctx context.Context, pause time.Duration) {
	if !wait(ctx, pause) {
		return
	}
	for {
		for _, name := range h.Victims.Alive() {
			if pid, killed := h.Victims.Kill(name); killed {
				h.Say("killed %s (process %d), wherever it was", name, pid)
				h.record(Blow{Act: Kill, Worker: name, PID: pid})
				return
			}
		}
		if !wait(ctx, tick) { // all are dead or spared for a moment
			return
		}
	}
}

// tick is how often something is asked for that nobody tells.
const tick = 20 * time.Millisecond

// wait waits, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Rest does what is left of the plan once there is no effect left to do it to, and
// reports whether there was anything, or anything is still under way. A kill is then one
// at any time; a freeze that found no effect cannot be made up for, and the audit says so.
func (h *Hand) Rest() (more bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := append(slices.Clone(h.moved), h.timed...)
	for _, d := range h.planned {
		rest = append(rest, d)
	}
	h.moved, h.timed = nil, nil
	clear(h.planned)
	for _, d := range rest {
		d.Pause = 0
		if d.Act != Freeze {
			h.later(func(ctx context.Context) { h.timedDeed(ctx, d) })
		}
	}
	return h.busy > 0 || h.freeze
}

// Blows returns what was carried out.
func (h *Hand) Blows() []Blow {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.done)
}

// Healthy takes what a process says of itself.
func (h *Hand) Healthy(health cast.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.health[health.Worker] = health
}

// StaleRefused returns what the processes were refused by the fence, by their own word.
func (h *Hand) StaleRefused() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(0)
	for _, health := range h.health {
		n += health.StaleRefused
	}
	return int(n)
}

func (h *Hand) refusals(worker string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.health[worker].Refusals()
}
