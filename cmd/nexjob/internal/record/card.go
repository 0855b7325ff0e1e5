package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Card is all that is known of one job.
type Card struct {
	Job
	At         time.Time           `json:"at"` // the storage's time
	Sentence   string              `json:"sentence"`
	Args       json.RawMessage     `json:"args"` // {"base64": …} where they are not JSON
	Result     json.RawMessage     `json:"result,omitempty"`
	Meta       map[string]string   `json:"meta,omitempty"`
	Timeout    string              `json:"timeout,omitempty"`
	KeepKeyFor string              `json:"keep_key_for,omitempty"`
	Fence      int64               `json:"fence"`
	Attempts   []nexjob.KeyAttempt `json:"attempts,omitempty"` // ended ones, oldest first
	Effects    []Effect            `json:"effects,omitempty"`  // of its operation
	Steps      []Step              `json:"steps,omitempty"`
	Parents    []nexjob.Parent     `json:"parents,omitempty"`
	Children   []Job               `json:"children,omitempty"`
	More       bool                `json:"more_children,omitempty"`
	Followers  []nexjob.Follower   `json:"followers,omitempty"` // that were not simply created
}

// Step is a value that was computed once.
type Step struct {
	Name  string          `json:"name"`
	Item  string          `json:"item,omitempty"`
	At    time.Time       `json:"at"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Effect is one outside effect with its certainty.
type Effect struct {
	nexjob.KeyEffect
	Turn           int             `json:"turn,omitempty"` // how often it was refused before
	NotAppliedFrom time.Time       `json:"not_applied_from,omitzero"`
	Value          json.RawMessage `json:"value,omitempty"`
}

// CardOf makes a Card of an explanation.
func CardOf(e *nexjob.JobExplanation) Card {
	j := &e.Job
	c := Card{
		Job: JobOf(j), At: e.At, Sentence: e.Sentence, Args: data(j.Args), Result: data(j.Result), Meta: j.Meta,
		Timeout: duration(j.Timeout), KeepKeyFor: duration(j.KeepKeyFor), Fence: j.Fence,
		Parents: j.Parents, More: e.MoreChildren, Followers: j.Followers,
	}
	for _, a := range j.Attempts {
		c.Attempts = append(c.Attempts, nexjob.KeyAttempt(a))
	}
	for i := range e.Receipts {
		r := &e.Receipts[i]
		if r.Sort == nexjob.StepReceipt {
			c.Steps = append(c.Steps, Step{r.Name, r.Item, r.At, data(r.Value)})
			continue
		}
		effect := Effect{KeyEffect: r.Effect(), Turn: r.Turn, Value: data(r.Value)}
		if r.Open() {
			effect.NotAppliedFrom = r.NotAppliedFrom()
		}
		c.Effects = append(c.Effects, effect)
	}
	for i := range e.Children {
		c.Children = append(c.Children, JobOf(&e.Children[i]))
	}
	return c
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// Write writes the card for people, ending in the sentence.
func (c *Card) Write(w io.Writer) error {
	p := &page{w: w}
	p.table(c.facts)
	p.section("Attempts", len(c.Attempts), func(t *view.Table) {
		attempts(t, c.Attempts, func(text string) string { return text })
	})
	p.section("Effects", len(c.Effects), func(t *view.Table) { effects(t, c.Effects) }, effectHeads()...)
	p.section("Steps", len(c.Steps), c.steps)
	p.section("Waits for", len(c.Parents), func(t *view.Table) {
		for _, parent := range c.Parents {
			t.Row("  "+parent.ID.String(), parent.Rule, map[bool]string{true: "decided", false: "open"}[parent.Decided])
		}
	})
	p.section("Children", len(c.Children), func(t *view.Table) {
		for i := range c.Children {
			t.Row("  "+c.Children[i].ID.String(), c.Children[i].State, c.Children[i].Kind)
		}
		if c.More {
			t.Row("  and more")
		}
	})
	p.section("Followers that were not simply created", len(c.Followers), func(t *view.Table) {
		for _, f := range c.Followers {
			t.Row("  "+f.ID.String(), keyCell(f.Key), f.Outcome, firstLine(f.Error))
		}
	})
	p.value("Args", c.Args)
	p.value("Result", c.Result)
	for _, command := range c.remedies() {
		p.line("%s", command)
	}
	p.line("\n%s", c.Sentence)
	return p.err
}

// remedies are the commands that go on from here. What can be done to an ended job that
// has a key depends on what became of the key, and is told with it.
func (c *Card) remedies() []string {
	var lines []string
	if c.State == nexjob.Uncertain {
		lines = append(lines, resolveCommand(c.ID))
	}
	if c.State == nexjob.Failed && c.Key == "" {
		lines = append(lines, "nexjob jobs requeue "+c.ID.String())
	}
	if c.Key != "" {
		lines = append(lines, "nexjob key explain "+view.ShellKey(c.Key))
	}
	return commands(lines)
}

func (c *Card) facts(t *view.Table) {
	t.Row("Job", c.ID)
	t.Row("State", c.State)
	t.Row("Kind", c.Kind)
	if c.Key != "" {
		t.Row("Key", view.Key(c.Key))
	}
	t.Row("Operation", c.Operation)
	t.Row("Queue", fmt.Sprintf("%s, priority %s", c.Queue, c.Priority))
	if len(c.Tags) > 0 {
		t.Row("Tags", strings.Join(c.Tags, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Meta)) {
		t.Row("Meta "+name, c.Meta[name])
	}
	t.Row("Enqueued", c.EnqueuedAt)
	for _, fact := range []struct {
		name string
		at   time.Time
	}{
		{"Due", c.DueAt},
		{"Deadline", c.Deadline},
		{"Started", c.StartedAt},
		{"Lease until", c.LeaseUntil},
		{"Ended", c.EndedAt},
	} {
		if !fact.at.IsZero() {
			t.Row(fact.name, fact.at)
		}
	}
	if c.Worker != "" {
		t.Row("Worker", c.Worker)
	}
	tries := []string{fmt.Sprintf("%d of %d", c.Tries, c.MaxAttempts)}
	for _, n := range []struct {
		name string
		n    int
	}{
		{"crashes", c.Crashes},
		{"interruptions", c.Interruptions},
		{"snoozes", c.Snoozes},
		{"look-ups", c.Lookups},
	} {
		if n.n > 0 {
			tries = append(tries, fmt.Sprintf("%s %d", n.name, n.n))
		}
	}
	t.Row("Tries", strings.Join(tries, ", "))
	if c.Timeout != "" {
		t.Row("Time-out", c.Timeout)
	}
	if c.KeepKeyFor != "" {
		t.Row("Key kept for", c.KeepKeyFor)
	}
	if c.Reason != "" {
		t.Row("Reason", c.Reason)
	}
}

// attempts writes a row for each; shown is as much of an error as there is room for.
func attempts(t *view.Table, all []nexjob.KeyAttempt, shown func(text string) string) {
	for _, a := range all {
		t.Row("  "+second(a.Started), a.Ending, "after "+a.Ended.Sub(a.Started).Round(time.Millisecond).String(),
			"worker "+a.Worker, shown(a.Error))
	}
}

func (c *Card) steps(t *view.Table) {
	for _, s := range c.Steps {
		t.Row("  "+name(s.Name, s.Item), second(s.At), short(string(s.Value), shownReason))
	}
}

func effectHeads() []any {
	return []any{"  EFFECT", "STATE", "CERTAINTY", "FIRST SENT", "OUTSIDE KEY", "LAST WORD"}
}

func effects(t *view.Table, all []Effect) {
	for i := range all {
		e := &all[i]
		t.Row("  "+name(e.Name, e.Item), e.State, e.Certainty, second(e.FirstSent), e.OutsideKey, firstLine(e.Error))
	}
}

// name names a step or an effect with its item.
func name(name, item string) string {
	if item == "" {
		return name
	}
	return name + "/" + item
}

// page writes the parts of an answer and keeps the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, safeLine(fmt.Sprintf(format, args...)))
	}
}

// safeLine keeps the empty line before a part.
func safeLine(text string) string {
	if rest, ok := strings.CutPrefix(text, "\n"); ok {
		return "\n" + view.Safe(rest)
	}
	return view.Safe(text)
}

func (p *page) table(rows func(t *view.Table)) {
	if p.err != nil {
		return
	}
	t := view.NewTable(p.w)
	rows(t)
	p.err = t.Flush()
}

// section writes a table under a heading, unless there is nothing to say.
func (p *page) section(heading string, n int, rows func(t *view.Table), heads ...any) {
	if n == 0 {
		return
	}
	p.line("\n%s", heading)
	p.table(func(t *view.Table) {
		if len(heads) > 0 {
			t.Row(heads...)
		}
		rows(t)
	})
}

// value writes JSON in many lines.
func (p *page) value(heading string, raw json.RawMessage) {
	if len(raw) == 0 || p.err != nil {
		return
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, raw, "  ", "  ") != nil {
		pretty.Reset()
		pretty.Write(raw)
	}
	_, p.err = fmt.Fprintf(p.w, "\n%s\n  %s\n", heading, view.SafeJSON(pretty.Bytes()))
}
