package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
)

// resolution is a person's verdict on an effect of an Uncertain job.
type resolution struct {
	do            nexjob.Action
	verdict       string
	value         string
	followUp      string
	followUpArgs  string
	followUpKey   string
	followUpQueue string
}

func newResolve() *cobra.Command {
	r := &resolution{do: nexjob.Action{Act: nexjob.ActResolve}}
	cmd := &cobra.Command{
		Use:   "resolve ID",
		Short: "Say what became of an effect whose outcome nexjob cannot know",
		Long: `Gives a person's verdict on an effect of a job that is Uncertain. Look at the outside
service first, under the outside key that nexjob jobs show prints. Nothing is guessed:
name and reason are kept with the effect.

  applied      it happened. The job goes on with --value, the JSON of what the effect's
               Send would have returned (without it, with a zero value, such as a
               payment without an ID), or takes the end that waited for the outcome
  not-applied  it did not happen and no longer can. It is sent again under the same key.
               Accepted only some time after the newest send has ended
  compensate   give up: the job is Cancelled, and --follow-up is enqueued in the same step

--effect can be left out where exactly one effect has no outcome.

` + storeText,
		Example: `  nexjob jobs resolve 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11 --verdict applied \
    --value '{"id":"ch_17"}' --reason "charge ch_17 is in the bank's list"
  nexjob jobs resolve 0198c5a2-7c1e-7d43-8f0a-3f1f0e9b6a11 --verdict compensate \
    --follow-up refund --follow-up-args '{"order_id":42}' --reason "the bank does not answer"`,
		Args: oneArg("ID"),
		RunE: r.run,
	}
	f := cmd.Flags()
	f.StringVar(&r.verdict, "verdict", "", "the `VERDICT`: applied, not-applied or compensate")
	f.StringVar(&r.do.Effect, "effect", "", "`NAME` of the effect")
	f.StringVar(&r.do.Item, "item", "", "and its `ITEM`, where it has one")
	f.StringVar(&r.value, "value", "", "with applied: `JSON` of what the effect's Send would have returned")
	f.StringVar(&r.followUp, "follow-up", "", "with compensate: the `KIND` of the job that makes up for the effect")
	f.StringVar(&r.followUpArgs, "follow-up-args", "", "its args, `JSON`")
	f.StringVar(&r.followUpKey, "follow-up-key", "", "its idempotency `KEY`")
	f.StringVar(&r.followUpQueue, "follow-up-queue", "", "its `QUEUE`")
	addActor(cmd, &r.do)
	return cmd
}

func (r *resolution) run(cmd *cobra.Command, args []string) error {
	id, err := parseID("job ID", args[0])
	if err != nil {
		return err
	}
	if err := r.read(cmd); err != nil {
		return err
	}
	return withStore(cmd, func(ctx context.Context, _ nexjob.Storage, client *nexjob.Client) error {
		amended, err := client.Amend(ctx, nexjob.Query{IDs: []nexjob.ID{id}}, r.do, 1)
		if err != nil {
			return err
		}
		if len(amended.Changes) == 0 {
			return fmt.Errorf("resolve job %s: %w", id, nexjob.ErrNotFound)
		}
		n := record.NewChanges(r.do.Act, printer(cmd), cmd.ErrOrStderr())
		if err := n.Write([]record.Change{record.ChangeOf(r.do.Act, &amended.Changes[0])}); err != nil {
			return err
		}
		return n.End(ctx)
	})
}

// read makes the action of the flags, each mistake under its flag's name.
func (r *resolution) read(cmd *cobra.Command) error {
	for _, flag := range []string{"effect", "item", "follow-up", "follow-up-args", "follow-up-key", "follow-up-queue"} {
		if cmd.Flags().Changed(flag) && cmd.Flag(flag).Value.String() == "" {
			return input.Wrong("--"+flag, "it is empty; leave it out if none is meant")
		}
	}
	verdict, err := nexjob.ParseVerdict(strings.ReplaceAll(strings.ToLower(r.verdict), "-", " "))
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case !given("verdict"):
		return input.Wrong("--verdict", "it is missing: want applied, not-applied or compensate")
	case err != nil || verdict == nexjob.StillUnknown:
		return input.Wrong("--verdict", "%q: want applied, not-applied or compensate", r.verdict)
	case strings.TrimSpace(r.do.Reason) == "":
		return input.Wrong("--reason", "it is missing: a person answers for a verdict")
	case given("value") && verdict != nexjob.Applied:
		return input.Wrong("--value", "only an effect that was applied has one")
	case given("value") && !json.Valid([]byte(r.value)):
		return input.Wrong("--value", "it is not JSON, and the handler could never read it; a text has quotes of its own: '\"L-17\"'")
	case given("follow-up") != (verdict == nexjob.Compensate):
		return input.Wrong("--follow-up", "it belongs to --verdict compensate, which needs it")
	case !given("follow-up") && (given("follow-up-args") || given("follow-up-key") || given("follow-up-queue")):
		return input.Wrong("--follow-up", "it is missing: of which kind is that job?")
	case given("item") && !given("effect"):
		return input.Wrong("--effect", "it is missing: --item tells the turns of one effect apart")
	}
	r.do.Verdict = verdict
	if given("value") {
		r.do.Value = []byte(r.value)
	}
	if given("follow-up") {
		job := nexjob.RawJob(r.followUp, []byte(r.followUpArgs), nexjob.Options{
			IdempotencyKey: r.followUpKey, Queue: r.followUpQueue,
		})
		job.ID = nexjob.NewID()
		if wrong, ok := errors.AsType[*nexjob.InvalidError](job.Validate()); ok {
			flag, known := map[string]string{
				"kind": "--follow-up", "queue": "--follow-up-queue", "idempotency key": "--follow-up-key",
			}[wrong.Field]
			if !known {
				flag = "--follow-up-args"
			}
			return input.Wrong(flag, "%s; %s", wrong.Why, wrong.Remedy)
		}
		r.do.FollowUp = &job
	}
	return actor(cmd, &r.do)
}
