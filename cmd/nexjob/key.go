package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
)

func newKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Ask about an idempotency key",
		Args:  oneOfItsCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeyExplain())
	return cmd
}

func newKeyExplain() *cobra.Command {
	var quoted bool
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain why the work of a key was not done, or was done twice",
		Long: `Explains an idempotency key: who holds it, since when and until when; its jobs with
state, tries and errors; their effects with certainty; the last duplicates; and what an
enqueue would do now under each policy. It ends in a sentence of cause and remedy.

Duplicates are written down each second, and those of the last second can be missing.
A key that was never used is explained too.

A key may hold any character. One that a shell or a terminal would not pass on is given
as Go writes it, with --quoted. Keys that nexjob derives itself begin with a NUL:
  nexjob key explain --quoted '\x00schedule/nightly'

` + storeText,
		Example: `  nexjob key explain payment-42
  nexjob key explain payment-42 --json | jq -r .sentence`,
		Args: oneArg("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := parseKey("KEY", args[0], quoted)
			if err != nil {
				return err
			}
			return withStore(cmd, func(ctx context.Context, _ nexjob.Storage, client *nexjob.Client) error {
				e, err := client.Explain(ctx, key)
				if err != nil {
					return err
				}
				return printer(cmd).Value(e, func(w io.Writer) error { return record.WriteKey(w, &e) })
			})
		},
	}
	addQuoted(cmd, &quoted)
	return cmd
}
