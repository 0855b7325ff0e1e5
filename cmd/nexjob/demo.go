package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/postgres"
)

func newDemo() *cobra.Command {
	o := demo.Options{}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: a shop does everything once, though its workers are killed and frozen",
		Long: `Runs a small shop on one database. Orders arrive, some more than once and from
two processes; each is charged at a payment provider over HTTP and gets its invoice,
each customer gets one welcome mail over SMTP, and another system is told of each paid
order by webhook. Meanwhile worker processes are killed (SIGKILL) in the middle of a
charge, a mail or a webhook and started again, or frozen (SIGSTOP) past their lease
and thawed, and the services drop connections and answer with errors. Then it counts
from the records of provider, mailbox and receiver, and from the invoices.

The database is named by --store alone:
  sqlite         a SQLite file of the demo's own, which is the default
  postgres       a PostgreSQL server of the demo's own, from Debian's package postgresql;
                 --server-restarts kills it in the middle too
  postgres://USER@HOST/DATABASE
                 your server, in a schema of the demo's own, which is dropped at the end
                 unless --keep is given; the user must be allowed to make one

Exit code 0: each order was charged and invoiced exactly once, each customer mailed
once, each event delivered once, nothing is lost or uncertain, and every kill and
freeze was carried out. 1: not so, or the run could not be finished. 2: the input or a
flag is wrong, and nothing was done.

The input is JSON Lines, an order each:
  {"order_id":1001,"customer":"ada@example.org","cents":4990,"currency":"EUR"}
Without a customer the order has one to itself. A line that comes again is a
duplicate; with "after_success":true it is sent once the order has been charged. No
mail leaves this machine.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(time.Now().UnixMicro())
			}
			if err := demoGiven(cmd); err != nil {
				return err
			}
			if err := demoStore(cmd, &o); err != nil {
				return err
			}
			ctx, progress, stop := heard(cmd.Context(), cmd.ErrOrStderr())
			defer stop()
			o.Stdin, o.Progress = cmd.InOrStdin(), progress
			report, err := demo.Run(ctx, o)
			if err != nil {
				return err
			}
			if err := printer(cmd).Value(&report, report.WriteTable); err != nil {
				return err
			}
			if !report.OK {
				return fmt.Errorf("demo: not as promised, in %d points; repeat it with --seed %d",
					len(report.Findings), report.Seed)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Orders, "orders", 0, "how many different orders; more than the input holds are made up from the seed "+
		"(default: what the input holds)")
	f.IntVar(&o.Kills, "kills", 3, "how many worker processes to kill: the first three inside a charge, a mail and a webhook")
	f.IntVar(&o.Freezes, "freezes", demo.ByKills, "how many worker processes to freeze past their lease inside an effect "+
		"(default: one for every five kills, and at least one)")
	f.DurationVar(&o.FreezeFor, "freeze-for", 0, "how long a frozen worker process stays so at least; its lease is 2s (default: until that is over)")
	f.Lookup("freezes").DefValue = "0" // which help leaves out; the text says it
	f.IntVar(&o.Workers, "workers", 2, "how many worker processes work at once")
	f.IntVar(&o.ServerRestarts, "server-restarts", 0, "with --store postgres: how often to kill the database's server and start it again")
	f.StringVar(&o.Input, "input", "", "JSON Lines file of orders, - for standard input (default: twelve that ship with it)")
	f.Uint64Var(&o.Seed, "seed", 0, "draw everything as in the run that printed this seed (default: from the clock)")
	f.DurationVar(&o.Limit, "timeout", 0, "give up after this time and say which order waits and why "+
		"(default: reckoned from orders and kills)")
	f.StringVar(&o.Keep, "keep", "", "work in this new folder and leave it behind: database, logs, records")
	return cmd
}

// demoGiven refuses flags that were given as if they were left out.
func demoGiven(cmd *cobra.Command) error {
	for _, flag := range []struct{ name, zero, why string }{
		{"orders", "0", "0: want 1 or more; leave it out for what the input holds"},
		{"timeout", "0s", "0s: want a time above zero; leave it out to have it reckoned"},
		{"input", "", "it is empty; leave it out for the orders that ship with it"},
		{"keep", "", "it is empty; leave it out to keep nothing"},
	} {
		if cmd.Flags().Changed(flag.name) && cmd.Flag(flag.name).Value.String() == flag.zero {
			return input.Wrong("--"+flag.name, "%s", flag.why)
		}
	}
	return nil
}

// demoStore reads where the demo is to play. NEXJOB_STORE is not asked: whoever set it
// once for the other commands does not expect a shop there.
func demoStore(cmd *cobra.Command, o *demo.Options) error {
	flag := cmd.Flag(storeFlag)
	if !flag.Changed {
		return nil
	}
	switch text := flag.Value.String(); text {
	case "sqlite":
		return nil
	case demo.PrivateServer:
		o.Store = text
		return nil
	}
	at, err := storeLocation(cmd)
	switch {
	case err != nil:
		return err
	case !at.onPostgres():
		return input.Wrong("--store", "the demo makes a SQLite file of its own: want sqlite, postgres or "+
			"postgres://USER@HOST/DATABASE; --keep says where the file is left")
	case at.options.Schema != "" || at.options.Prefix != "":
		return input.Wrong("--store", "the demo makes a schema of its own: leave out schema and prefix")
	}
	o.Store = at.url
	// A look at a schema that need not be there says whether the database can be reached.
	_, err = postgres.SchemaOf(cmd.Context(), at.url, postgres.Options{Schema: "nexjob_demo"})
	if err != nil {
		return at.explain(err)
	}
	return nil
}

// heard ends the context of a run once nobody reads its progress, as when it is piped
// into head. The system would end the process without a word, and the folder that it
// works in would stay. It is so to the end of the process, for its last words go there too.
func heard(ctx context.Context, progress io.Writer) (context.Context, io.Writer, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	handled := make(chan os.Signal, 1) // nobody receives: that it is handled is enough
	signal.Notify(handled, syscall.SIGPIPE)
	return ctx, &listener{progress, cancel}, func() { cancel(nil) }
}

// listener is a stream that tells when its reader has gone.
type listener struct {
	io.Writer
	gone context.CancelCauseFunc
}

// Write writes, and tells.
func (l *listener) Write(b []byte) (int, error) {
	n, err := l.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		l.gone(err)
	}
	return n, err
}

// newDemoWorker is what the demo starts its worker processes with.
func newDemoWorker() *cobra.Command {
	var o cast.WorkOptions
	cmd := &cobra.Command{
		Use:    cast.WorkCommand,
		Short:  "A worker process of the demo, which starts and kills it",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Store = os.Getenv(cast.StoreEnv)
			return cast.Work(cmd.Context(), o, cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Demo, "demo", "", "URL of the demo and its services")
	f.StringVar(&o.SMTP, "smtp", "", "address of the mail server")
	f.StringVar(&o.Name, "name", "", "name of this process")
	f.IntVar(&o.Slots, "slots", 0, "jobs at once")
	f.IntVar(&o.CrashLimit, "crash-limit", 0, "crashes until a job is given up")
	return cmd
}

// newDemoFront is what the demo starts its second shop front with.
func newDemoFront() *cobra.Command {
	var o cast.FrontOptions
	cmd := &cobra.Command{
		Use:    cast.FrontCommand,
		Short:  "A process of the demo that takes orders from standard input",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Store = os.Getenv(cast.StoreEnv)
			return cast.Front(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name of this process")
	return cmd
}
