package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo"
)

func newDemo() *cobra.Command {
	o := demo.Options{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: orders are charged once, though workers are killed",
		Long: `Charges orders at a payment provider over HTTP and writes their invoices, from
worker processes that are killed (SIGKILL) in the middle of a charge and started
again, while orders are enqueued more than once. Then it counts from the provider's
record and the invoices. Exit code 0: each order was charged and invoiced exactly
once. 1: it was not, or the run could not be finished. 2: the input or a flag is
wrong, and nothing was done.

The input is JSON Lines, an order each:
  {"order_id":1001,"cents":4990,"currency":"EUR"}
A line that comes again is a duplicate; with "after_success":true it is sent once the
order has been charged.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				o.Seed = uint64(time.Now().UnixMicro())
			}
			if cmd.Flags().Changed("orders") && o.Orders == 0 {
				return &demo.InputError{Name: "--orders", Why: "0: want 1 or more; leave it out for what the input holds"}
			}
			o.Stdin, o.Progress = cmd.InOrStdin(), cmd.ErrOrStderr()
			report, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			write := report.WriteTable
			if asJSON {
				write = report.WriteJSON
			}
			if err := write(cmd.OutOrStdout()); err != nil {
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
	f.IntVar(&o.Kills, "kills", 1, "how many worker processes to kill inside a charge")
	f.IntVar(&o.Workers, "workers", 1, "how many worker processes work at once")
	f.StringVar(&o.Input, "input", "", "JSON Lines file of orders, - for standard input (default: ten that ship with it)")
	f.Uint64Var(&o.Seed, "seed", 0, "draw everything as in the run that printed this seed (default: from the clock)")
	f.DurationVar(&o.Limit, "timeout", 0, "give up after this time and say which order waits and why "+
		"(default: reckoned from orders and kills)")
	f.StringVar(&o.Keep, "keep", "", "work in this new folder and leave it behind: database, logs, records")
	f.BoolVar(&asJSON, "json", false, "print one JSON object instead of a table")
	return cmd
}

// newDemoWorker is what the demo starts its worker processes with.
func newDemoWorker() *cobra.Command {
	var o demo.WorkOptions
	cmd := &cobra.Command{
		Use:    demo.WorkCommand,
		Short:  "A worker process of the demo, which starts and kills it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Work(cmd.Context(), o, cmd.InOrStdin(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.DB, "db", "", "the SQLite file")
	f.StringVar(&o.Provider, "provider", "", "URL of the payment provider")
	f.StringVar(&o.Name, "name", "", "name of this process")
	f.IntVar(&o.Slots, "slots", 0, "jobs at once")
	f.IntVar(&o.CrashLimit, "crash-limit", 0, "crashes until a job is given up")
	return cmd
}
