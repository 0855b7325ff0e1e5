package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
)

func newEnqueue() *cobra.Command {
	var o enqueueOptions
	cmd := &cobra.Command{
		Use:   "enqueue KIND [ARGS-JSON | -]",
		Short: "Add a job, or one per line of a file, each at most once per key",
		Long: `Adds a job of a kind. ARGS-JSON is one JSON value, {} if left out, - for standard
input; it is stored byte for byte. Give every job that must not be done twice a --key:
as long as a job with that key is active, its ID is the answer; once it has ended,
--policy decides. The answer tells the job's ID and whether it was created.

The Defaults of a kind, such as its policy, tries and time-out, are in the program that
defines it, and are not known here: give them as flags.

With --from each line of a file is the args of one job, and --key-from names the member
that is its key: id, or customer.id in an inner object. Lines go in by the thousand.
Bad lines are named with their number and the rest goes in; so are, with --strict-args,
lines whose key has a job with other args. After a kill, a power
failure or an interrupt run the same command again: a line that is in is answered
"existing". Mind that AllowAfterFailed creates a new job if the first one has
*succeeded* in between; with --policy RejectAlways it is rejected instead.

` + storeText + `
A SQLite file that is not there is made.

--json prints one object: id, outcome, state, operation, args_differ, or, when refused,
outcome, existing_id, state, policy, error, remedy; with --from the counts, complete,
and invalid_lines with line and why, at most 10,000 of them.

Exit codes: 0 done; a line that the duplicate policy rejects counts as done.
1 the storage said no (rejected, other work under the key), or failed; with --from:
some lines are not in, or the run was cut short, and the summary tells which.
2 a flag, an argument, or a file that cannot be opened: nothing was done.`,
		Example: `  nexjob enqueue charge-card '{"order_id":42,"cents":1999}' --key payment-42
  nexjob enqueue send-welcome '{"customer":7}' --key welcome-7 --policy RejectAlways
  nexjob enqueue nightly-report --at 2026-05-01T02:00:00+02:00 --queue reports
  nexjob enqueue charge-card --from orders.jsonl --key-from order_id --key-prefix payment-
  tail -n +1 -f events.jsonl | nexjob enqueue deliver --from - --key-from event.id`,
		Args: enqueueArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd, args); err != nil {
				return err
			}
			if cmd.Flags().Changed("from") {
				return enqueueLines(cmd, args[0], &o)
			}
			return enqueueOne(cmd, args, &o)
		},
	}
	o.declare(cmd)
	return cmd
}

// enqueueArgs refuses a missing kind by its name.
func enqueueArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("the KIND is missing; see %s --help", cmd.CommandPath())
	case len(args) > 2:
		return fmt.Errorf("%d arguments: want KIND and ARGS-JSON, quoted as one; see %s --help", len(args), cmd.CommandPath())
	}
	return nil
}

// enqueueOne adds the job of the command line.
func enqueueOne(cmd *cobra.Command, args []string, o *enqueueOptions) error {
	text, err := argsText(cmd, args)
	if err != nil {
		return err
	}
	job := nexjob.RawJob(args[0], text, o.job)
	job.ID = o.id
	if job.ID.IsZero() {
		job.ID = nexjob.NewID()
	}
	if err := job.Validate(); err != nil {
		return wrongFlag(err, text)
	}
	client, done, err := openForJobs(cmd)
	if err != nil {
		return err
	}
	answer, err := client.Enqueue(cmd.Context(), job)
	if errors.Is(err, nexjob.ErrOutcomeUnknown) {
		err = fmt.Errorf("%w; with --id %s a repeat is recognised", err, answer.ID)
	}
	return errors.Join(printAnswer(cmd, &job, answer, err), done())
}

// errInterrupted is the error of a command that waited for its input.
var errInterrupted = errors.New("enqueue: interrupted, nothing was done")

// argsText reads the args from where the command line says.
func argsText(cmd *cobra.Command, args []string) ([]byte, error) {
	if len(args) < 2 {
		return nil, nil
	}
	if args[1] != "-" {
		if strings.TrimSpace(args[1]) == "" {
			return nil, input.Wrong("ARGS-JSON", "it is empty: want one JSON value, or leave it out for {}")
		}
		return []byte(args[1]), nil
	}
	text, err := io.ReadAll(io.LimitReader(input.Until(cmd.Context(), cmd.InOrStdin()), nexjob.MaxArgs+1024))
	switch {
	case cmd.Context().Err() != nil:
		return nil, errInterrupted
	case err != nil:
		return nil, input.Unreadable("standard input", err)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // some shells and editors begin a text with it
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, input.Wrong("standard input", "it is empty: want one JSON value")
	}
	return text, nil
}

// printAnswer prints what became of the job, also when that is a refusal, and answers
// the error that the command ends with.
func printAnswer(cmd *cobra.Command, job *nexjob.NewJob, answer nexjob.Answer, err error) error {
	told, ok := record.AnswerOf(job, answer, err)
	if !ok {
		return err
	}
	return cmp.Or(printer(cmd).Value(told, told.WriteTable), err)
}
