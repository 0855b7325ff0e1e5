package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob"
)

// Worker runs the handlers of the kinds that it serves. Make one with New, give it
// handlers with Handle, and call Run once: until then nothing is worked.
type Worker struct {
	store   nexjob.Storage
	clock   *nexjob.StorageTime
	options Options
	name    string // Options.Name and a part of this worker's own
	log     *slog.Logger

	slots   atomic.Int64
	board   *board
	crew    *crew
	crowd   crowd
	settler *settler
	records []nexjob.Claimed // of the claimer alone: room for those of the next claim
	dues    *dues
	stats   stats
	wake    chan struct{} // tells the claimer that a slot came free or a due time is known

	kinds []string // all names in handlers, from Run on

	mu       sync.Mutex
	handlers map[string]*handler // by kind and by each of its former names
	mistakes []error
	misused  chan struct{} // closed at a mistake that is made after Run has begun
	state    lifeState
	startAt  time.Time
}

type lifeState uint8

const (
	fresh lifeState = iota
	working
	stopping
	stopped
)

// handler is one kind's handler with its arguments' type inside call.
type handler struct {
	kind  string
	retry nexjob.Retry
	call  func(ctx context.Context, run *Run) error
}

// New returns a worker on a storage. Whatever is wrong with the options comes out
// of Run.
func New(store nexjob.Storage, options Options) *Worker {
	options = options.withDefaults()
	w := &Worker{
		store:    store,
		options:  options,
		log:      options.Logger,
		board:    newBoard(),
		crew:     newCrew(),
		dues:     new(dues),
		wake:     make(chan struct{}, 1),
		handlers: make(map[string]*handler),
		misused:  make(chan struct{}),
	}
	own := nexjob.NewID().String()
	w.name = options.Name + "-" + own[len(own)-8:]
	w.setSlots(options.Slots)
	w.settler = newSettler(w)
	w.board.alarm.lost = func(a *attempt, why string) { w.countLost(a, why, true) }
	if store == nil {
		w.mistakes = append(w.mistakes, errors.New("worker: New was given no storage"))
	} else {
		w.clock = nexjob.NewStorageTime(store)
	}
	if err := options.validate(); err != nil {
		w.mistakes = append(w.mistakes, err)
	}
	return w
}

// Handle gives a worker the handler of a kind, which also works the jobs that were
// enqueued under the kind's former names. A mistake, such as a kind that has a
// handler already, or a call after Run has begun, comes out of Run.
//
// Goroutines are used for one job after another, so a handler that locks its thread unlocks
// it again before it returns.
func Handle[T any](w *Worker, k nexjob.Kind[T], h func(context.Context, *Run, T) error) {
	var call func(ctx context.Context, run *Run) error
	if h != nil {
		call = func(ctx context.Context, run *Run) error {
			args, err := k.Decode(run.job.args)
			if err != nil {
				return Permanent(err) // the same bytes never decode better
			}
			return h(ctx, run, args)
		}
	}
	w.handle(k.Name(), k.Defaults(), call)
}

func (w *Worker) handle(kind string, defaults nexjob.Defaults, call func(context.Context, *Run) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mistake := func(format string, args ...any) {
		w.mistakes = append(w.mistakes, fmt.Errorf("worker: Handle: "+format, args...))
		if w.state == working && len(w.mistakes) == 1 {
			close(w.misused)
		}
	}
	switch {
	case w.state != fresh:
		mistake("kind %q came after Run had begun; register every handler before", kind)
		return
	case call == nil:
		mistake("the handler of kind %q is nil", kind)
		return
	}
	h := &handler{kind: kind, retry: defaults.Retry, call: call}
	for _, name := range append([]string{kind}, defaults.Aliases...) {
		if err := nexjob.ValidateName("kind", name); err != nil {
			mistake("%w; make kinds with nexjob.KindOf", err)
			continue
		}
		if other, taken := w.handlers[name]; taken {
			mistake("kind %q has a handler already, that of kind %q: give a kind one handler, and a name to one kind",
				name, other.kind)
			continue
		}
		w.handlers[name] = h
	}
}

// Name returns the worker's name with the part of its own, as jobs and the list of
// workers show it.
func (w *Worker) Name() string { return w.name }

// SetSlots changes how many handlers run at once. A smaller number takes effect as
// running handlers return. Fewer than one is one.
func (w *Worker) SetSlots(n int) {
	w.setSlots(max(n, 1))
	w.kick()
}

func (w *Worker) setSlots(n int) {
	w.slots.Store(int64(n))
	w.crew.keep(int64(n))
}

