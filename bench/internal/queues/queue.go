// Package queues holds the sides that the benchmarks compare: nexjob and its peers, each
// opened where it is told to, all with the same few methods. It stands on the root
// package, the worker, the engines and the peers, and must not know what is measured.
// Start at Queue.
package queues

import (
	"context"
	"time"

	"github.com/nexjob/nexjob/sqlite"
)

// Order is the args of every job, the same for all sides. River takes its number for
// what must be unique; nexjob makes the idempotency key of it.
type Order struct {
	Number int64 `json:"number" river:"unique"`
	Cents  int64 `json:"cents"`
}

// Orders returns n orders whose numbers follow upon those before first.
func Orders(first int64, n int) []Order {
	list := make([]Order, n)
	for i := range list {
		list[i] = Order{Number: first + int64(i), Cents: 1999}
	}
	return list
}

// Handler works one job. The ID is what the queue calls it; nil from a queue that is no
// Witness.
type Handler func(o Order, id any)

// Queue is one side of a comparison: a job queue in a place of its own.
type Queue interface {
	// Add enqueues one job and returns once it is durable.
	Add(ctx context.Context, o Order) error
	// AddMany enqueues all in one step.
	AddMany(ctx context.Context, list []Order) error
	// Work starts to run handle for every job, in so many slots at once, until stop is
	// called; stop returns when what has begun is written.
	Work(ctx context.Context, slots int, handle Handler) (stop func() error, err error)
	// Left counts the jobs whose end is not written yet.
	Left(ctx context.Context) (int, error)
	Close() error
}

// Keyed is a queue that knows a job that it has already.
type Keyed interface {
	Queue
	// Again enqueues what an unfinished job holds the key of, and demands that the
	// answer says so.
	Again(ctx context.Context, o Order) error
}

// Timed is a queue whose jobs may be due later.
type Timed interface {
	Queue
	// AddAt enqueues all in one step, the first order due at the first time.
	AddAt(ctx context.Context, list []Order, due []time.Time) error
}

// Witness is a queue that tells whether the success of a job is written.
type Witness interface {
	Queue
	Succeeded(ctx context.Context, id any) (bool, error)
}

// Place is where a queue is opened: nothing is there yet.
type Place struct {
	At   string             // a file, the URL of a database, or the address of a server
	Mode sqlite.Synchronous // of a file
}

// Opener opens a queue in a place.
type Opener = func(ctx context.Context, at Place) (Queue, error)

// Side names one side and opens it.
type Side struct {
	Name string
	Open Opener
}

// Ours is the name of the side that all others are compared with.
const Ours = "nexjob"
