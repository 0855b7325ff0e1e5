package cast

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
)

// Answered is one enqueue and what became of it.
type Answered struct {
	From    string         `json:"from"` // the process, or the goroutine of the demo
	OrderID int64          `json:"order_id"`
	Key     string         `json:"key"`
	Job     nexjob.ID      `json:"job"` // that is the answer; with Rejected the key's last
	Outcome nexjob.Outcome `json:"outcome,omitzero"`
	Error   string         `json:"error,omitempty"` // neither accepted nor rejected by the policy
}

// OrderOf returns the order that a line of the input tells of.
func OrderOf(line orders.Line) shop.Order {
	return shop.Order{ID: line.OrderID, Customer: line.Customer, Cents: line.Cents, Currency: line.Currency}
}

// Arrival returns the jobs that a line leads to when it arrives. One that comes after
// the order's success repeats all that the order has led to, as when a broker delivers
// its messages again a day later.
func Arrival(line orders.Line) []nexjob.NewJob {
	order := OrderOf(line)
	if line.AfterSuccess {
		return append(order.Arrival(), order.Paid())
	}
	return order.Arrival()
}

// Tell enqueues the jobs of a line, one by one. An error says that nothing is known of
// the rest; what became of each job is in its answer.
func Tell(ctx context.Context, client *nexjob.Client, from string, line orders.Line) ([]Answered, error) {
	var told []Answered
	for _, job := range Arrival(line) {
		job.ID = nexjob.NewID() // so that it is the same job, however often it is told
		var answer nexjob.Answer
		err := Patiently(ctx, func() (err error) {
			answer, err = client.Enqueue(ctx, job)
			return err
		})
		if ctx.Err() != nil {
			return told, context.Cause(ctx)
		}
		told = append(told, answered(from, line.OrderID, job.IdempotencyKey, answer, err))
	}
	return told, nil
}

// TellAll enqueues the jobs of many lines as one batch.
func TellAll(ctx context.Context, client *nexjob.Client, from string, lines []orders.Line) ([]Answered, error) {
	var jobs []nexjob.NewJob
	var ids []int64
	for _, line := range lines {
		for _, job := range Arrival(line) {
			job.ID = nexjob.NewID()
			jobs, ids = append(jobs, job), append(ids, line.OrderID)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	var answers []nexjob.Answer
	err := Patiently(ctx, func() (err error) {
		answers, err = client.EnqueueMany(ctx, jobs)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("demo: enqueue: %w", err)
	}
	told := make([]Answered, len(jobs))
	for i := range jobs {
		told[i] = answered(from, ids[i], jobs[i].IdempotencyKey, answers[i], answers[i].Err)
	}
	return told, nil
}

func answered(from string, order int64, key string, answer nexjob.Answer, err error) Answered {
	a := Answered{From: from, OrderID: order, Key: key, Job: answer.ID, Outcome: answer.Outcome}
	var duplicate *nexjob.DuplicateJobError
	switch {
	case errors.As(err, &duplicate):
		a.Job, a.Outcome = duplicate.ExistingJobID, nexjob.Rejected
	case err != nil:
		a.Outcome, a.Error = 0, err.Error()
	}
	return a
}

// FrontOptions say what a second shop front writes to.
type FrontOptions struct {
	Store string // as StoreEnv tells it
	Name  string // of this process
}

// Front is the life of a process beside the demo that takes orders too: it reads lines
// of orders from stdin, enqueues what each leads to, and writes the answers to stdout,
// until stdin ends.
func Front(ctx context.Context, o FrontOptions, stdin io.Reader, stdout io.Writer) error {
	at, err := openPatiently(ctx, o.Store)
	if err != nil {
		return err
	}
	defer at.Close(ctx)
	out := json.NewEncoder(stdout)
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		var line orders.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("demo: read an order: %w", err)
		}
		told, err := Tell(ctx, at.Client, o.Name, line)
		if err != nil {
			return fmt.Errorf("demo: enqueue order %d: %w", line.OrderID, err)
		}
		for _, answer := range told {
			if err := out.Encode(answer); err != nil {
				return fmt.Errorf("demo: write an answer: %w", err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("demo: read an order: %w", err)
	}
	return nil
}
