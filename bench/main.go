// Command bench measures nexjob beside other job queues for Go on the same file
// system, in one process and in turns: see README.md for what is measured, how the
// others are set, and why.
//
// It stands on the root package, the worker and the engines, and on the peers; no
// package of the house may import it. Start at benches, then at bench.alternate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	driver "modernc.org/sqlite"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// benches in the order in which they run.
func benches() []named {
	return []named{
		{"enqueue16", (*bench).enqueue16},
		{"batch1000", (*bench).batch1000},
		{"endtoend", (*bench).endtoend},
		{"flat1m", (*bench).flat1m},
		{"latency", (*bench).latency},
	}
}

type named struct {
	name string
	run  func(*bench, context.Context) error
}

// run executes one command line and answers the exit code: 0, 1 if something went
// wrong, 2 if the command line is wrong.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	engine := flags.String("engine", "sqlite", "the storage engine to measure: sqlite")
	asJSON := flags.Bool("json", false, "print one JSON object a line instead of a table")
	only := flags.String("run", "", "run these benches alone, separated by commas")
	peers := flags.String("peers", "", "measure beside these peers alone, separated by commas, such as backlite,raw")
	rounds := flags.Int("rounds", 3, "rounds of every side, of which the median counts")
	dir := flags.String("dir", os.TempDir(), "a folder on a real disk for the files")
	flush := flags.Bool("fdatasync", false, "make the commits of all sides durable with fdatasync instead of fsync")
	quick := flags.Bool("quick", false, "do very little, to see that everything runs")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	chosen, err := choose(*only)
	switch {
	case err != nil:
	case *engine != "sqlite":
		err = fmt.Errorf("-engine %s: the engine that can be measured is sqlite", *engine)
	case !known(*peers):
		err = fmt.Errorf("-peers %s: the peers are backlite, goqite, river and, for batch1000, raw", *peers)
	case *rounds < 1:
		err = fmt.Errorf("-rounds %d: at least 1", *rounds)
	case flags.NArg() > 0:
		err = fmt.Errorf("%q: no arguments, only flags", flags.Arg(0))
	case !*quick:
		err = onDisk(*dir)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	b := &bench{sizes: fullSizes(*rounds), dir: *dir, peers: *peers, progress: stderr, emit: inLines(stdout)}
	if *quick {
		b.sizes = quickSizes()
	}
	written := func() error { return nil }
	if !*asJSON {
		b.emit, written = inTable(stdout)
	}
	if *flush {
		_, err = driver.Fdatasync(true) // of the whole process
	}
	if err == nil {
		err = b.all(ctx, chosen)
	}
	if err = errors.Join(err, written()); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// known reports whether every name of a list is a peer's.
func known(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if list != "" && !slices.Contains([]string{"backlite", "goqite", "river", "raw"}, name) {
			return false
		}
	}
	return true
}

// with leaves out the peers that were not asked for; our own side stays.
func (b *bench) with(sides []side) []side {
	if b.peers == "" {
		return sides
	}
	wanted := strings.Split(b.peers, ",")
	return slices.DeleteFunc(sides, func(s side) bool { return s.name != ours && !slices.Contains(wanted, s.name) })
}

func (b *bench) all(ctx context.Context, chosen []named) error {
	for _, n := range chosen {
		if err := n.run(b, ctx); err != nil {
			return err
		}
	}
	return nil
}

// choose finds the benches of a list of names; all of them for an empty one.
func choose(list string) ([]named, error) {
	all := benches()
	if list == "" {
		return all, nil
	}
	var chosen []named
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = n.name
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("-run %s: the benches are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
