package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// filter are the flags that select jobs. All that are given must match.
type filter struct {
	states, kinds, queues, tags, anyTags []string
	key, keyPrefix                       string
	quoted                               bool
	operation, parent                    string
	endedBefore, deadlineBefore          string
}

func (f *filter) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.states, "state", nil, "in this `STATE`, as listed above; repeat it for several")
	fs.StringArrayVar(&f.kinds, "kind", nil, "of this `KIND`; repeat it for several")
	fs.StringArrayVar(&f.queues, "queue", nil, "in this `QUEUE`; repeat it for several")
	fs.StringVar(&f.key, "key", "", "with this idempotency `KEY`")
	fs.StringVar(&f.keyPrefix, "key-prefix", "", "with a key that begins with `TEXT`")
	addQuoted(cmd, &f.quoted)
	fs.StringArrayVar(&f.tags, "tag", nil, "with this `TAG`; repeat it for jobs that have all of them")
	fs.StringArrayVar(&f.anyTags, "any-tag", nil, "with this `TAG`; repeat it for jobs that have at least one of them")
	fs.StringVar(&f.operation, "operation", "", "of the operation with this `ID`")
	fs.StringVar(&f.parent, "parent", "", "that wait or waited for the job with this `ID`")
	fs.StringVar(&f.endedBefore, "ended-before", "", "ended before this `TIME` (2026-03-01T08:00:00Z), or so long ago (72h, 30d)")
	fs.StringVar(&f.deadlineBefore, "deadline-before", "", "with a deadline before this `TIME`")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(names(nexjob.States()), cobra.ShellCompDirectiveNoFileComp))
}

// addQuoted declares the flag by which a key of any bytes can be given.
func addQuoted(cmd *cobra.Command, quoted *bool) {
	cmd.Flags().BoolVar(quoted, "quoted", false,
		`read keys as Go writes strings, as nexjob prints odd ones: "\x00derived"`)
}

// query reads the flags. A condition that was given and is empty is a mistake, never
// one that selects everything.
func (f *filter) query(cmd *cobra.Command) (nexjob.Query, error) {
	q := nexjob.Query{Kinds: f.kinds, Queues: f.queues, Tags: f.tags, AnyTags: f.anyTags}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--kind", f.kinds}, {"--queue", f.queues}, {"--tag", f.tags}, {"--any-tag", f.anyTags}} {
		for _, name := range list.names {
			if err := nexjob.ValidateName("name", name); err != nil {
				return q, input.Wrong(list.flag, "%s", view.Reason(err))
			}
		}
	}
	var err error
	if q.States, err = parseStates(f.states); err != nil {
		return q, err
	}
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	if given("key") {
		if q.Key, err = parseKey("--key", f.key, f.quoted); err != nil {
			return q, err
		}
	}
	if given("key-prefix") {
		if q.KeyPrefix, err = parseKey("--key-prefix", f.keyPrefix, f.quoted); err != nil {
			return q, err
		}
	}
	if given("operation") {
		id, err := parseID("--operation", f.operation)
		if err != nil {
			return q, err
		}
		q.Operations = []nexjob.ID{id}
	}
	if given("parent") {
		if q.Parent, err = parseID("--parent", f.parent); err != nil {
			return q, err
		}
	}
	if given("ended-before") {
		if q.EndedBefore, err = parseTime("--ended-before", f.endedBefore); err != nil {
			return q, err
		}
	}
	if given("deadline-before") {
		q.DeadlineBefore, err = parseTime("--deadline-before", f.deadlineBefore)
	}
	return q, err
}

// stateNames is the part of each help that names the states.
func stateNames() string {
	return "States: " + oneOf(nexjob.States()) + "."
}

func parseStates(names []string) ([]nexjob.State, error) {
	var states []nexjob.State
	for _, name := range names {
		for _, state := range nexjob.States() {
			if strings.EqualFold(state.String(), name) {
				name = state.String() // who types should not have to think of capitals
			}
		}
		state, err := nexjob.ParseState(name)
		if err != nil {
			if strings.Contains(name, ",") {
				return nil, input.Wrong("--state", "%q: want one state; repeat --state for several", name)
			}
			return nil, input.Wrong("--state", "%s", view.Reason(err))
		}
		states = append(states, state)
	}
	return states, nil
}

// parseKey reads a key or the beginning of one.
func parseKey(where, text string, quoted bool) (string, error) {
	key := text
	if quoted {
		if !strings.HasPrefix(text, `"`) {
			text = `"` + text + `"`
		}
		var err error
		if key, err = strconv.Unquote(text); err != nil {
			return "", input.Wrong(where, "with --quoted, %s is not a string as Go writes it", text)
		}
	}
	if err := nexjob.ValidateKey(key); err != nil {
		return "", input.Wrong(where, "%s", view.Reason(err))
	}
	return key, nil
}

// parseID reads an ID. The zero ID is refused: in a query it is no condition, so an action
// on the children of nobody would be one on all jobs.
func parseID(where, text string) (nexjob.ID, error) {
	id, err := nexjob.ParseID(text)
	switch {
	case err != nil:
		return id, input.Wrong(where, "%s; if it is a key, see nexjob key explain --help", view.Reason(err))
	case id.IsZero():
		return id, input.Wrong(where, "the zero ID names nothing")
	}
	return id, nil
}

// parseIDs reads job IDs given as arguments; one that comes twice counts once.
func parseIDs(args []string) ([]nexjob.ID, error) {
	var ids []nexjob.ID
	seen := make(map[nexjob.ID]bool)
	for _, arg := range args {
		id, err := parseID("job ID", arg)
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// parseTime reads a time, or how long ago it was. The zero time is refused: in a query it
// is no condition.
func parseTime(where, text string) (time.Time, error) {
	if ago, err := parseSpan(text); err == nil {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return at, input.Wrong(where, "%q is neither a time such as 2026-03-01T08:00:00Z nor a duration such as 72h or 30d", text)
	case at.IsZero():
		return at, input.Wrong(where, "%s: there was no job then", text)
	}
	return at, nil
}
