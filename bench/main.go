// Command bench measures nexjob beside other job queues for Go on the same disk, in one
// process and in turns: see README.md for what is measured, how the others are set, and why.
//
// It stands on the root package, the worker and the engines, and on the peers; no
// package of the house may import it. Start at suites, then at bench.alternate.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob/bench/internal/ground"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and answers the exit code: 0, 1 if something went
// wrong, 2 if the command line is wrong.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	engine := flags.String("engine", "sqlite", "the storage engine to measure: sqlite or postgres")
	asJSON := flags.Bool("json", false, "print one JSON object a line instead of a table")
	only := flags.String("run", "", "run these benches alone, separated by commas")
	peers := flags.String("peers", "", "measure beside these peers alone, separated by commas, such as river")
	rounds := flags.Int("rounds", 3, "rounds of every side, of which the median counts")
	dir := flags.String("dir", os.TempDir(), "a folder on a real disk for the files; a private server's user must reach it")
	server := flags.String("server-url", "", "measure on this server of PostgreSQL instead of a private one")
	flush := flags.Bool("fdatasync", false, "make the commits of all sides on files durable with fdatasync instead of fsync")
	quick := flags.Bool("quick", false, "do very little, to see that everything runs")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	suite, ok := suites()[*engine]
	var chosen []named
	var err error
	if ok {
		chosen, err = suite.choose(*only)
	}
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("-engine %s: the engines that can be measured are sqlite and postgres", *engine)
	case !suite.knows(*peers):
		err = fmt.Errorf("-peers %s: the peers on %s are %s", *peers, *engine, strings.Join(suite.peers, ", "))
	case *rounds < 1:
		err = fmt.Errorf("-rounds %d: at least 1", *rounds)
	case flags.NArg() > 0:
		err = fmt.Errorf("%q: no arguments, only flags", flags.Arg(0))
	case !*quick && *server == "":
		err = ground.OnDisk(*dir)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	b := &bench{sizes: fullSizes(*engine, *rounds), peers: *peers, progress: stderr, emit: inLines(stdout)}
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
		err = b.choose(ctx, *engine, *dir, *server)
	}
	if err == nil {
		err = errors.Join(b.all(ctx, chosen), b.leave())
	}
	if err = errors.Join(err, written()); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// choose finds the ground to measure on.
func (b *bench) choose(ctx context.Context, engine, dir, server string) (err error) {
	b.ground, b.redis = ground.Files(dir), ground.NewRedis(dir)
	if engine != "postgres" {
		return nil
	}
	if server != "" {
		b.server, err = ground.UsePostgres(ctx, server)
	} else {
		b.server, err = ground.StartPostgres(ctx, dir)
	}
	b.ground = b.server
	return err
}

// leave ends the servers.
func (b *bench) leave() error { return errors.Join(b.ground.Close(), b.redis.Close()) }

func (b *bench) all(ctx context.Context, chosen []named) error {
	for _, n := range chosen {
		if err := n.run(b, ctx); err != nil {
			return err
		}
	}
	return nil
}
