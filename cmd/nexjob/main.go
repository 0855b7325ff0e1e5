// Command nexjob is the roof of the house: it wires engines, workers, API and
// dashboard into one program and decides nothing about jobs itself. It stands
// on every other package, and none may import it. Start at newRoot: each
// subcommand is a file of its own.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and answers the exit code: 0, or 1 with the
// error as the last line of stderr. The first interrupt ends the command's
// context, so that it can stop in order; the second one kills the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "nexjob:", err)
		return 1
	}
	return 0
}

// newRoot is the command tree. Errors are printed by run alone, and without the
// usage text, which would push the error off the screen.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "nexjob",
		Short:         "Background jobs that are safe to run more than once",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newVersion())
	return root
}
