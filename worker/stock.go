package worker

import (
	"context"
	"math"
	"slices"
	"time"
)

// The stock is what the board knows of attempts that wait for a slot: most wait for
// as long as it takes to give them one, the others were claimed ahead.

// longestWait is for how long a job that was claimed ahead may wait. With a third of
// the lease before its claim is answered, and a third while it waits, a third is left
// when it starts, and that is when it is renewed.
func (w *Worker) longestWait() time.Duration { return min(time.Second, w.options.Lease/3) }

// prefetch returns how many jobs may be claimed ahead at most.
func (w *Worker) prefetch(slots int) int {
	if w.options.Prefetch != 0 {
		return w.options.Prefetch
	}
	return max(slots, fewestAhead)
}

// fewestAhead is how many may be claimed ahead even of a few slots, where the pace has them
// start within paceAhead: in smaller claims, the flushes of the disk cost more than the jobs.
const fewestAhead = 400

// stock has attempts wait for a slot, in the order in which they are to start, and
// starts as many as there are slots.
func (w *Worker) stock(base context.Context, attempts []*attempt) {
	wait := w.longestWait()
	if !w.board.keep(attempts, time.Now().Add(wait)) {
		w.giveBack(attempts, "the worker is stopping")
		return
	}
	w.fill(base)
	if w.board.waiting() > 0 {
		time.AfterFunc(wait, func() { w.giveBack(w.board.late(), noSlot) })
	}
}

// fill starts attempts that wait for as long as a slot is free.
func (w *Worker) fill(base context.Context) {
	for run := w.next(base); run != nil; run = w.next(base) {
		w.crew.run(base, func() { w.occupy(base, run) })
	}
}

// occupy keeps a slot busy: with an attempt, and then with those that wait.
func (w *Worker) occupy(base context.Context, run func()) {
	for ; run != nil; run = w.next(base) {
		run()
	}
}

// next gives a slot to the attempt that has waited longest and returns what runs it;
// nil if none waits or no slot is free.
func (w *Worker) next(base context.Context) (run func()) {
	late := w.board.next(int(w.slots.Load()), func(a *attempt) {
		ctx := w.prepare(base, a)
		run = func() { w.attempt(ctx, a) }
	})
	w.giveBack(late, noSlot)
	return run
}

// noSlot is why an attempt that has waited too long is given back.
const noSlot = "no slot came free in time"

// keep has attempts wait for a slot until a time. It refuses once the stock is closed.
func (b *board) keep(attempts []*attempt, until time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	for _, a := range attempts {
		a.phase, a.startBy = waiting, until
		b.attempts[a.lease] = a
	}
	b.open += len(attempts)
	b.stock = append(b.stock, attempts...)
	return true
}

// next starts the attempt that has waited longest, if fewer than slots handlers run.
// prepare makes what belongs to a running attempt; it is called with the board locked.
// late are those that have waited too long, now settling.
func (b *board) next(slots int, prepare func(*attempt)) (late []*attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live >= slots || len(b.stock) == 0 {
		return nil
	}
	if late = b.lateLocked(); len(b.stock) == 0 {
		return late
	}
	a := b.takeLocked(1)[0]
	a.phase, a.live, a.held = running, true, a.ends
	b.mindLocked(a)
	b.live++
	prepare(a)
	return late
}

// longestStep is how much the host's clock may go ahead of its monotonic one before that
// counts as a sleep of the machine: more than it is set by while it is only corrected.
const longestStep = time.Second

// slept reports whether the machine has slept since a time was reckoned that has both
// readings. A clock that was set forward looks the same; to stop in vain is harmless.
func (b *board) slept(since time.Time) bool {
	now := time.Now()
	return b.wall().Round(0).Sub(since.Round(0))-now.Sub(since) > longestStep
}

// turnBack takes in an attempt that is to be settled without having waited.
func (b *board) turnBack(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase == 0 {
		a.phase = settling
		b.attempts[a.lease] = a
		b.open++
	}
}

