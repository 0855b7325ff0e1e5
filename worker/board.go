package worker

import (
	"context"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
)

// phase says where an attempt stands for this worker. It only moves forward, but
// for a CompleteIn that the storage refused.
type phase uint8

const (
	waiting    phase = iota + 1 // it waits for a slot under a lease that is renewed
	running                     // its handler runs under such a lease
	completing                  // a transaction of its own asks for its success
	settling                    // how it ended waits to be written
	over                        // nothing more is written for it
)

// attempt is one job under one lease of this worker. The fields below the line
// belong to the board.
type attempt struct {
	lease   nexjob.Lease
	handler *handler // nil for a kind that was not asked for
	run     *Run
	cancel  context.CancelCauseFunc // of the handler's context; it does nothing before there is one
	started time.Time
	crowd   int // that it started in; 0: none

	phase   phase
	startBy time.Time     // while it waits: it is not started later
	live    bool          // the handler's goroutine has not ended
	until   time.Time     // the lease's end in the storage's time
	ends    time.Time     // the same moment on our own monotonic clock
	held    time.Time     // until then nobody can have taken the lease: ends, or later while its row is locked
	told    time.Time     // when the handler's context was ended; zero: it was not
	why     string        // and why
	shown   bool          // its being stuck has been logged
	overdue *time.Timer   // fires when the time-out and its grace are over; nil: none
	grace   time.Duration // of overdue
}

// board knows every attempt of a worker from its claim until its handler has ended and
// its settlement is written or let go. Every change of phase is made here, under one lock:
// a handler's return, a time-out, a lost lease and a stop cannot each end an attempt.
type board struct {
	mu       sync.Mutex
	attempts map[nexjob.Lease]*attempt
	live     int           // handlers that have not ended: each holds a slot
	open     int           // attempts that are not over
	stock    []*attempt    // those that wait for a slot, in the order in which they start
	closed   bool          // nothing waits any more
	pace     pace          // of the handlers
	changed  chan struct{} // closed at the next change, while somebody waits
	alarm    alarm

	wall func() time.Time // the host's clock, which goes on while the machine sleeps
}

func newBoard() *board { return &board{attempts: make(map[nexjob.Lease]*attempt), wall: time.Now} }

// running returns how many handlers run, stuck ones included.
func (b *board) running() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

// unsettled returns how many attempts wait for their settlement to be written.
func (b *board) unsettled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, a := range b.attempts {
		if a.phase == settling {
			n++
		}
	}
	return n
}

// pilesUp reports whether more than n attempts wait for their settlement to be written.
func (b *board) pilesUp(n int) bool {
	b.mu.Lock()
	few := len(b.attempts) <= n // so usually nobody counts
	b.mu.Unlock()
	return !few && b.unsettled() > n
}

// renewable returns the attempts whose leases are to be renewed. One that is
// completing is left out: its transaction holds the row, and a snapshot
// transaction could not commit past our write. One that is settling is left out,
// so that a settlement which cannot be written does not hold its job for ever.
func (b *board) renewable() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*attempt, 0, len(b.attempts))
	for _, a := range b.attempts {
		if a.phase == waiting || a.phase == running {
			list = append(list, a)
		}
	}
	return list
}

// renewed notes a lease's new end: until in the storage's time, ends on our clock.
func (b *board) renewed(a *attempt, until, ends time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch a.phase {
	case waiting:
		a.until, a.ends = until, ends
	case running:
		a.until, a.ends, a.held = until, ends, ends
		b.mindLocked(a)
	case completing, settling, over:
	}
}

// busy notes that a lease's row is locked, so that nobody can have taken the lease
// before until, on our clock. Nothing is sent after its end, but it is not lost.
func (b *board) busy(a *attempt, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase != running || !until.After(a.held) {
		return
	}
	a.held = until
}

// leaseEnd returns when the attempt's lease ends: in the storage's time and on our
// clock.
func (b *board) leaseEnd(a *attempt) (until, ends time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.until, a.ends
}

// phaseOf returns the attempt's phase.
func (b *board) phaseOf(a *attempt) phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.phase
}

// lose ends an attempt whose lease is gone, and tells its handler if it runs. What is
// completing is asked about when it returns, what is settling is judged by the fence.
func (b *board) lose(a *attempt, why string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loseLocked(a, why)
}

func (b *board) loseLocked(a *attempt, why string) bool {
	switch a.phase {
	case waiting:
		b.dropLocked(a)
	case running:
		b.tellLocked(a, nexjob.ErrLeaseLost, why)
	case completing, settling, over:
		return false
	}
	b.overLocked(a)
	return true
}

