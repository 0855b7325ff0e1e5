package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// senders is how many goroutines take the first sendings of all orders to the
// storage at once. One of them sends its share as one batch.
const senders = 4

// Answered is one enqueue and what became of it.
type Answered struct {
	OrderID int64
	Answer  nexjob.Answer
	Err     error
}

// enqueuer tells the storage of orders, as often as the input says, and remembers
// every answer. What follows an end is decided by the witness, who sees it.
type enqueuer struct {
	client *nexjob.Client

	mu      sync.Mutex
	asking  int // enqueues that are not answered yet
	answers []Answered
}

// job is the job of one order. Its key is the order's, so every repeat while it is
// active is answered with it. After its success a repeat is a new operation: the
// policy allows it, and the handler looks whether the order is paid.
func (l Line) job() nexjob.NewJob {
	args := outside.Charge{OrderID: l.OrderID, Cents: l.Cents, Currency: l.Currency}
	return ChargeCard.New(args, nexjob.Options{
		IdempotencyKey:  paymentKey(l.OrderID),
		DuplicatePolicy: nexjob.AllowAfterFailed,
		StrictArgs:      true,
	})
}

// sendFirst sends the lines that do not wait for a success, in an order drawn from
// the seed, from several goroutines at once.
func (e *enqueuer) sendFirst(ctx context.Context, lines []Line, seed uint64) error {
	first := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.AfterSuccess })
	newRandom(seed, streamEnqueue).Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	shares := make([][]Line, senders)
	for i, line := range first {
		shares[i%senders] = append(shares[i%senders], line)
	}
	var sending sync.WaitGroup
	faults := make([]error, senders)
	for i, share := range shares {
		sending.Go(func() {
			if i == 0 {
				faults[i] = e.sendBatch(ctx, share)
				return
			}
			for _, line := range share {
				if faults[i] = e.send(ctx, line); faults[i] != nil {
					return
				}
			}
		})
	}
	sending.Wait()
	for _, fault := range faults {
		if fault != nil {
			return fault
		}
	}
	return nil
}

// send enqueues one line. A refusal is remembered for the audit; an error of the
// storage ends the run.
func (e *enqueuer) send(ctx context.Context, line Line) error {
	e.ask()
	answer, err := e.client.Enqueue(ctx, line.job())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.answer(Answered{OrderID: line.OrderID, Answer: answer, Err: err})
	return nil
}

func (e *enqueuer) sendBatch(ctx context.Context, lines []Line) error {
	if len(lines) == 0 {
		return nil
	}
	jobs := make([]nexjob.NewJob, len(lines))
	for i, line := range lines {
		jobs[i] = line.job()
	}
	e.ask()
	answers, err := e.client.EnqueueMany(ctx, jobs)
	if err != nil {
		return fmt.Errorf("demo: enqueue: %w", err)
	}
	answered := make([]Answered, len(lines))
	for i, answer := range answers {
		answered[i] = Answered{OrderID: lines[i].OrderID, Answer: answer, Err: answer.Err}
	}
	e.answer(answered...)
	return nil
}

func (e *enqueuer) ask() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asking++
}

func (e *enqueuer) answer(answered ...Answered) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asking--
	e.answers = append(e.answers, answered...)
}

// idle reports whether every enqueue has its answer.
func (e *enqueuer) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asking == 0
}

// list returns the answers from the given one on.
func (e *enqueuer) list(from int) []Answered {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.answers[from:])
}