// late takes out what has waited too long, now settling.
func (b *board) late() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lateLocked()
}

func (b *board) lateLocked() []*attempt {
	if len(b.stock) == 0 {
		return nil
	}
	now := time.Now()
	n := slices.IndexFunc(b.stock, func(a *attempt) bool {
		return now.Before(a.startBy) && now.Before(a.ends) && !b.slept(a.startBy)
	})
	switch n {
	case 0:
		return nil
	case -1:
		n = len(b.stock)
	}
	// Where they had to wait so long, the pace is no longer what it was.
	b.pace = pace{}
	return b.withdrawLocked(n)
}

// closeStock takes out all that waits, now settling, and has nothing wait from now on.
func (b *board) closeStock() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.withdrawLocked(len(b.stock))
}

// withdraw takes out one attempt if it still waits, now settling.
func (b *board) withdraw(a *attempt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase != waiting {
		return false
	}
	b.dropLocked(a)
	b.settlingLocked(a)
	return true
}

func (b *board) withdrawLocked(n int) []*attempt {
	taken := b.takeLocked(n)
	for _, a := range taken {
		b.settlingLocked(a)
	}
	return taken
}

// takeLocked takes the first n out of the stock.
func (b *board) takeLocked(n int) []*attempt {
	taken := b.stock[:n:n]
	if b.stock = b.stock[n:]; len(b.stock) == 0 {
		b.stock = nil
	}
	return taken
}

// dropLocked takes one that waits out of the stock.
func (b *board) dropLocked(a *attempt) {
	i := slices.Index(b.stock, a)
	b.stock = slices.Delete(b.stock, i, i+1)
}

// waiting returns how many attempts wait for a slot.
func (b *board) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.stock)
}

// room returns how many jobs to claim: for slots that nobody waits for, and with them
// as many as the pace allows ahead, at most ahead. For what may be claimed ahead alone
// there is a claim only when half of the stock has started, so that claims stay large.
func (b *board) room(slots, ahead int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	ahead = b.pace.ahead(time.Now(), slots, ahead)
	if b.live+len(b.stock) >= slots && 2*len(b.stock) > ahead {
		return 0
	}
	return max(slots+ahead-b.live-len(b.stock), 0)
}

// pace is how many handlers return in a second. It forgets as it goes, so that after
// a moment without returns nothing is left of it. The zero value knows none.
type pace struct {
	rate float64   // at that time
	at   time.Time // the newest return
}

const (
	// paceFor is how long a return counts, about. All slots that return at once after
	// a long time are a rate of slots/paceFor, far below what counts as quick.
	paceFor = 250 * time.Millisecond
	// paceAhead is how soon a job that is claimed ahead starts, at the pace: for longer
	// than that nobody else could have it, were he idle or were it less urgent than
	// one that comes now. A claim over a network takes a few milliseconds.
	paceAhead = 50 * time.Millisecond
)

// returned notes that a handler has returned.
func (p *pace) returned(now time.Time) {
	p.rate, p.at = p.now(now)+1/paceFor.Seconds(), now
}

// now returns the rate as it has become.
func (p *pace) now(now time.Time) float64 {
	if p.rate == 0 {
		return 0
	}
	return p.rate * math.Exp(-now.Sub(p.at).Seconds()/paceFor.Seconds())
}

// ahead returns how many jobs may be claimed ahead of that many slots: what starts
// within paceAhead. If that is less than half of the slots, handlers take longer than
// twice paceAhead. Then the way to the storage is nothing against them, and whoever
// returns together leaves the others waiting for a whole handler: there are none.
func (p *pace) ahead(now time.Time, slots, most int) int {
	soon := p.now(now) * paceAhead.Seconds()
	if 2*soon < float64(slots) {
		return 0
	}
	return int(min(soon, float64(max(most, 0))))
}
