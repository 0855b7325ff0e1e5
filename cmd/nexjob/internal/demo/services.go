package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// services are those whom the shop calls, and the door at which its processes tell the
// demo how they stand. They run in the demo's own process and outlive every kill.
type services struct {
	payment *outside.Provider
	mail    *outside.Mailbox
	webhook *outside.Receiver

	http *http.Server
	smtp net.Listener
	web  net.Listener
}

// newServices listens, and does not serve yet.
func newServices(ctx context.Context, seed uint64, hand *harm.Hand, w *witness) (*services, error) {
	listen := new(net.ListenConfig).Listen
	web, err := listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: listen: %w", err)
	}
	smtp, err := listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		_ = web.Close() // nothing was served on it
		return nil, fmt.Errorf("demo: listen: %w", err)
	}
	conditions := outside.Conditions{
		Think: thinking(newRandom(seed, streamThink)), Trouble: troubling(hand, newRandom(seed, streamTrouble)),
		Gate: func(ctx context.Context, at outside.Moment, call outside.Call) bool {
			if at == outside.BeforeApply {
				return hand.Meet(ctx, harm.BeforeApply, call)
			}
			return hand.Meet(ctx, harm.AfterApply, call)
		},
	}
	s := &services{
		payment: outside.NewProvider(conditions), webhook: outside.NewReceiver(conditions),
		mail: outside.NewMailbox(conditions, slog.New(slog.DiscardHandler)), // it hears of killed callers
		smtp: smtp, web: web,
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/charges", s.payment.Handler())
	mux.Handle("/v1/messages", s.mail.Handler())
	mux.Handle("/hooks/", s.webhook.Handler())
	mux.HandleFunc("POST "+cast.SendingPath, door(func(ctx context.Context, call outside.Call) error {
		if hand.Later(call) {
			return errLater
		}
		if hand.Meet(ctx, harm.BeforeSend, call) {
			panic(http.ErrAbortHandler) // the caller is dead
		}
		return nil
	}))
	mux.HandleFunc("POST "+cast.CommitPath, door(func(ctx context.Context, c cast.Commit) error {
		return w.atCommit(ctx, c.Job)
	}))
	mux.HandleFunc("POST "+cast.HealthPath, door(func(_ context.Context, h cast.Health) error {
		hand.Healthy(h)
		return nil
	}))
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	return s, nil
}

// errLater turns a process away before it has sent anything; its job is tried again.
var errLater = errors.New("demo: come back later")

// door answers what a process of the cast tells.
func door[T any](hear func(context.Context, T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var said T
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&said); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := hear(r.Context(), said); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// url is where the services answer HTTP.
func (s *services) url() string { return "http://" + s.web.Addr().String() }

// serve serves until stop; it returns an error only if it ended by itself.
func (s *services) serve() error {
	var serving sync.WaitGroup
	var mailErr error
	serving.Go(func() {
		if mailErr = s.mail.Serve(s.smtp); mailErr != nil {
			_ = s.http.Close() // one that cannot go on stops both
		}
	})
	err := s.http.Serve(s.web)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	} else {
		s.mail.Close()
	}
	serving.Wait()
	return errors.Join(err, mailErr)
}

// stop stops serving, and waits for the calls there are.
func (s *services) stop(ctx context.Context) error {
	return errors.Join(s.http.Shutdown(ctx), s.mail.Shutdown(ctx))
}

// close lets go of what was never served, or could not be stopped.
func (s *services) close() {
	_ = s.http.Close()
	s.mail.Close()
	_, _ = s.web.Close(), s.smtp.Close()
}

// thinking returns how long a service takes over each call: 3 to 20 ms.
func thinking(random *rand.Rand) func() time.Duration {
	var mu sync.Mutex
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return 3*time.Millisecond + time.Duration(random.Int64N(int64(17*time.Millisecond)))
	}
}

// maxTrouble is how often one effect meets with trouble: enough to be a nuisance, and an
// end to it.
const maxTrouble = 2

// troubling returns what goes wrong with a call through nobody's fault: every eighth
// has some trouble. An effect whose caller is to be killed or frozen has enough of it.
func troubling(hand *harm.Hand, random *rand.Rand) outside.Trouble {
	var mu sync.Mutex
	met := make(map[outside.Call]int)
	faults := []outside.Fault{
		outside.DropReply, outside.ServerError, outside.ServerErrorAfter, outside.TooMany, outside.InProgress,
	}
	return func(call outside.Call) outside.Fault {
		if hand.Planned(call) {
			return outside.None
		}
		call.Caller = "" // the effect is the same for everybody
		mu.Lock()
		defer mu.Unlock()
		if met[call] == maxTrouble || random.IntN(8) > 0 {
			return outside.None
		}
		met[call]++
		return faults[random.IntN(len(faults))]
	}
}
