// Command drivers measures SQLite drivers for Go that need no cgo, with the statements
// that a job queue runs most: see docs/adr/0005-sqlite-driver.md for what came out.
//
// It stands on the drivers alone and knows nothing of nexjob: a small schema with a
// table of jobs and one of keys stands in. Start at works, then at conn.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and answers the exit code: 0, 1 if something went
// wrong, 2 if the command line is wrong.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("drivers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	m := &meter{progress: stderr}
	flags.IntVar(&m.rounds, "rounds", 3, "rounds of every driver, of which the median counts")
	flags.DurationVar(&m.timed, "for", 2*time.Second, "how long each round measures")
	flags.Int64Var(&m.depth, "depth", 20_000, "how many jobs wait while others are claimed")
	flags.StringVar(&m.dir, "dir", "", "a folder on a real disk for the files (default: the system's for temporary files)")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case m.rounds < 1 || m.timed <= 0 || m.depth < 2*grip || flags.NArg() > 0:
		fmt.Fprintln(stderr, "drivers: want -rounds and -for above zero, -depth of 200 or more, and no arguments")
		return 2
	}
	if err := m.all(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "drivers:", err)
		return 1
	}
	return 0
}

// meter is one run of the command.
type meter struct {
	rounds   int
	timed    time.Duration
	depth    int64
	dir      string
	progress io.Writer
}

// all runs every kind of work in both modes, the drivers in turns, each time on a
// fresh file, and prints a table.
func (m *meter) all(ctx context.Context, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "work\tsynchronous\tdriver\trows/s\tµs of CPU")
	for _, w := range works(m.depth) {
		for _, mode := range []string{"full", "normal"} {
			all := make(map[string][]gauge.Reading)
			for round := range m.rounds {
				for _, d := range drivers() {
					r, err := m.once(ctx, w, mode, d)
					if err != nil {
						return fmt.Errorf("%s on %s: %w", w.name, d.name, err)
					}
					all[d.name] = append(all[d.name], r)
					fmt.Fprintf(m.progress, "%s %s %d/%d %s: %.4g\n", w.name, mode, round+1, m.rounds, d.name, r.Value)
				}
			}
			for _, d := range drivers() {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", w.name, mode, d.name, gauge.Values(all[d.name]), gauge.CPUs(all[d.name]))
			}
		}
	}
	return table.Flush()
}

// once measures one driver on a fresh file, which it removes.
func (m *meter) once(ctx context.Context, w work, mode string, d driver) (r gauge.Reading, err error) {
	dir, err := os.MkdirTemp(m.dir, "nexjob-drivers-")
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := d.open(ctx, filepath.Join(dir, "bench.db"))
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, statement := range schema(mode) {
		if err := c.exec(ctx, statement); err != nil {
			return gauge.Reading{}, fmt.Errorf("%s: %w", statement, err)
		}
	}
	watch, began := gauge.Watch{}, time.Time{}
	start := func() (err error) {
		watch, err = gauge.Start(nil)
		began = time.Now()
		return err
	}
	rows, err := w.run(ctx, c, start, func() bool { return ctx.Err() == nil && time.Since(began) < m.timed })
	if err != nil {
		return gauge.Reading{}, err
	}
	return watch.Rate(rows)
}
