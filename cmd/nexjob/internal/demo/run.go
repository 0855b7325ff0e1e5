package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/audit"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/orders"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// ByKills as Options.Freezes is one freeze for every five kills, and at least one.
const ByKills = -1

// longestFreeze is well below what the demo waits for a takeover.
const longestFreeze = 15 * time.Second

// Options are the choices of a run.
type Options struct {
	Orders  int // different orders; 0: as many as the input holds
	Kills   int // worker processes to kill
	Freezes int // worker processes to freeze past their lease; or ByKills
	Workers int // processes at once
	// FreezeFor is how long a frozen process stays so at least; 0: until its lease is over.
	FreezeFor time.Duration
	// ServerRestarts is how often the private server is killed and started again.
	ServerRestarts int
	// Store is a URL of PostgreSQL, or PrivateServer; "": a SQLite file.
	Store string
	Input string        // JSON Lines file; "": the shipped orders, "-": Stdin
	Seed  uint64        // of everything that is drawn
	Keep  string        // folder to work in and leave behind; "": a temporary one
	Limit time.Duration // of the whole run; 0: reckoned from the rest

	Stdin    io.Reader
	Progress io.Writer
	Program  string // the binary to start processes from; "": this one
}

// fill settles how many freezes there are, and reports whether those that were asked for
// are left out, because this system has none.
func (o *Options) fill() (leftOut bool) {
	if !harm.CanFreeze {
		leftOut = o.Freezes != 0
		o.Freezes = 0
	}
	if o.Freezes == ByKills {
		o.Freezes = max(1, o.Kills/5)
		if o.Workers < 2 {
			o.Freezes = 0
		}
	}
	return leftOut
}

// check refuses options that cannot be meant.
func (o *Options) check() error {
	switch {
	case o.Orders < 0 || o.Orders > orders.MaxOrders:
		return input.Wrong("--orders", "%d: want 1 to %d", o.Orders, orders.MaxOrders)
	case o.Kills < 0:
		return input.Wrong("--kills", "%d: want 0 or more", o.Kills)
	case o.Freezes < 0:
		return input.Wrong("--freezes", "%d: want 0 or more", o.Freezes)
	case o.FreezeFor < 0 || o.FreezeFor > longestFreeze:
		return input.Wrong("--freeze-for", "%s: want 0s to %s", o.FreezeFor, longestFreeze)
	case o.Workers < 1 || o.Workers > 16:
		return input.Wrong("--workers", "%d: want 1 to 16", o.Workers)
	case o.Freezes > 0 && o.Workers < 2:
		return input.Wrong("--freezes", "%d with --workers %d: another worker must be there to take the job of a frozen one",
			o.Freezes, o.Workers)
	case o.ServerRestarts < 0:
		return input.Wrong("--server-restarts", "%d: want 0 or more", o.ServerRestarts)
	case o.ServerRestarts > 0 && o.Store != PrivateServer:
		return input.Wrong("--server-restarts", "it is for --store %s, whose server is the demo's own", PrivateServer)
	case o.Limit < 0:
		return input.Wrong("--timeout", "%s: want a time above zero", o.Limit)
	}
	return nil
}

// blows is how often a worker process is hit.
func (o *Options) blows() int { return o.Kills + o.Freezes }

// slots reckons how many jobs each worker process works at once. The more kills per
// order there are, the fewer: a kill also hits the bystanders, and from its second
// crash on a job waits longer each time, as it should where nobody kills on purpose.
func (o *Options) slots(orders int) int {
	switch {
	case 10*o.blows() <= orders:
		return 4
	case 5*o.blows() <= orders:
		return 2
	}
	return 1
}

// limit reckons a time that only a run with something wrong needs.
func (o *Options) limit(orders int) time.Duration {
	if o.Limit > 0 {
		return o.Limit
	}
	rounds := (o.blows() + orders - 1) / orders // how often the hardest hit order is hit
	return time.Minute + time.Duration(o.ServerRestarts)*20*time.Second + time.Duration(o.blows())*2*cast.Lease +
		time.Duration(o.Freezes)*o.FreezeFor + (10*time.Second)<<rounds + time.Duration(orders)*200*time.Millisecond
}

