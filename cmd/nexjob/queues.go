package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

func newQueues() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Count the jobs of each queue by state, and how long the oldest waits",
		Long: `Counts the jobs of each queue by state, with the due time of the oldest and the most
frequent kinds. The age of the oldest Enqueued job is how far the workers are behind.
It counts all jobs, so on millions it takes a moment.

With --json each queue is an object on a line of its own.

` + storeText,
		Example: `  nexjob queues
  nexjob queues --queue mail --json | jq .waited_seconds`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range names {
				if err := nexjob.ValidateName("name", name); err != nil {
					return input.Wrong("--queue", "%s", view.Reason(err))
				}
			}
			return withStore(cmd, func(ctx context.Context, store nexjob.Storage, client *nexjob.Client) error {
				tallies, err := client.Count(ctx, nexjob.Query{Queues: names})
				if err != nil {
					return err
				}
				now, err := store.Clock(ctx)
				if err != nil {
					return err
				}
				queues := record.QueuesOf(tallies, now)
				if len(queues) == 0 {
					fmt.Fprintln(cmd.ErrOrStderr(), "There are no jobs.")
					return nil
				}
				p := printer(cmd)
				if !p.JSON {
					return record.WriteQueues(p.Out, queues, now)
				}
				for i := range queues {
					if err := view.WriteJSON(p.Out, queues[i]); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&names, "queue", nil, "only this `QUEUE`; repeat it for several")
	return cmd
}
