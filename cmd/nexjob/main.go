// Command nexjob is the roof of the house: it wires engines, workers, API and
// dashboard into one program and decides nothing about jobs itself. It stands
// on every other package, and none may import it.
//
// This package reads command lines, a file for each command. Behind it, input
// names what is wrong with what a user gave, record tells what a storage holds, view
// writes it, bulk enqueues lines, and demo is the shop that is killed and audited,
// with the services of package outside. Start at newRoot.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and answers the exit code: 0, or, with the error
// as the last line of stderr, 1 if something went wrong and 2 if the command line
// or its input is wrong and nothing was done. The first interrupt, or the end of the
// terminal, ends the command's context, so that it can stop in order; the second one kills
// the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(ctx, ends...)
	defer stop()
	context.AfterFunc(ctx, stop)

	root := newRoot() //nolint:contextcheck // cobra hands the context to the command that runs
	began := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		err := cmd.ValidateFlagGroups() // which cobra would do after this
		began = err == nil
		return err
	}
	root.SetArgs(args)
	out := &stream{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err // the help texts of cobra are written without a look
	}
	if err != nil {
		fmt.Fprintln(stderr, "nexjob:", view.SafeLines(view.Reason(err)))
	}
	return exitCode(err, began || out.err != nil)
}

// newRoot is the command tree. Errors are printed by run alone, and without the
// usage text, which would push the error off the screen.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "nexjob",
		Short:         "Background jobs that are safe to run more than once",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          oneOfItsCommands,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	info, _ := debug.ReadBuildInfo()
	root.Version = versionLine(info) // --version, for who does not know the subcommand
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() {
			// The flag may be one of the command that was not found.
			if unknown := oneOfItsCommands(cmd, cmd.Flags().Args()); unknown != nil {
				return unknown
			}
		}
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	addStoreFlag(root)
	addJSONFlag(root)
	root.AddCommand(newEnqueue(), newJobs(), newKey(), newQueues(), newMigrate(), newVersion(), newDemo(),
		newDemoWorker(), newDemoFront())
	return root
}

// exitCode tells what the user gave wrongly (2) from what went wrong (1). An error
// before the command began can only be a flag, an argument or a command's name.
func exitCode(err error, began bool) int {
	var given *input.Error
	switch {
	case err == nil:
		return 0
	case !began, errors.As(err, &given), errors.Is(err, nexjob.ErrInvalid):
		return 2
	}
	return 1
}

// oneOfItsCommands is the Args of a command that only holds others. What is none of them
// is mostly one of another command, or mistyped.
func oneOfItsCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var meant []string
	for _, group := range append([]*cobra.Command{cmd.Root()}, cmd.Root().Commands()...) {
		for _, sub := range group.Commands() {
			if sub.IsAvailableCommand() && (sub.Name() == args[0] || strings.HasPrefix(sub.Name(), args[0]+"-")) {
				meant = append(meant, sub.CommandPath())
			}
		}
	}
	if len(meant) == 0 {
		cmd.SuggestionsMinimumDistance = 2
		for _, name := range cmd.SuggestionsFor(args[0]) {
			meant = append(meant, cmd.CommandPath()+" "+name)
		}
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if len(meant) > 0 {
		hint = "did you mean " + strings.Join(meant, ", or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q; %s", args[0], cmd.CommandPath(), hint)
}

// noArgs is the Args of a command that takes flags only.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%q is too much: %s takes no arguments; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
}

// oneArg is the Args of a command that takes one, under its name in the help.
func oneArg(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("the %s is missing; see %s --help", name, cmd.CommandPath())
		case len(args) > 1:
			return fmt.Errorf("%d arguments: want one %s, in quotes if it holds spaces", len(args), name)
		}
		return nil
	}
}