// tell ends the context of an attempt's handler.
func (b *board) tell(a *attempt, cause error, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tellLocked(a, cause, why)
}

func (b *board) tellLocked(a *attempt, cause error, why string) {
	if a.told.IsZero() {
		a.told, a.why = time.Now(), why
	}
	a.cancel(cause)
}

// tellAll ends the context of every handler.
func (b *board) tellAll(cause error, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.attempts {
		if a.live {
			b.tellLocked(a, cause, why)
		}
	}
}

// conclude moves an attempt that runs or completes to settling: from here on the
// caller alone decides how it ends. It answers false if another has been quicker.
func (b *board) conclude(a *attempt) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase != running && a.phase != completing {
		return false
	}
	b.settlingLocked(a)
	return true
}

// abandon does what conclude does for an attempt whose handler has not returned.
// One that is completing cannot be abandoned: its transaction may yet commit.
func (b *board) abandon(a *attempt, why string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase == completing && a.overdue != nil {
		a.overdue.Reset(a.grace)
	}
	if a.phase != running || !a.live {
		return false
	}
	if a.told.IsZero() {
		a.told, a.why = time.Now().Add(-a.grace), why
	}
	b.settlingLocked(a)
	return true
}

// abandonAll abandons every attempt that runs and returns them.
func (b *board) abandonAll() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*attempt
	for _, a := range b.attempts {
		if a.phase == running {
			b.settlingLocked(a)
			list = append(list, a)
		}
	}
	return list
}

func (b *board) settlingLocked(a *attempt) {
	a.phase = settling
	a.stopTimer()
	b.changedLocked()
}

// complete moves a running attempt to completing. The answer is the phase that it
// was in.
func (b *board) complete(a *attempt) phase {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := a.phase
	if was == running {
		a.phase = completing
	}
	return was
}

// completeFailed moves an attempt back to running: the storage has refused to
// settle it, so it is renewed again, unless its lease has ended meanwhile.
func (b *board) completeFailed(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.phase != completing {
		return
	}
	a.phase = running
	if !time.Now().Before(a.held) {
		b.loseLocked(a, "its lease ended while it was completing")
		return
	}
	b.mindLocked(a)
}

// settled ends an attempt: its settlement is written, refused or let go.
func (b *board) settled(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.overLocked(a)
}

func (b *board) overLocked(a *attempt) {
	if a.phase == over {
		return
	}
	a.phase = over
	a.stopTimer()
	b.open--
	if !a.live {
		delete(b.attempts, a.lease)
	}
	b.changedLocked()
}

// returned notes that the handler's goroutine ends, which frees its slot.
func (b *board) returned(a *attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.live = false
	b.live--
	b.pace.returned(time.Now())
	if a.phase == over {
		delete(b.attempts, a.lease)
	}
	b.changedLocked()
}

func (a *attempt) stopTimer() {
	if a.overdue != nil {
		a.overdue.Stop()
	}
}

func (b *board) changedLocked() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// await waits until done answers true or the time is over, and returns the newest
// answer. done is called with the board locked.
func (b *board) await(until time.Time, done func() bool) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		b.mu.Lock()
		if done() {
			b.mu.Unlock()
			return true
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return b.locked(done)
		}
	}
}

func (b *board) locked(ask func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return ask()
}

// stuckLocked reports whether the handler ignores that its context has ended.
// While it is completing it may only be waiting for its transaction.
func (a *attempt) stuckLocked(now time.Time, grace time.Duration) bool {
	return a.live && a.phase != completing && !a.told.IsZero() && now.Sub(a.told) >= grace
}

// stuck returns the handlers that are stuck. With unseen it returns only those that
// it has not returned so before.
func (b *board) stuck(grace time.Duration, unseen bool) []Stuck {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Stuck
	for _, a := range b.attempts {
		if !a.stuckLocked(now, grace) || unseen && a.shown {
			continue
		}
		a.shown = a.shown || unseen
		list = append(list, Stuck{
			Job: a.lease.Job, Kind: a.handler.kind, Fence: a.lease.Fence, Started: a.started, Told: a.told, Why: a.why,
		})
	}
	return list
}

// remaining returns the attempts whose handlers run or whose settlements are not
// written.
func (b *board) remaining() []*attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]*attempt, 0, len(b.attempts))
	for _, a := range b.attempts {
		list = append(list, a)
	}
	return list
}
