package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/sqlite"
)

// stage is everything of one run, wired.
type stage struct {
	options  *Options
	lines    []Line
	progress *progress
	store    *sqlite.Store
	client   *nexjob.Client
	provider *outside.Provider
	server   *http.Server
	listener net.Listener
	crew     *crew
	kills    *kills
	stale    *stale
	enqueuer *enqueuer
	witness  *witness
}

func newStage(ctx context.Context, o *Options, dir string, lines []Line, p *progress) (*stage, error) {
	program := o.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("demo: find the program to start workers from: %w", err)
		}
		program = self
	}
	file, orders := filepath.Join(dir, "demo.db"), len(orderIDs(lines))
	store, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, fmt.Errorf("demo: open the storage: %w", err)
	}
	s := &stage{options: o, lines: lines, progress: p, store: store}
	if err := openShop(ctx, store.DB(), lines); err != nil {
		s.close(ctx)
		return nil, err
	}
	s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("demo: listen for the provider: %w", err)
	}
	s.client = nexjob.NewClient(store, nexjob.ClientOptions{})
	s.enqueuer = &enqueuer{client: s.client}
	s.witness = newWitness(s.client, store.DB(), s.enqueuer, lines)
	s.stale = newStale(store, store.DB())
	s.crew = newCrew(dir, p, func(ctx context.Context, name string) *exec.Cmd {
		//nolint:gosec // the program starts itself
		return exec.CommandContext(ctx, program, WorkCommand, "--db", file, "--provider",
			"http://"+s.listener.Addr().String(), "--name", name, "--slots", strconv.Itoa(o.slots(orders)),
			"--crash-limit", strconv.Itoa(o.Kills+nexjob.DefaultCrashLimit))
	})
	s.kills = &kills{kill: s.crew.kill, killed: s.killed, planned: planKills(lines, o.Kills, o.Seed)}
	s.provider = outside.NewProvider(outside.Conditions{Gate: s.gate, Think: thinking(o.Seed)})
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.provider.Handler())
	mux.HandleFunc("POST "+commitPath, s.committed)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s, nil
}

// thinking returns how long the provider takes over each charge: 5 to 40 ms.
func thinking(seed uint64) func() time.Duration {
	var mu sync.Mutex
	random := newRandom(seed, streamProvider)
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return 5*time.Millisecond + time.Duration(random.Int64N(int64(35*time.Millisecond)))
	}
}

// gate stands at the provider: a charge that is asked for again brings the writes
// of those who died at it, and one that is planned to kills its caller.
func (s *stage) gate(ctx context.Context, at outside.Moment, call outside.Call) (died bool) {
	if at == outside.BeforeApply {
		s.stale.rise(ctx, call)
	}
	return s.kills.gate(ctx, at, call)
}

// committed has the witness look at what a worker's transaction left, while the
// worker waits.
func (s *stage) committed(w http.ResponseWriter, r *http.Request) {
	var c commit
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.witness.atCommit(r.Context(), c); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// killed is what follows a kill: the order is sent once more while its job still
// belongs to the dead worker.
func (s *stage) killed(ctx context.Context, k Kill) {
	s.progress.say("killed %s (process %d) inside the charge of order %d, %s", k.Worker, k.PID, k.OrderID, k.At)
	s.stale.died(k)
	for _, line := range s.lines {
		if line.OrderID == k.OrderID && !line.AfterSuccess {
			_ = s.enqueuer.send(ctx, line) // an error is in its answer
			return
		}
	}
}

// play runs until all is done, the time is up, or something breaks. It returns what
// the audit must hear of; its error says that the run was broken off.
func (s *stage) play(ctx context.Context, limit time.Duration) (trouble []string, err error) {
	timed, cancel := context.WithTimeoutCause(ctx, limit, errTimeUp)
	defer cancel()
	work, stop := context.WithCancelCause(timed)
	defer stop(nil)

	var parties sync.WaitGroup
	var serveErr, crewErr, sendErr error
	parties.Go(func() {
		if serveErr = s.server.Serve(s.listener); !errors.Is(serveErr, http.ErrServerClosed) {
			stop(serveErr)
		}
	})
	parties.Go(func() {
		if crewErr = s.crew.run(work, s.options.Workers); crewErr != nil {
			stop(crewErr)
		}
	})
	sent := make(chan struct{})
	parties.Go(func() {
		if sendErr = s.enqueuer.sendFirst(work, s.lines, s.options.Seed); sendErr != nil {
			stop(sendErr)
		}
		close(sent)
	})
	watchErr := s.witness.watch(work, sent)
	stop(nil)
	shutdown, cancelShutdown := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancelShutdown()
	shutdownErr := s.server.Shutdown(shutdown)
	parties.Wait()

	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("demo: broken off: %w", context.Cause(ctx))
	case errors.Is(watchErr, errTimeUp):
		trouble = append(trouble, fmt.Sprintf("not done after %s", limit))
		trouble = append(trouble, s.witness.whyWaiting(ctx)...)
	case watchErr != nil:
		trouble = append(trouble, watchErr.Error())
	}
	if crewErr != nil && !errors.Is(watchErr, crewErr) {
		trouble = append(trouble, crewErr.Error())
	}
	if shutdownErr != nil {
		trouble = append(trouble, "the provider did not stop: "+shutdownErr.Error())
	}
	return trouble, nil
}

// errTimeUp is the cause of a run's context when its time is up.
var errTimeUp = errors.New("demo: time is up")

// close releases what newStage took, as far as it came. Every write is committed by
// then, and the audit has read it back, so there is no one to tell of an error.
func (s *stage) close(ctx context.Context) {
	if s.server != nil {
		_ = s.server.Close()
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.client != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		_ = s.client.Close(ctx)
	}
	_ = s.store.Close()
}
