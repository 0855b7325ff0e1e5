package cast

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/worker"
)

// Where a worker process tells the demo what it is about to do or has done.
const (
	SendingPath = "/demo/sending" // an outside.Call: the effect is intended, nothing is sent
	CommitPath  = "/demo/commits" // a Commit
	HealthPath  = "/demo/health"  // a Health
)

// Caller is who sends a request, as the gates are told.
type Caller struct {
	Worker string       `json:"worker"` // the process
	Lease  nexjob.Lease `json:"lease"`  // of the attempt
}

// CallerOf reads what a call says of its sender.
func CallerOf(call outside.Call) (Caller, error) {
	var who Caller
	if err := json.Unmarshal([]byte(call.Caller), &who); err != nil {
		return who, fmt.Errorf("demo: a call does not say who sends it: %w", err)
	}
	return who, nil
}

// Commit is what the demo is told when a transaction of a job has committed.
type Commit struct {
	Job nexjob.ID `json:"job"`
}

// Health is how a worker process stands.
type Health struct {
	Worker       string `json:"worker"`
	LeasesLost   int64  `json:"leases_lost"`
	StaleRefused int64  `json:"stale_writes_refused"`
	Late         int64  `json:"late_results"`
}

// Refusals counts what this process was refused because its lease was gone.
func (h Health) Refusals() int64 { return h.LeasesLost + h.StaleRefused + h.Late }

// healthEvery is how often a worker process tells how it stands. What it counted since
// then dies with it.
const healthEvery = 100 * time.Millisecond

// props are what the demo puts around the shop in a worker process.
type props struct {
	demo string // URL
	name string // of this process
	http *http.Client
}

// scene is the attempt that a context belongs to.
type scene struct {
	call outside.Call
	job  nexjob.ID
}

type sceneKey struct{}

// onStage gives a handler a context that says whose attempt it is, for the props
// that meet it further down.
func onStage[T any](
	p *props, service outside.Service, item func(T) string, h func(context.Context, *worker.Run, T) error,
) func(context.Context, *worker.Run, T) error {
	return func(ctx context.Context, run *worker.Run, args T) error {
		who, err := json.Marshal(Caller{
			Worker: p.name, Lease: nexjob.Lease{Job: run.JobID(), Fence: run.Fence()},
		})
		if err != nil {
			return fmt.Errorf("demo: say who asks: %w", err)
		}
		call := outside.Call{Service: service, Item: item(args), Caller: string(who)}
		return h(context.WithValue(ctx, sceneKey{}, scene{call: call, job: run.JobID()}), run, args)
	}
}

// sceneOf returns the attempt that ctx belongs to.
func sceneOf(ctx context.Context) scene {
	s, _ := ctx.Value(sceneKey{}).(scene)
	return s
}

// RoundTrip is the transport of the shop's HTTP clients: before a request that may
// change something leaves, the demo is told.
func (p *props) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return http.DefaultTransport.RoundTrip(r)
	}
	call := sceneOf(r.Context()).call
	if err := p.tell(r.Context(), SendingPath, call); err != nil {
		_ = r.Body.Close() // a transport closes it, also when it fails
		return nil, worker.NotSent(err)
	}
	r = r.Clone(r.Context())
	r.Header.Set(outside.HeaderCaller, call.Caller)
	return http.DefaultTransport.RoundTrip(r)
}

// submit is the same for mail.
func (p *props) submit(next shop.Submit) shop.Submit {
	return func(ctx context.Context, from, to string, message []byte) error {
		call := sceneOf(ctx).call
		if err := p.tell(ctx, SendingPath, call); err != nil {
			return worker.NotSent(err)
		}
		header := outside.HeaderCaller + ": " + call.Caller + "\r\n"
		return next(ctx, from, to, append([]byte(header), message...))
	}
}

// watchedBooks are the shop's books in a worker process.
type watchedBooks struct {
	shop.Books
	props *props
}

// InTx runs transactions, and after each commit, before anything else is done, has the
// demo's witness look at what is there. If it cannot be asked, the shop goes on.
func (b watchedBooks) InTx(ctx context.Context, f func(tx shop.Tx) error) error {
	if err := b.Books.InTx(ctx, f); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = b.props.tell(ctx, CommitPath, Commit{Job: sceneOf(ctx).job}) // nothing of the shop depends on it
	return nil
}

// report tells how the worker stands until ctx ends, and then once more.
func (p *props) report(ctx context.Context, w *worker.Worker) {
	ticks := time.NewTicker(healthEvery)
	defer ticks.Stop()
	for {
		h := w.Health()
		health := Health{
			Worker: p.name, LeasesLost: h.LeasesLost, StaleRefused: h.StaleWritesRefused, Late: h.LateResults,
		}
		told, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = p.tell(told, HealthPath, health) // the next one says it too
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// tell posts to the demo and waits for its word.
func (p *props) tell(ctx context.Context, path string, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("demo: tell: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.demo+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("demo: tell: %w", err)
	}
	response, err := p.http.Do(r)
	if err != nil {
		return fmt.Errorf("demo: tell: %w", err)
	}
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection serves again
	_ = response.Body.Close()                 // it was only read
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("demo: tell: %s", response.Status)
	}
	return nil
}
