package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

func newJobs() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "Look at jobs, and cancel, requeue, delete or resolve them",
		Args:  oneOfItsCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newJobsList(), newJobsShow(), newCancel(), newRequeue(), newDelete(), newClearKey(), newResolve())
	return cmd
}

func newJobsList() *cobra.Command {
	var f filter
	var limit int
	var after string
	var oldest, count bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the newest first",
		Long: `Lists jobs, the newest first. All filters that are given must match.

` + stateNames() + `
Scheduled is an enqueued job whose due time lies ahead. TRIES are those that failed, of
all that it has.

With --json each job is an object on a line of its own. Where there are more jobs than
--limit, the last line on standard error tells how to go on.

` + storeText,
		Example: `  nexjob jobs list --state failed --kind charge-card
  nexjob jobs list --state enqueued --oldest-first --limit 10
  nexjob jobs list --tag eu --any-tag card --any-tag sepa --count
  nexjob jobs list --state failed --limit 0 --json | jq -r .id`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(cmd)
			if err != nil {
				return err
			}
			if limit < 0 {
				return input.Wrong("--limit", "%d: want 1 or more, or 0 for all", limit)
			}
			q.NewestFirst, q.After = !oldest, after
			return withStore(cmd, func(ctx context.Context, _ nexjob.Storage, client *nexjob.Client) error {
				if count {
					return countJobs(ctx, cmd, client, q)
				}
				return listJobs(ctx, cmd, client, q, limit)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "at most `N`; 0: all")
	cmd.Flags().StringVar(&after, "after", "", "go on after the list that ended with this `POSITION`")
	cmd.Flags().BoolVar(&oldest, "oldest-first", false, "the oldest first")
	cmd.Flags().BoolVar(&count, "count", false, "print only how many match; it reads all of them")
	cmd.MarkFlagsMutuallyExclusive("count", "after")
	cmd.MarkFlagsMutuallyExclusive("count", "limit")
	return cmd
}

func countJobs(ctx context.Context, cmd *cobra.Command, client *nexjob.Client, q nexjob.Query) error {
	tallies, err := client.Count(ctx, q)
	if err != nil {
		return err
	}
	var n int64
	for _, t := range tallies {
		n += t.Jobs
	}
	return printer(cmd).Value(map[string]int64{"count": n}, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, n)
		return err
	})
}

// listJobs writes page by page, so that a list of millions takes no more room than one
// page; people get their columns lined up within each.
func listJobs(ctx context.Context, cmd *cobra.Command, client *nexjob.Client, q nexjob.Query, limit int) error {
	p, shown := printer(cmd), 0
	next, err := eachPage(ctx, client, q, limit, func(jobs []nexjob.Job) error {
		shown += len(jobs)
		return writeJobs(p, jobs)
	})
	switch {
	case err != nil:
		return afterFlag(err)
	case shown == 0:
		fmt.Fprintln(cmd.ErrOrStderr(), "No job matches.")
	case next != "":
		fmt.Fprintf(cmd.ErrOrStderr(), "There are more: repeat it with --after %s\n", next)
	}
	return nil
}

// eachPage hands on the jobs that a query selects, at most limit of them, or all for 0. It
// answers where to go on; "" at the end.
func eachPage(
	ctx context.Context, client *nexjob.Client, q nexjob.Query, limit int, do func(jobs []nexjob.Job) error,
) (next string, err error) {
	for left := limit; ; {
		q.Limit = nexjob.MaxPage
		if limit > 0 {
			q.Limit = min(q.Limit, left)
		}
		page, err := client.Find(ctx, q)
		if err != nil {
			return "", err
		}
		if err := do(page.Jobs); err != nil {
			return "", err
		}
		left -= len(page.Jobs)
		if page.Next == "" || limit > 0 && left <= 0 {
			return page.Next, nil
		}
		q.After = page.Next
	}
}

// afterFlag gives a mistake in the position the name of its flag.
func afterFlag(err error) error {
	if wrong, ok := errors.AsType[*nexjob.InvalidError](err); ok && wrong.Field == "query after" {
		return input.Wrong("--after", "it is not a position: give it as the list before printed it")
	}
	return err
}

func writeJobs(p view.Printer, jobs []nexjob.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	if p.JSON {
		for i := range jobs {
			if err := view.WriteJSON(p.Out, record.JobOf(&jobs[i])); err != nil {
				return err
			}
		}
		return nil
	}
	t := record.JobTable(p.Out)
	for i := range jobs {
		record.JobRow(t, &jobs[i])
	}
	return t.Flush()
}

func newJobsShow() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known of one job, and why it stands where it stands",
		Long: `Shows one job: its state, times and tries, each attempt with its error, the effects of
its operation with their certainty and the key that was sent outside, steps, parents,
children, args and result. It ends in a sentence of cause and remedy.

An effect that is "intended" has no outcome: it may or may not have happened.

` + storeText,
		Example: `  nexjob jobs show 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11
  nexjob jobs show 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11 --raw | jq .order_id`,
		Args: oneArg("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := parseID("job ID", args[0])
			if err != nil {
				return err
			}
			return withStore(cmd, func(ctx context.Context, _ nexjob.Storage, client *nexjob.Client) error {
				e, err := client.ExplainJob(ctx, id)
				if err != nil {
					return err
				}
				if raw {
					return writeRaw(cmd.OutOrStdout(), e.Job.Args)
				}
				card := record.CardOf(&e)
				return printer(cmd).Value(card, card.Write)
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print only the args, byte for byte as they are stored")
	return cmd
}

// writeRaw writes bytes as they are, but not to a terminal, which would obey them.
func writeRaw(w io.Writer, raw []byte) error {
	if terminal(w) {
		raw = append(view.SafeJSON(raw), '\n')
	}
	_, err := w.Write(raw)
	return err
}
