package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
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
	fs.StringVar(&f.endedBefore, "ended-before", "", "ended before this `TIME` (2026-03-01T08:00:00Z), or so long ago (72h)")
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
				return q, input.Wrong(list.flag, "%s", reason(err))
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
			return nil, input.Wrong("--state", "%s", reason(err))
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
		return "", input.Wrong(where, "%s", reason(err))
	}
	return key, nil
}

func parseID(where, text string) (nexjob.ID, error) {
	id, err := nexjob.ParseID(text)
	if err != nil {
		return id, input.Wrong(where, "%s; if it is a key, see nexjob key explain --help", reason(err))
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

func parseTime(where, text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, input.Wrong(where, "%q is neither a time such as 2026-03-01T08:00:00Z nor a duration such as 72h", text)
	}
	return at, nil
}

// reason is an error's text without the package's name, to stand after a flag's.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "nexjob: ") }
