package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// maxClaim bounds one claim, and with it how many jobs a lost answer can cost a
// crash.
const maxClaim = 1000

// claimer takes jobs for the free slots, and as many ahead as are soon started, until stop
// ends. Calls run under base: a claim that is under way when the worker stops is waited
// for, because the jobs of a lost answer could only be recovered as crashes.
func (w *Worker) claimer(stop, base context.Context) {
	rings, silence := w.listen()
	defer silence()
	timer := time.NewTimer(0)
	defer timer.Stop()
	want := true            // there may be work that was not asked for yet
	failures := 0           // claims that failed in a row
	var notBefore time.Time // the back-off of a failure
	var gathering rules.Gathering
	forecast := forecast{by: w.forecaster()}
	var last look
	var poll time.Time
	for stop.Err() == nil {
		w.fill(base) // slots that SetSlots added, or whose goroutine a handler ended
		room := 0
		if want && !time.Now().Before(notBefore) {
			room = w.room()
		}
		if room > 0 {
			// Handlers that are about to return make room for the same claim.
			w.crowd.await()
			room = gathering.Gather(time.Now, w.room, maxClaim)
			var err error
			last, err = w.claim(stop, base, room)
			switch {
			case err != nil:
				failures++
				notBefore = time.Now().Add(backoff(failures, min(5*time.Second, w.options.Lease)))
				timer.Reset(time.Until(notBefore))
			case last.got == room:
				failures = 0
				continue // where so many came, there may be more
			default:
				failures, want = 0, false
				poll = time.Now().Add(jittered(w.options.Poll))
				if due := w.foresee(stop, &forecast, last); !due.IsZero() && due.Before(poll) {
					poll = due
				}
				timer.Reset(w.untilNextLook(last.asked, poll))
			}
		}
		select {
		case <-stop.Done():
			return
		case <-rings:
			want = true
		case <-timer.C:
			want = true
		case <-w.wake:
			if !want {
				timer.Reset(w.untilNextLook(last.asked, poll))
			}
		}
	}
}

// listen returns the storage's bell, or a channel that stays silent.
func (w *Worker) listen() (rings <-chan struct{}, stop func()) {
	if ringer, ok := w.store.(nexjob.Ringer); ok {
		if bell := ringer.Bell(); bell != nil {
			return bell.Listen()
		}
	}
	return nil, func() {}
}

// room returns how many jobs may be claimed: never more than can start soon, and none
// while settlements pile up that cannot be written.
func (w *Worker) room() int {
	slots := int(w.slots.Load())
	if w.board.pilesUp(max(2*slots, maxClaim)) {
		return 0
	}
	return min(w.board.room(slots, w.prefetch(slots)), maxClaim)
}

// look is a claim that was answered.
type look struct {
	asked time.Time // when, on our clock
	now   time.Time // the same moment in the storage's time
	got   int       // how many jobs came
}

// claim asks for n jobs and has their handlers started.
func (w *Worker) claim(stop, base context.Context, n int) (look, error) {
	ctx, cancel := context.WithTimeout(base, w.options.Lease/3)
	defer cancel()
	var claimed []nexjob.Claimed
	var l look
	err := w.clock.Do(ctx, func(storageNow time.Time) error {
		l.asked, l.now = time.Now(), storageNow
		var err error
		ask := w.claimRequest(n)
		ask.Buffer = w.records
		claimed, err = w.store.Claim(ctx, storageNow, ask)
		return err
	})
	if err != nil {
		w.storageFailed("claim", fmt.Errorf("worker: claim: %w", err))
		return l, err
	}
	w.stats.claimed()
	if l.got = len(claimed); l.got == 0 {
		return l, nil
	}
	attempts := make([]*attempt, len(claimed))
	for i := range claimed {
		attempts[i] = w.newAttempt(&claimed[i], l.asked, l.now)
	}
	clear(claimed)
	w.records = claimed[:0]
	switch {
	case stop.Err() != nil:
		w.giveBack(attempts, "the worker is stopping")
		return l, nil
	case time.Since(l.asked) > w.options.Lease/3:
		attempts = w.renewLate(base, attempts)
	}
	attempts = slices.DeleteFunc(attempts, w.stray)
	w.crowd.gather(attempts)
	w.stock(base, attempts)
	return l, nil
}

func (w *Worker) claimRequest(n int) nexjob.ClaimRequest {
	return nexjob.ClaimRequest{
		Worker:     w.name,
		N:          n,
		Lease:      w.options.Lease,
		Queues:     w.queueOrder(),
		Kinds:      w.kinds,
		CrashLimit: w.options.CrashLimit,
	}
}

// queueOrder returns the queues in the order of one claim: as given, or drawn by
// weight without putting back.
func (w *Worker) queueOrder() []string {
	rest := append([]Queue(nil), w.options.Queues...)
	order := make([]string, 0, len(rest))
	for len(rest) > 0 {
		pick := 0
		if w.options.Weighted {
			pick = drawByWeight(rest)
		}
		order = append(order, rest[pick].Name)
		rest = append(rest[:pick], rest[pick+1:]...)
	}
	return order
}

func drawByWeight(queues []Queue) int {
	total := 0
	for _, q := range queues {
		total += max(q.Weight, 1)
	}
	at := int(random() * float64(total))
	for i, q := range queues {
		at -= max(q.Weight, 1)
		if at < 0 {
			return i
		}
	}
	return len(queues) - 1
}

// renewLate renews claims whose answer came so late that another worker may be
// about to recover them, and returns those that still hold. The others are given
// back: the fence makes that harmless where they are lost already.
func (w *Worker) renewLate(base context.Context, attempts []*attempt) []*attempt {
	answers, until, ends, err := w.callRenew(base, attempts)
	if err != nil {
		w.storageFailed("renew", err)
		w.giveBack(attempts, "the claim's answer came late and it could not be renewed")
		return nil
	}
	held := attempts[:0:0]
	for i, a := range attempts {
		if answers[i].Status != nexjob.Renewed {
			w.giveBack([]*attempt{a}, "the claim's answer came late")
			continue
		}
		a.until, a.ends = until, ends
		held = append(held, a)
	}
	return held
}

// giveBack settles claims that are not run, without spending anything.
func (w *Worker) giveBack(attempts []*attempt, why string) {
	if len(attempts) == 0 {
		return
	}
	for _, a := range attempts {
		w.board.turnBack(a)
		w.settler.add(a, nexjob.Settlement{Lease: a.lease, As: nexjob.EndInterrupted, Error: "not started: " + why})
	}
	w.stats.count(func(c *Counts) { c.ClaimsDropped += int64(len(attempts)) })
	w.log.Info("claims given back unrun", "worker", w.name, "jobs", len(attempts), "reason", why)
}

// errStrayKind marks a claim of a kind that was not asked for.
var errStrayKind = errors.New("worker: the storage answered a claim with a kind that was not asked for")

// stray gives back a claim of a kind that has no handler here, and reports whether it did.
func (w *Worker) stray(a *attempt) bool {
	if a.handler != nil {
		return false
	}
	w.board.turnBack(a)
	w.log.Error("claim given back", "worker", w.name, "job", a.lease.Job.String(), "error", errStrayKind.Error())
	w.settler.add(a, nexjob.Settlement{
		Lease: a.lease, As: nexjob.EndSnoozed, Delay: time.Minute, Error: errStrayKind.Error(),
	})
	return true
}
