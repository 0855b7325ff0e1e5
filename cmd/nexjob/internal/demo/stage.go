package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// stage is everything of one run, wired.
type stage struct {
	options  *Options
	lines    []orders.Line
	progress *progress
	place    *place
	at       *cast.Premises
	services *services
	crew     *harm.Crew
	ghost    *harm.Ghost
	hand     *harm.Hand
	arrivals *arrivals
	witness  *witness
}

func newStage(
	ctx context.Context, o *Options, dir string, home *place, lines []orders.Line, p *progress,
) (*stage, error) {
	program := o.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("demo: find the program to start processes from: %w", err)
		}
		program = self
	}
	if err := home.make(ctx); err != nil {
		return nil, err
	}
	first := orders.First(lines)
	at, err := cast.Open(ctx, home.at, true)
	if err != nil {
		return nil, err
	}
	s := &stage{options: o, lines: lines, progress: p, place: home, at: at}
	taken := make([]shop.Order, len(first))
	for i, line := range first {
		taken[i] = cast.OrderOf(line)
	}
	if err := shop.Open(ctx, at.Books, taken); err != nil {
		s.close(ctx)
		return nil, fmt.Errorf("demo: open the shop: %w", err)
	}
	start := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the program starts itself
		cmd.Env = append(os.Environ(), cast.StoreEnv+"="+home.at)
		return cmd
	}
	s.arrivals = &arrivals{client: at.Client, front: func(ctx context.Context) *exec.Cmd {
		return start(ctx, cast.FrontCommand, "--name", fmt.Sprintf("front-%d", tellers))
	}}
	s.ghost = harm.NewGhost(at.Store, at.Client, at.Books)
	s.hand = &harm.Hand{Ghost: s.ghost, Server: home, Say: p.say, Hit: s.hit, FreezeFor: o.FreezeFor}
	s.witness = newWitness(at.Client, at.Books, s.arrivals, s.hand, lines)
	if s.services, err = newServices(ctx, o.Seed, s.hand, s.witness); err != nil {
		s.close(ctx)
		return nil, err
	}
	s.crew = harm.NewCrew(dir, p.say, func(ctx context.Context, name string) *exec.Cmd {
		return start(ctx, cast.WorkCommand, "--demo", s.services.url(),
			"--smtp", s.services.smtp.Addr().String(), "--name", name, "--slots", strconv.Itoa(o.slots(len(first))),
			"--crash-limit", strconv.Itoa(o.blows()+nexjob.DefaultCrashLimit))
	})
	s.hand.Victims = s.crew
	return s, nil
}

// hit is what follows a blow inside an effect: the order comes once more, while its job
// still belongs to the process that was hit.
func (s *stage) hit(ctx context.Context, b harm.Blow) {
	for _, line := range s.lines {
		order := cast.OrderOf(line)
		item := map[outside.Service]string{
			outside.PaymentService: strconv.FormatInt(order.ID, 10),
			outside.MailService:    order.Customer,
			outside.WebhookService: shop.PaidEvent(order.ID),
		}[b.Service]
		if item == b.Item {
			_ = s.arrivals.send(ctx, "after a blow", line) // an error ends the run elsewhere too
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
	parties.Go(func() { //nolint:contextcheck // mails are cut at once, whatever ends
		if serveErr = s.services.serve(); serveErr != nil {
			stop(serveErr)
		}
	})
	handed := make(chan struct{})
	parties.Go(func() {
		s.hand.Run(work)
		close(handed)
	})
	crewDone := make(chan struct{})
	parties.Go(func() {
		defer close(crewDone)
		if crewErr = s.crew.Run(work, s.options.Workers); crewErr != nil {
			stop(crewErr)
		}
	})
	sent := make(chan struct{})
	parties.Go(func() {
		defer close(sent)
		if sendErr = s.arrivals.first(work, s.lines, s.options.Seed); sendErr != nil {
			stop(sendErr)
		}
	})
	watchErr := s.witness.watch(work, sent)
	stop(nil)
	<-crewDone // the processes still tell how they stand, and finish their calls
	<-handed
	shutdown, cancelShutdown := context.WithTimeout(context.WithoutCancel(ctx), cast.StopTime)
	defer cancelShutdown()
	shutdownErr := s.services.stop(shutdown)
	parties.Wait()

	switch {
	case ctx.Err() != nil:
		return nil, brokenOff(ctx)
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
		trouble = append(trouble, "the services did not stop: "+shutdownErr.Error())
	}
	return trouble, nil
}

// errTimeUp is the cause of a run's context when its time is up.
var errTimeUp = errors.New("demo: time is up")

// close releases what newStage took, as far as it came. Every write is committed by
// then, and the audit has read it back, so there is no one to tell of an error.
func (s *stage) close(ctx context.Context) {
	if s.services != nil {
		s.services.close() //nolint:contextcheck // likewise
	}
	s.at.Close(ctx)
}
