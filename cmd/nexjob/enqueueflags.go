package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
)

// enqueueOptions are the flags of enqueue.
type enqueueOptions struct {
	job nexjob.Options
	id  nexjob.ID

	from, keyFrom, keyPrefix, invalidTo string
	noKeys                              bool
	field                               *input.Field // of keyFrom
	meta                                []string
}

// declare adds the flags to the command.
func (o *enqueueOptions) declare(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.job.IdempotencyKey, "key", "", "idempotency `KEY`: the name of what must be done once")
	f.TextVar(&o.job.DuplicatePolicy, "policy", nexjob.AllowAfterFailed,
		"the `POLICY` once the key's last job has ended: "+oneOf(nexjob.Policies()))
	f.TextVar(&o.job.WhileActive, "while-active", nexjob.ReturnExisting,
		"the `SETTING` while the key's job is active: "+oneOf(whileActive()))
	f.BoolVar(&o.job.StrictArgs, "strict-args", false, "refuse an equal key with other args")
	f.Var((*span)(&o.job.KeepKeyFor), "keep-key-for", "how long the key lives after the job's end (default: as its record)")
	f.BoolVar(&o.job.NewOperation, "new-operation", false,
		"a second effect is meant: do not continue the key's last operation")
	f.Var((*jobID)(&o.id), "id", "the job's `ID`, a UUIDv7, so that a repeat is recognised (default: a new one)")
	f.StringVar(&o.job.Queue, "queue", nexjob.DefaultQueue, "`NAME` of the queue")
	f.TextVar(&o.job.Priority, "priority", nexjob.Normal, "`PRIORITY` within the queue: "+oneOf(nexjob.Priorities()))
	f.Var((*span)(&o.job.Delay), "delay", "due this long from now: 90s, 2h30m, 7d")
	f.Var(&instant{at: &o.job.DueAt}, "at", "due at this time: 2026-05-01T02:00:00+02:00")
	f.Var(&instant{at: &o.job.Deadline, after: &o.job.DeadlineAfter}, "deadline",
		"not started after this time, or this long from now")
	f.IntVar(&o.job.MaxAttempts, "max-attempts", nexjob.DefaultMaxAttempts, "how many `TRIES` in all")
	f.Var((*span)(&o.job.Timeout), "timeout", "of one attempt (default: the worker's)")
	f.StringArrayVar(&o.job.Tags, "tag", nil, "a `TAG`; may be repeated")
	f.StringArrayVar(&o.meta, "meta", nil, "`NAME=VALUE` kept with the job; may be repeated")
	f.StringVar(&o.from, "from", "", "JSON Lines `FILE`, each line the args of one job; - for standard input")
	f.StringVar(&o.keyFrom, "key-from", "", "with --from: the `FIELD` of a line that is its key: a text or a whole number")
	f.StringVar(&o.keyPrefix, "key-prefix", "", "with --key-from: the `TEXT` before each key")
	f.BoolVar(&o.noKeys, "no-keys", false, "with --from: lines have no key, and a repeat adds them all again")
	f.StringVar(&o.invalidTo, "invalid-to", "", "with --from: name all lines that are not in, and why, in this `FILE`, as JSON Lines")

	complete := func(name string, words []string) {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("policy", names(nexjob.Policies()))
	complete("while-active", names(whileActive()))
	complete("priority", names(nexjob.Priorities()))
	cmd.ValidArgsFunction = cobra.NoFileCompletions
}

func whileActive() []nexjob.WhileActive {
	return []nexjob.WhileActive{nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace}
}

func names[T fmt.Stringer](all []T) []string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return words
}

func oneOf[T fmt.Stringer](all []T) string { return strings.Join(names(all), ", ") }

// check refuses flags that contradict each other, before anything is opened. A text
// flag that is empty was meant to hold something: a shell variable was not set.
func (o *enqueueOptions) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	for _, name := range []string{"key", "queue", "from", "key-from", "invalid-to"} {
		if given(name) && cmd.Flag(name).Value.String() == "" {
			return input.Wrong("--"+name, "it is empty; leave it out if none is meant")
		}
	}
	if given("max-attempts") && o.job.MaxAttempts == 0 {
		return input.Wrong("--max-attempts", "0: want 1 or more")
	}
	for name, d := range map[string]time.Duration{"timeout": o.job.Timeout, "keep-key-for": o.job.KeepKeyFor} {
		if given(name) && d == 0 {
			return input.Wrong("--"+name, "0: want a time above zero; leave it out for the default")
		}
	}
	if given("delay") && given("at") {
		return input.Wrong("--delay", "--at is given too: choose one of them")
	}
	for _, pair := range o.meta {
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return input.Wrong("--meta", "%q: want NAME=VALUE", pair)
		}
		if _, twice := o.job.Meta[name]; twice {
			return input.Wrong("--meta", "%q is given twice", name)
		}
		if o.job.Meta == nil {
			o.job.Meta = make(map[string]string)
		}
		o.job.Meta[name] = value
	}
	if !given("from") {
		for _, name := range []string{"key-from", "key-prefix", "no-keys", "invalid-to"} {
			if given(name) {
				return input.Wrong("--"+name, "it speaks of lines: want --from FILE, or - for standard input")
			}
		}
		return nil
	}
	return o.checkLines(given, args)
}

// checkLines refuses what does not fit to a job per line.
func (o *enqueueOptions) checkLines(given func(string) bool, args []string) error {
	switch {
	case len(args) > 1:
		return input.Wrong("ARGS-JSON", "with --from the args come from the lines: leave it out")
	case given("key"):
		return input.Wrong("--key", "one key cannot serve all lines: want --key-from FIELD")
	case given("id"):
		return input.Wrong("--id", "one ID cannot serve all lines: want --key-from FIELD")
	case !given("key-from") && !o.noKeys:
		return input.Wrong("--from", "want --key-from FIELD, the member of each line that is its idempotency key: "+
			"without keys, a run that is cut short and repeated enqueues lines twice. If that is meant, add --no-keys")
	case given("key-from") && o.noKeys:
		return input.Wrong("--no-keys", "--key-from is given too: choose one of them")
	case given("key-prefix") && o.noKeys:
		return input.Wrong("--key-prefix", "without keys there is nothing to put it before")
	}
	if given("key-from") {
		field, err := input.ParseField(o.keyFrom)
		if err != nil {
			return input.Wrong("--key-from", "%v", err)
		}
		o.field = &field
	}
	// A job like those to come: what is wrong with it is wrong with every line.
	probe := nexjob.RawJob(args[0], nil, o.job)
	probe.ID = nexjob.NewID()
	if o.field != nil {
		probe.IdempotencyKey = o.keyPrefix + "1"
	}
	return wrongFlag(probe.Validate(), nil)
}

// wrongFlag names the flag or argument that an *InvalidError speaks of, and where args
// go wrong.
func wrongFlag(err error, args []byte) error {
	wrong, ok := errors.AsType[*nexjob.InvalidError](err)
	if !ok {
		return err
	}
	name, why := "--"+strings.ReplaceAll(wrong.Field, " ", "-"), wrong.Why
	switch wrong.Field {
	case "kind":
		name = "KIND"
	case "args":
		name = "ARGS-JSON"
		if place := input.Place(args); place != "" {
			why += ", " + place
		}
	case "idempotency key":
		name = "--key"
	case "due at":
		name = "--at"
	case "deadline after":
		name = "--deadline"
	case "tags":
		name = "--tag"
	}
	if strings.HasPrefix(wrong.Field, "metadata") {
		name, why = "--meta", wrong.Field+": "+why
	}
	return input.Wrong(name, "%s; %s", why, wrong.Remedy)
}

// jobID is an ID that has no default to show.
type jobID nexjob.ID

// Set reads the 36 characters of an ID.
func (i *jobID) Set(text string) error {
	id, err := nexjob.ParseID(text)
	if err == nil && id.IsZero() {
		err = errors.New("the zero ID names nothing")
	}
	*i = jobID(id)
	return err
}

// String writes the ID, nothing for none.
func (i *jobID) String() string {
	if nexjob.ID(*i).IsZero() {
		return ""
	}
	return nexjob.ID(*i).String()
}

// Type names what is wanted in the help.
func (*jobID) Type() string { return "id" }

// span is a duration that may be given in days of 24 hours.
type span time.Duration

// Set reads 90s, 2h30m or 7d.
func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

// String writes the duration, nothing for none.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type names what is wanted in the help.
func (*span) Type() string { return "duration" }

func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 16); err == nil {
			d = time.Duration(n) * 24 * time.Hour // 16 bits of days are less than 180 years
		}
	}
	switch {
	case err != nil:
		return 0, errors.New("want a duration such as 90s, 2h30m or 7d")
	case d < 0 || d > nexjob.MaxDuration:
		return 0, fmt.Errorf("want 0 to %s", nexjob.MaxDuration)
	}
	return d, nil
}

// instant is a time, or, where that makes sense, a duration from the enqueue on.
type instant struct {
	at    *time.Time
	after *time.Duration // nil: only a time will do
	text  string
}

// Set reads RFC 3339, whose zone is part of it: a time without one means another
// instant on another host.
func (i *instant) Set(text string) error {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err == nil && at.IsZero() { // which would mean that none is given
		return errors.New("want a year from 1970 to 9999")
	}
	if err == nil {
		*i.at, i.text = at, text
		return nil
	}
	if i.after == nil {
		return errors.New("want a time with its zone, such as 2026-05-01T02:00:00Z or 2026-05-01T02:00:00+02:00")
	}
	d, err := parseSpan(text)
	if err != nil || d == 0 {
		return errors.New("want a time with its zone, such as 2026-05-01T02:00:00Z, or a duration such as 2h30m or 7d")
	}
	*i.after, i.text = d, text
	return nil
}

// String returns what was given.
func (i *instant) String() string { return i.text }

// Type names what is wanted in the help.
func (i *instant) Type() string {
	if i.after == nil {
		return "time"
	}
	return "time|duration"
}
