package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// WorkCommand is the hidden command of the program that is Work; Run starts itself
// with it.
const WorkCommand = "demo-worker"

// Options are the choices of a run.
type Options struct {
	Orders  int           // different orders; 0: as many as the input holds
	Kills   int           // worker processes to kill inside a charge
	Workers int           // processes at once
	Input   string        // JSON Lines file; "": the shipped orders, "-": Stdin
	Seed    uint64        // of everything that is drawn
	Keep    string        // folder to work in and leave behind; "": a temporary one
	Limit   time.Duration // of the whole run; 0: reckoned from the rest

	Stdin    io.Reader
	Progress io.Writer
	Program  string // the binary to start workers from; "": this one
}

// check refuses options that cannot be meant.
func (o *Options) check() error {
	switch {
	case o.Orders < 0 || o.Orders > maxOrders:
		return &InputError{Name: "--orders", Why: fmt.Sprintf("%d: want 1 to %d", o.Orders, maxOrders)}
	case o.Kills < 0:
		return &InputError{Name: "--kills", Why: fmt.Sprintf("%d: want 0 or more", o.Kills)}
	case o.Workers < 1 || o.Workers > 16:
		return &InputError{Name: "--workers", Why: fmt.Sprintf("%d: want 1 to 16", o.Workers)}
	case o.Limit < 0:
		return &InputError{Name: "--timeout", Why: fmt.Sprintf("%s: want a time above zero", o.Limit)}
	}
	return nil
}

// slots reckons how many jobs each worker process works at once. The more kills per
// order there are, the fewer: a kill also hits the bystanders, and from its second
// crash on a job waits longer each time, as it should where nobody kills on purpose.
func (o *Options) slots(orders int) int {
	switch {
	case 10*o.Kills <= orders:
		return 4
	case 5*o.Kills <= orders:
		return 2
	}
	return 1
}

// limit reckons a time that only a run with something wrong needs.
func (o *Options) limit(orders int) time.Duration {
	if o.Limit > 0 {
		return o.Limit
	}
	rounds := (o.Kills + orders - 1) / orders // how often the hardest hit order is killed
	return time.Minute + time.Duration(o.Kills)*2*lease + (10*time.Second)<<rounds +
		time.Duration(orders)*200*time.Millisecond
}

// Run runs the demo once. A report comes whenever the audit was made, also one that
// says what failed; an error says that there was nothing to audit. *InputError
// means that the input or an option is wrong and nothing was done.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.check(); err != nil {
		return Report{}, err
	}
	lines, name, err := openInput(o.Input, o.Stdin)
	if err != nil {
		return Report{}, err
	}
	lines = selectOrders(lines, o.Orders, o.Seed)
	orders := len(orderIDs(lines))
	if o.Kills > maxKillsPerOrder*orders {
		return Report{}, &InputError{Name: "--kills", Why: fmt.Sprintf(
			"%d with %d orders: at most %d per order", o.Kills, orders, maxKillsPerOrder)}
	}
	dir, leave, err := workDir(o.Keep)
	if err != nil {
		return Report{}, err
	}
	defer leave()
	p := newProgress(o.Progress)
	p.say("seed %d: %d orders from %s, %d kills", o.Seed, orders, name, o.Kills)
	s, err := newStage(ctx, &o, dir, lines, p)
	if err != nil {
		return Report{}, err
	}
	defer s.close(ctx)
	trouble, err := s.play(ctx, o.limit(orders))
	if err != nil {
		return Report{}, err
	}
	e, err := s.gather(ctx)
	if err != nil {
		return Report{}, err
	}
	e.lines, e.killsWanted, e.trouble = lines, o.Kills, trouble
	report := e.audit()
	report.Input, report.Seed, report.Kept = name, o.Seed, o.Keep
	report.Seconds = p.elapsed().Seconds()
	if o.Keep != "" {
		if err := keepRecords(dir, e, &report); err != nil {
			return report, err
		}
	}
	return report, nil
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
		return "", nil, &InputError{Name: "--keep " + keep, Why: unwrapPath(err)}
	}
	inside, err := os.ReadDir(keep)
	if err != nil {
		return "", nil, &InputError{Name: "--keep " + keep, Why: unwrapPath(err)}
	}
	if len(inside) > 0 {
		return "", nil, &InputError{Name: "--keep " + keep, Why: "the folder is not empty: name a new one"}
	}
	return keep, func() {}, nil
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
	fmt.Fprintf(p.out, "%6.2fs  %s\n", p.elapsed().Seconds(), fmt.Sprintf(format, args...))
}

func (p *progress) elapsed() time.Duration { return time.Since(p.start) }
