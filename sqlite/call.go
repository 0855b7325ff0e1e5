package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nexjob/nexjob/internal/onewriter"
)

// sortOfCall orders the calls of one transaction: leases are kept and ended before
// new ones are handed out.
type sortOfCall int

const (
	renewing sortOfCall = iota
	settling
	recording
	enqueueing
	amending
	putting
	claiming
)

// call is one step that somebody waits for.
type call struct {
	sort sortOfCall
	size int // about how many records it is about
	now  time.Time
	wait onewriter.Wait
	// gone reports that the caller has stopped waiting.
	gone func() bool
	// length is that of the leases which a renewal grants. Calls of equal sort and length
	// are one step of the unit, if their work merges.
	length time.Duration
	work   work

	done chan struct{} // closed when the call has been answered
	err  error         // *panicError: the caller's step panicked
}

// work is what a call does in a unit.
type work interface {
	// run does it, and that of others like it, in one step.
	run(ctx context.Context, u *onewriter.Unit, others []work) error
	// merges reports whether there may be others.
	merges() bool
}

// items is the work of a step that takes a list and answers per item: the lists of
// several callers are one list, whose answers are split again.
type items[I, A any] struct {
	step    func(u *onewriter.Unit, ctx context.Context, list []I) ([]A, error)
	list    []I
	answers []A
}

func (w *items[I, A]) merges() bool { return true }

func (w *items[I, A]) run(ctx context.Context, u *onewriter.Unit, others []work) error {
	all := w.list
	if len(others) > 0 {
		all = slices.Clone(w.list)
	}
	sharing := []*items[I, A]{w}
	for _, other := range others {
		if same, ok := other.(*items[I, A]); ok {
			sharing = append(sharing, same)
			all = append(all, same.list...)
		}
	}
	answers, err := w.step(u, ctx, all)
	if err != nil {
		return err
	}
	for _, s := range sharing {
		s.answers, answers = answers[:len(s.list):len(s.list)], answers[len(s.list):]
	}
	return nil
}

// single is the work of a step that stands alone.
type single[A any] struct {
	step   func(u *onewriter.Unit, ctx context.Context) (A, error)
	answer A
}

func (w *single[A]) merges() bool { return false }

func (w *single[A]) run(ctx context.Context, u *onewriter.Unit, _ []work) error {
	var err error
	w.answer, err = w.step(u, ctx)
	return err
}

// perform does the calls in one unit. Each step sees what those before it wrote.
func perform(ctx context.Context, u *onewriter.Unit, calls []*call) error {
	ordered := slices.Clone(calls)
	slices.SortStableFunc(ordered, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.sort, b.sort), cmp.Compare(a.length, b.length))
	})
	for len(ordered) > 0 {
		first := ordered[0]
		n := 1
		var others []work
		for first.work.merges() && n < len(ordered) &&
			ordered[n].sort == first.sort && ordered[n].length == first.length {
			others = append(others, ordered[n].work)
			n++
		}
		if err := first.work.run(ctx, u, others); err != nil {
			return err
		}
		if ordered = ordered[n:]; len(ordered) > 0 {
			if err := u.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// load is the calls of one transaction, in the order in which they were taken up.
type load struct {
	calls []*call
	items int
	open  bool // calls that come while it runs may join
}

// take takes up calls for a transaction, as many as it has room for: renewals before all
// others, which keep their order.
func (l *lane) take(into *load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortStableFunc(l.waiting, func(a, b *call) int { return urgency(a.sort) - urgency(b.sort) })
	taken := 0
	for _, c := range l.waiting {
		if n := len(into.calls); n > 0 && (n >= callsAtOnce || into.items+c.size > itemsAtOnce) {
			break
		}
		into.calls = append(into.calls, c)
		into.items += c.size
		taken++
	}
	l.waiting = slices.Delete(l.waiting, 0, taken)
}

// urgency puts renewals before everything else that waits.
func urgency(s sortOfCall) int {
	if s == renewing {
		return 0
	}
	return 1
}

// latest is the time of calls that are taken up together.
func latest(calls []*call) time.Time {
	now := calls[0].wait.Add(calls[0].now)
	for _, c := range calls[1:] {
		if at := c.wait.Add(c.now); at.After(now) {
			now = at
		}
	}
	return now
}

// count returns how many calls wait.
func (l *lane) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// panicError is what a step panicked with. The lane is nobody's goroutine: it hands
// the panic to the caller whose step it was.
type panicError struct {
	value any
	stack []byte
}

// Error is the panic as the runtime prints it.
func (p *panicError) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }
