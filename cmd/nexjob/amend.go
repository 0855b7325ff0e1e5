package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// amendment is one command that acts on jobs: those named by ID, or those that a
// filter selects.
type amendment struct {
	filter      filter
	do          nexjob.Action
	states      []nexjob.State // that a filter without --state means; nil: --state must be given
	limit       int
	all         bool
	yes, dryRun bool
}

// amendBatch bounds one step, so that an action on many jobs lets workers in between.
const amendBatch = 100

const amendText = `Jobs are named by ID, or selected by filters, the oldest first. An action on jobs that
filters select asks before it begins; where there is no terminal to ask on it wants
--yes. --dry-run prints what would be touched and changes nothing.

Each job is answered: done, held (an effect without an outcome comes first: see
nexjob jobs resolve), refused with the reason, or skipped, if it changed since it was
selected. Exit code 0: all done; 1: at least one was refused, or something went wrong;
2: a flag or an argument is wrong, and nothing was done.
`

func (a *amendment) command(use, short, long, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use:     use + " [ID...]",
		Short:   short,
		Long:    long + "\n\n" + amendText + "\n" + stateNames() + "\n\n" + storeText,
		Example: example,
		RunE:    a.run,
	}
	a.filter.add(cmd)
	f := cmd.Flags()
	f.IntVar(&a.limit, "limit", 100, "touch at most `N` of the jobs that filters select; 0: all")
	f.BoolVar(&a.all, "all", false, "no filter: every job is meant")
	f.BoolVar(&a.yes, "yes", false, "do not ask")
	f.BoolVar(&a.dryRun, "dry-run", false, "print what would be touched and change nothing")
	addActor(cmd, &a.do)
	return cmd
}

// addActor declares who acts and why. Both are kept on the job where the act leaves a
// reason there.
func addActor(cmd *cobra.Command, do *nexjob.Action) {
	cmd.Flags().StringVar(&do.By, "by", "", "`NAME` of who asks for it (default: the user of this process)")
	cmd.Flags().StringVar(&do.Reason, "reason", "", "`TEXT` that says why; cancel, requeue and resolve keep it on the job")
}

// actor fills in who acts, and checks the action. A process without a user has no name,
// and none is made up.
func actor(cmd *cobra.Command, do *nexjob.Action) error {
	who, err := user.Current()
	switch {
	case cmd.Flags().Changed("by") && do.By == "":
		return input.Wrong("--by", "it is empty: leave it out, or name who asks")
	case do.By == "" && err == nil && nexjob.ValidateName("name", who.Username) == nil:
		do.By = who.Username
	}
	if wrong, ok := errors.AsType[*nexjob.InvalidError](do.Validate()); ok {
		flag := "--" + strings.ReplaceAll(wrong.Field, " ", "-")
		if wrong.Field == "name of who acts" {
			flag = "--by"
		}
		return input.Wrong(flag, "%s; %s", wrong.Why, wrong.Remedy)
	}
	return nil
}

func newCancel() *cobra.Command {
	a := &amendment{
		do:     nexjob.Action{Act: nexjob.ActCancel},
		states: []nexjob.State{nexjob.Enqueued, nexjob.Scheduled, nexjob.Processing, nexjob.AwaitingContinuation},
	}
	return a.command("cancel", "Cancel waiting jobs, and ask the workers of running ones to stop",
		`Cancels waiting jobs at once. The worker of a job that is Processing is asked to stop:
its handler's context ends, and a job that succeeds all the same has Succeeded.
A filter without --state selects the jobs that wait or run.`,
		`  nexjob jobs cancel 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11 --reason "wrong order"
  nexjob jobs cancel --kind send-mail --tag campaign-7 --dry-run`)
}

func newRequeue() *cobra.Command {
	a := &amendment{do: nexjob.Action{Act: nexjob.ActRequeue}}
	cmd := a.command("requeue", "Put ended jobs back with a fresh budget of tries",
		`Puts ended jobs back: tries and crashes start again, a deadline that has passed is
dropped. Only the last job of a key can be requeued. It keeps its operation, so steps are
not computed and confirmed effects are not sent again, unless --new-operation says that
a second effect is meant. Filters must include --state: failed for dead letters; a
requeue of jobs that Succeeded does their work again.`,
		`  nexjob jobs requeue 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11
  nexjob jobs requeue --state failed --kind charge-card --limit 500 --yes`)
	cmd.Flags().BoolVar(&a.do.NewOperation, "new-operation", false, "a second effect is meant: forget what is confirmed")
	return cmd
}

func newDelete() *cobra.Command {
	a := &amendment{do: nexjob.Action{Act: nexjob.ActDelete}, states: nexjob.States()}
	cmd := a.command("delete", "Delete jobs with their history, and free their keys",
		`Deletes jobs that are not Processing, with their history, and frees their keys at once:
the next enqueue of a key begins a new operation. A job whose operation has confirmed
effects is deleted only with --force and --reason, for its receipts are what keeps these
effects from being repeated. To lift only a refusal, see nexjob jobs clear-key.`,
		`  nexjob jobs delete --state cancelled --ended-before 720h --limit 0 --yes
  nexjob jobs delete 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11 --force --reason "test charge, refunded"`)
	cmd.Flags().BoolVar(&a.do.Force, "force", false, "also with confirmed effects; wants --reason")
	return cmd
}

func newClearKey() *cobra.Command {
	a := &amendment{
		do:     nexjob.Action{Act: nexjob.ActClearKey},
		states: []nexjob.State{nexjob.Succeeded, nexjob.Failed, nexjob.Expired, nexjob.Cancelled},
	}
	return a.command("clear-key", "Lift the refusal that an ended job's key leaves behind, after review",
		`Lifts, after review, the refusal that an ended job leaves behind: the next enqueue of its
key creates a job under every policy, and after a failure it continues the operation, so
confirmed effects are not repeated. The job's record stays.
--key alone works too when the record is gone and the key lives on.
A filter without --state selects ended jobs.`,
		`  nexjob jobs clear-key --key payment-42 --yes --reason "the bank confirms: never charged"`)
}

func (a *amendment) run(cmd *cobra.Command, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	q, err := a.filter.query(cmd)
	if err != nil {
		return err
	}
	if q, err = a.scope(cmd, q, ids); err != nil {
		return err
	}
	if err := actor(cmd, &a.do); err != nil {
		return err
	}
	if len(ids) == 0 && !a.yes && !a.dryRun && !terminal(cmd.InOrStdin()) {
		return input.Wrong("--yes", "filters select jobs and there is no terminal to ask on: "+
			"add --yes, or look first with --dry-run")
	}
	return withStore(cmd, func(ctx context.Context, _ nexjob.Storage, client *nexjob.Client) error {
		if len(ids) > 0 {
			return a.amendIDs(ctx, cmd, client, ids)
		}
		return a.amendFound(ctx, cmd, client, q)
	})
}

// scope refuses a command line that does not say which jobs are meant, or says it twice.
func (a *amendment) scope(cmd *cobra.Command, q nexjob.Query, ids []nexjob.ID) (nexjob.Query, error) {
	filters := 0
	for _, flag := range []string{
		"state", "kind", "queue", "key", "key-prefix", "tag", "any-tag", "operation", "parent", "ended-before",
		"deadline-before",
	} {
		if cmd.Flags().Changed(flag) {
			filters++
		}
	}
	switch {
	case len(ids) > 0 && (filters > 0 || a.all):
		return q, input.Wrong("job ID", "give job IDs or filters, not both")
	case len(ids) > 0:
		return q, nil
	case filters == 0 && !a.all:
		return q, input.Wrong("job ID", "say which jobs: by ID, by a filter such as --state or --key, "+
			"or --all if every job is meant")
	case filters > 0 && a.all:
		return q, input.Wrong("--all", "it means every job: leave the filters out, or leave it out")
	case a.limit < 0:
		return q, input.Wrong("--limit", "%d: want 1 or more, or 0 for all", a.limit)
	case a.do.Act == nexjob.ActClearKey && filters == 1 && q.Key != "":
		return nexjob.Query{Of: nexjob.Keys, Key: q.Key}, nil
	case len(q.States) == 0 && a.states == nil:
		return q, input.Wrong("--state", "say which: a requeue of Succeeded jobs does their work again")
	case len(q.States) == 0:
		q.States = a.states
	}
	return q, nil
}

func (a *amendment) changes(cmd *cobra.Command) *record.Changes {
	return record.NewChanges(a.do.Act, printer(cmd), cmd.ErrOrStderr())
}

// amendIDs acts on the jobs that were named, each answered in the order given.
func (a *amendment) amendIDs(ctx context.Context, cmd *cobra.Command, client *nexjob.Client, ids []nexjob.ID) error {
	n := a.changes(cmd)
	missing := record.Change{Answer: record.Refused, Why: view.Reason(nexjob.ErrNotFound)}
	for batch := range slices.Chunk(ids, amendBatch) {
		if ctx.Err() != nil {
			break
		}
		if err := a.step(ctx, client, nexjob.Query{}, batch, missing, n); err != nil {
			return errors.Join(err, n.Unfinished())
		}
	}
	return n.End(ctx)
}

// amendFound acts on the jobs that a query selects. It first notes which they are, so
// that those that are refused are not met again; each step repeats the conditions, so
// that a job which has meanwhile gone on is left alone.
func (a *amendment) amendFound(ctx context.Context, cmd *cobra.Command, client *nexjob.Client, q nexjob.Query) error {
	n := a.changes(cmd)
	if q.Of == nexjob.Keys {
		return a.amendKey(ctx, cmd, client, q, n)
	}
	jobs, more, err := a.search(ctx, client, q)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "No job matches.")
		return nil
	}
	if !a.dryRun && !a.yes && !ask(ctx, cmd, a.do.Act, jobs, more) {
		return errors.New("not confirmed, nothing was done")
	}
	for batch := range slices.Chunk(jobs, amendBatch) {
		if ctx.Err() != nil {
			break
		}
		if err := a.stepFound(ctx, client, q, batch, n); err != nil {
			return errors.Join(err, n.Unfinished())
		}
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "More jobs match than --limit %d.\n", a.limit)
	}
	return n.End(ctx)
}

// stepFound acts on jobs that were noted, or says that it would.
func (a *amendment) stepFound(
	ctx context.Context, client *nexjob.Client, q nexjob.Query, batch []record.Change, n *record.Changes,
) error {
	if a.dryRun {
		return n.Write(batch)
	}
	ids := make([]nexjob.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].Job
	}
	missing := record.Change{Answer: record.Skipped, Why: "it changed since it was selected, or is gone"}
	return a.step(ctx, client, q, ids, missing, n)
}

// search notes the jobs that a query selects, the oldest first.
func (a *amendment) search(
	ctx context.Context, client *nexjob.Client, q nexjob.Query,
) (found []record.Change, more bool, err error) {
	next, err := eachPage(ctx, client, q, a.limit, func(jobs []nexjob.Job) error {
		for i := range jobs {
			found = append(found, wouldBe(jobs[i].ID, jobs[i].Key, jobs[i].State))
		}
		return nil
	})
	return found, next != "", err
}

func wouldBe(id nexjob.ID, key string, state nexjob.State) record.Change {
	change := record.Change{Job: id, Key: key, Answer: record.Would}
	if state != 0 {
		change.State = &state
	}
	return change
}

// amendKey clears one key, which may have outlived its job's record.
func (a *amendment) amendKey(
	ctx context.Context, cmd *cobra.Command, client *nexjob.Client, q nexjob.Query, n *record.Changes,
) error {
	page, err := client.Find(ctx, q)
	if err != nil {
		return err
	}
	if len(page.Keys) == 0 {
		return fmt.Errorf("nobody holds key %s: an enqueue creates a job", view.Key(q.Key))
	}
	found := []record.Change{wouldBe(page.Keys[0].Job, q.Key, page.Keys[0].Ended)}
	switch {
	case a.dryRun:
		return n.Write(found)
	case !a.yes && !ask(ctx, cmd, a.do.Act, found, false):
		return errors.New("not confirmed, nothing was done")
	}
	amended, err := client.Amend(ctx, q, a.do, 1)
	if err != nil {
		return err
	}
	if len(amended.Changes) == 0 {
		return fmt.Errorf("nobody holds key %s any more", view.Key(q.Key))
	}
	if err := n.Write([]record.Change{record.ChangeOf(a.do.Act, &amended.Changes[0])}); err != nil {
		return err
	}
	return n.End(ctx)
}

// step acts on one batch and answers in its order; missing is the answer for a job that the
// query does not select.
func (a *amendment) step(
	ctx context.Context, client *nexjob.Client, q nexjob.Query, ids []nexjob.ID, missing record.Change, n *record.Changes,
) error {
	q.IDs = ids
	answered, err := a.amend(ctx, client, q)
	if err != nil {
		return err
	}
	changes := make([]record.Change, len(ids))
	for i, id := range ids {
		change, ok := answered[id]
		if !ok {
			change = missing
			change.Job = id
		}
		changes[i] = change
	}
	return n.Write(changes)
}

// amend acts on the jobs that a query of IDs selects, or, in a dry run, looks what they are.
func (a *amendment) amend(
	ctx context.Context, client *nexjob.Client, q nexjob.Query,
) (map[nexjob.ID]record.Change, error) {
	answered := make(map[nexjob.ID]record.Change, len(q.IDs))
	if a.dryRun {
		q.Limit = len(q.IDs)
		page, err := client.Find(ctx, q)
		for i := range page.Jobs {
			answered[page.Jobs[i].ID] = wouldBe(page.Jobs[i].ID, page.Jobs[i].Key, page.Jobs[i].State)
		}
		return answered, err
	}
	amended, err := client.Amend(ctx, q, a.do, len(q.IDs))
	for i := range amended.Changes {
		answered[amended.Changes[i].Job] = record.ChangeOf(a.do.Act, &amended.Changes[i])
	}
	return answered, err
}

// ask shows what is selected and waits for a person's yes.
func ask(ctx context.Context, cmd *cobra.Command, act nexjob.Act, found []record.Change, more bool) bool {
	const shown = 10
	out := cmd.ErrOrStderr()
	if err := record.WriteChanges(out, found[:min(len(found), shown)], true); err != nil {
		return false
	}
	rest := ""
	if len(found) > shown {
		rest = fmt.Sprintf(", %d of them shown", shown)
	}
	if more {
		rest += ", and more match"
	}
	fmt.Fprintf(out, "%s: %d selected%s. Go on? [y/N] ", act, len(found), rest)
	line, err := bufio.NewReader(input.Until(ctx, cmd.InOrStdin())).ReadString('\n')
	if err != nil && line == "" {
		return false
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