// Run runs the demo once. A report comes whenever the audit was made, also one that
// says what failed; an error says that there was nothing to audit. *input.Error
// means that the input or an option is wrong and nothing was done.
func Run(ctx context.Context, o Options) (_ audit.Report, err error) {
	leftOut := o.fill()
	if err := o.check(); err != nil {
		return audit.Report{}, err
	}
	var name string
	lines, err := input.Await(ctx, func() (lines []orders.Line, err error) {
		lines, name, err = orders.Open(o.Input, o.Stdin)
		return lines, err
	})
	switch {
	case ctx.Err() != nil:
		return audit.Report{}, brokenOff(ctx)
	case err != nil:
		return audit.Report{}, err
	}
	lines = orders.Select(lines, o.Orders, newRandom(o.Seed, streamOrders))
	effects := effectsOf(lines)
	if err := effects.Check(o.Kills, o.Freezes); err != nil {
		return audit.Report{}, input.Wrong("--kills", "%v", err)
	}
	dir, leave, err := workDir(o.Keep)
	if err != nil {
		return audit.Report{}, err
	}
	defer leave()
	p := newProgress(o.Progress)
	p.say("seed %d: %d orders from %s; to be killed: %d workers, frozen: %d",
		o.Seed, len(orders.First(lines)), name, o.Kills, o.Freezes)
	home, err := newPlace(ctx, &o, dir)
	if err != nil {
		return audit.Report{}, err
	}
	defer func() { err = errors.Join(err, home.leave(ctx)) }()
	p.say("on %s", home.name)
	s, err := newStage(ctx, &o, dir, home, lines, p)
	if err != nil {
		return audit.Report{}, err
	}
	defer s.close(ctx)
	s.hand.Plan(slices.Concat(harm.Draw(effects, o.Kills, o.Freezes, newRandom(o.Seed, streamHarm)),
		harm.DrawRestarts(effects, o.ServerRestarts, newRandom(o.Seed, streamRestarts))))
	trouble, err := s.play(ctx, o.limit(len(effects[outside.PaymentService])))
	if err != nil {
		return audit.Report{}, err
	}
	e, err := s.gather(ctx)
	if err != nil {
		return audit.Report{}, fmt.Errorf("%w%s", err, strings.Join(append([]string{""}, trouble...), "; before that: "))
	}
	e.RestartsWanted = o.ServerRestarts
	e.Lines, e.KillsWanted, e.FreezesWanted, e.FreezesLeftOut, e.Trouble = lines, o.Kills, o.Freezes, leftOut, trouble
	report := e.Audit()
	report.Input, report.Seed, report.Kept = name, o.Seed, o.Keep
	if home.kept {
		report.KeptSchema = home.schema
	}
	report.Seconds = p.elapsed().Round(time.Millisecond).Seconds()
	if o.Keep != "" {
		if err := keepRecords(dir, e, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// brokenOff is the error of a run whose context ended.
func brokenOff(ctx context.Context) error {
	return fmt.Errorf("demo: broken off: %w", context.Cause(ctx))
}

// effectsOf returns what the orders lead to at each service.
func effectsOf(lines []orders.Line) harm.Effects {
	effects := make(harm.Effects)
	for _, line := range orders.First(lines) {
		effects[outside.PaymentService] = append(effects[outside.PaymentService], strconv.FormatInt(line.OrderID, 10))
		effects[outside.WebhookService] = append(effects[outside.WebhookService], shop.PaidEvent(line.OrderID))
	}
	for _, line := range orders.FirstOfCustomers(lines) {
		effects[outside.MailService] = append(effects[outside.MailService], line.Customer)
	}
	return effects
}

// workDir returns the folder to work in, and what removes it if it is temporary.
// A folder that holds anything is not touched.
func workDir(keep string) (dir string, leave func(), err error) {
	if keep == "" {
		dir, err = os.MkdirTemp("", "nexjob-demo-")
		if err != nil {
			return "", nil, fmt.Errorf("demo: make a folder to work in: %w", err)
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil // nobody can mend it, and the system clears it
	}
	if err := os.MkdirAll(keep, 0o750); err != nil {
		return "", nil, input.Unreadable("--keep "+keep, err)
	}
	inside, err := os.ReadDir(keep)
	if err != nil {
		return "", nil, input.Unreadable("--keep "+keep, err)
	}
	if len(inside) > 0 {
		return "", nil, input.Wrong("--keep "+keep, "the folder is not empty: name a new one")
	}
	return keep, func() {}, nil
}

// The streams of one seed: what draws from one does not move the others, so that
// the same seed plans the same kills whatever else was drawn.
const (
	streamOrders uint64 = iota + 1
	streamHarm
	streamArrive
	streamThink
	streamTrouble
	streamRestarts
)

func newRandom(seed, stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream)) //nolint:gosec // a run must be repeatable from its seed
}

// progress writes lines for people while the run goes on, each with the time since
// the start.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, start: time.Now()} }

func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%6.2fs  %s\n", p.elapsed().Seconds(), view.Safe(fmt.Sprintf(format, args...)))
}

func (p *progress) elapsed() time.Duration { return time.Since(p.start) }