// Run works until ctx ends, then stops gracefully: it claims nothing more, gives
// back what it has claimed ahead, leaves running handlers nine tenths of
// Options.ShutdownTimeout to return, ends their contexts with nexjob.ErrShutdown, gives
// back what is left without spending a try, and returns in time. It returns nil after a
// stop that left nothing behind, *StopError with the jobs that it could not wait for, or
// the mistakes that were made in New and Handle. A worker runs once.
//
// Contexts of handlers do not end with ctx; they keep its values.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.begin(); err != nil {
		return err
	}
	base, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	claims, stopClaims := context.WithCancel(ctx)
	defer stopClaims()

	var lanes, claimers sync.WaitGroup
	claimers.Go(func() { w.claimer(claims, base) })
	lanes.Go(claimers.Wait)
	if w.forecaster() == nil {
		lanes.Go(func() { w.scout(claims) })
	}
	lanes.Go(func() { w.upkeep(claims) })
	lanes.Go(func() { w.renewer(base) })
	lanes.Go(func() { w.settler.work(base) })
	w.log.Info("worker started", "worker", w.name, "slots", w.slots.Load(), "kinds", w.kinds)

	select {
	case <-ctx.Done():
	case <-w.misused:
	}
	stopClaims()
	err := w.stop(base, ended(&claimers))
	end()
	if !waitFor(ended(&lanes), time.Now().Add(time.Second)) {
		w.log.Error("a storage call goes on although its context has ended", "worker", w.name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = stopped
	return errors.Join(append([]error{err}, w.mistakes...)...)
}

// begin checks what New and Handle were given.
func (w *Worker) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != fresh {
		return errors.New("worker: Run was called twice; make another worker with New")
	}
	if len(w.mistakes) == 0 && len(w.handlers) == 0 {
		w.mistakes = append(w.mistakes, errors.New("worker: no handler is registered; call Handle before Run"))
	}
	if len(w.mistakes) > 0 {
		return errors.Join(w.mistakes...)
	}
	w.state = working
	w.kinds = slices.Sorted(maps.Keys(w.handlers))
	w.startAt = time.Now()
	return nil
}

// ended returns a channel that is closed when the group is done.
func ended(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	return done
}

// kick wakes the claimer. Kicks that it has not taken yet are one.
func (w *Worker) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// random returns a number in [0, 1) for jitter.
func random() float64 {
	return rand.Float64() //nolint:gosec // jitter only spreads load, nobody gains by guessing it
}

// jittered returns d changed by at most a fifth either way, so that workers that
// started together do not ask together.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*random()))
}

// pause waits for d or until ctx ends, and reports whether ctx lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// backoff returns the wait after the given number of failures in a row, from 1:
// 50 ms doubling to limit.
func backoff(failures int, limit time.Duration) time.Duration {
	wait := 50 * time.Millisecond << min(failures-1, 16)
	return jittered(max(min(wait, limit), time.Millisecond))
}

// stop ends the worker within ShutdownTimeout. In nine tenths of it handlers may
// return by themselves; then they are told to stop; what has not returned after
// another third of the rest is given back, and the last third is for writing that.
func (w *Worker) stop(base context.Context, claimersEnded <-chan struct{}) error {
	w.mu.Lock()
	w.state = stopping
	w.mu.Unlock()
	began := time.Now()
	whole := w.options.ShutdownTimeout
	end := began.Add(whole)
	rest := min(whole/10, 3*time.Second)
	w.log.Info("worker stopping", "worker", w.name, "busy", w.board.running())

	w.giveBack(w.board.closeStock(), "the worker is stopping")
	none := func() bool { return w.board.live == 0 && w.board.open == 0 }
	quiet := waitFor(claimersEnded, end.Add(-rest)) && w.board.await(end.Add(-rest), none)
	if !quiet {
		w.board.tellAll(nexjob.ErrShutdown, "the worker is stopping")
		quiet = waitFor(claimersEnded, end.Add(-rest/2)) && w.board.await(end.Add(-rest/2), none)
	}
	var left []Left
	if !quiet {
		left = w.giveUp(end)
	}
	w.leave(base, end)
	if len(left) == 0 {
		w.log.Info("worker stopped", "worker", w.name, "took", time.Since(began).String())
		return nil
	}
	err := &StopError{Left: left}
	w.log.Error("worker stopped with jobs left", "worker", w.name, "error", err.Error())
	return err
}

// giveUp settles what still runs as interrupted, waits until that is written or
// the time is over, and returns what is left.
func (w *Worker) giveUp(end time.Time) []Left {
	given := make(map[*attempt]bool)
	for _, a := range w.board.abandonAll() {
		given[a] = true
		w.settler.add(a, nexjob.Settlement{
			Lease: a.lease, As: nexjob.EndInterrupted, Error: "the worker stopped before the handler returned",
		})
	}
	w.board.await(end, func() bool { return w.board.open == 0 })
	var left []Left
	for _, a := range w.board.remaining() {
		l := Left{Job: a.lease.Job, Kind: a.run.job.kind, Fence: a.lease.Fence, Why: "its handler still runs"}
		switch w.board.phaseOf(a) {
		case completing:
			l.Why = "its transaction is still open"
		case settling:
			l.Why = "its settlement could not be written"
		case waiting, running, over:
			l.GivenBack = given[a]
		}
		left = append(left, l)
	}
	slices.SortFunc(left, func(a, b Left) int { return cmp.Or(a.Job.Compare(b.Job), cmp.Compare(a.Fence, b.Fence)) })
	return left
}

// leave removes the worker's entry, and takes a moment for it even after a stop
// that has used up its time.
func (w *Worker) leave(base context.Context, end time.Time) {
	rest := max(time.Until(end), 100*time.Millisecond)
	ctx, cancel := context.WithTimeout(base, rest)
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		w.step(ctx, "presence", w.dropPresence)
	}()
	waitFor(left, time.Now().Add(rest)) // a storage may not heed its context
}

// waitFor waits until done is closed, at most until end.
func waitFor(done <-chan struct{}, end time.Time) bool {
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
