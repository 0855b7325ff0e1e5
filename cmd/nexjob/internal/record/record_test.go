package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

func TestQueuesOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	tally := func(queue, kind string, state nexjob.State, jobs int64, due time.Duration) nexjob.Tally {
		return nexjob.Tally{Queue: queue, Kind: kind, State: state, Jobs: jobs, OldestDue: now.Add(due)}
	}
	queues := QueuesOf([]nexjob.Tally{
		tally("mail", "send", nexjob.Scheduled, 3, time.Hour),
		tally("default", "charge", nexjob.Failed, 2, -9*time.Hour),
		tally("default", "refund", nexjob.Enqueued, 1, -time.Minute),
		tally("default", "charge", nexjob.Enqueued, 5, -time.Hour),
	}, now)
	want := []Queue{
		{Queue: "default", Jobs: 8, OldestDue: now.Add(-time.Hour), Waited: 3600, States: []QueueState{
			{nexjob.Enqueued, 6, now.Add(-time.Hour), map[string]int64{"charge": 5, "refund": 1}},
			{nexjob.Failed, 2, time.Time{}, map[string]int64{"charge": 2}}, // an ended job is due no more
		}},
		{Queue: "mail", Jobs: 3, States: []QueueState{
			{nexjob.Scheduled, 3, now.Add(time.Hour), map[string]int64{"send": 3}},
		}},
	}
	if diff := cmp.Diff(want, queues); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var b strings.Builder
	if err := WriteQueues(&b, queues, now); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"1h0m0s ago  charge 5, refund 1", "in 1h0m0s"} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
}

func TestChangeOf(t *testing.T) {
	id := nexjob.NewID()
	for name, tt := range map[string]struct {
		act    nexjob.Act
		change nexjob.Change
		answer string
		why    string // a part of it
	}{
		"done":     {nexjob.ActCancel, nexjob.Change{State: nexjob.Cancelled, Done: true}, Done, ""},
		"gone":     {nexjob.ActDelete, nexjob.Change{Done: true}, Done, ""},
		"refused":  {nexjob.ActRequeue, nexjob.Change{Err: errors.New("nexjob: no")}, Refused, "no"},
		"held":     {nexjob.ActDelete, nexjob.Change{State: nexjob.Uncertain, Done: true}, Held, "resolve it"},
		"stopping": {nexjob.ActCancel, nexjob.Change{State: nexjob.Processing, Done: true}, Done, "asked to stop"},
		"another":  {nexjob.ActResolve, nexjob.Change{State: nexjob.Uncertain, Done: true}, Done, "another effect"},
		"no key":   {nexjob.ActClearKey, nexjob.Change{Err: nexjob.ErrNotFound}, Refused, "gone on to another"},
		"made up for": {
			nexjob.ActResolve,
			nexjob.Change{State: nexjob.Cancelled, Done: true, FollowUp: &nexjob.Answer{ID: id, Outcome: nexjob.Created}},
			Done, "follow-up job " + id.String() + " created",
		},
	} {
		got := ChangeOf(tt.act, &tt.change)
		if got.Answer != tt.answer || !strings.Contains(got.Why, tt.why) || tt.why == "" && got.Why != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestCellsAreShort(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"one line":               "one line",
		"first\nsecond":          "first …",
		"\x1b[31mred":            `\x1b[31mred`,
		strings.Repeat("é", 100): strings.Repeat("é", 79) + "…",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("firstLine(%q) is %q", text, got)
		}
	}
}

// TestData: args are JSON by habit and bytes by law.
func TestData(t *testing.T) {
	for raw, want := range map[string]string{
		"":                             "",
		`{"n": 1.0}`:                   `{"n": 1.0}`,
		"\xff\x00":                     `{"base64":"/wA="}`,
		`{"big":12345678901234567890}`: `{"big":12345678901234567890}`,
	} {
		if got := string(data([]byte(raw))); got != want {
			t.Errorf("data(%q) is %s, want %s", raw, got, want)
		}
	}
}

// TestCard: a job with all there is, for people and for programs.
func TestCard(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	id, child := nexjob.NewID(), nexjob.NewID()
	e := nexjob.JobExplanation{
		At: at, Sentence: "It \x1b[2J waits.", MoreChildren: true,
		Children: []nexjob.Job{{ID: child, State: nexjob.AwaitingContinuation, Kind: "ship", Priority: nexjob.Normal}},
		Job: nexjob.Job{
			ID: id, Kind: "charge", State: nexjob.Uncertain, Queue: "default", Priority: nexjob.High, Operation: id,
			EnqueuedAt: at, Deadline: at.Add(time.Hour), Crashes: 2, Lookups: 3, MaxAttempts: 10, KeepKeyFor: time.Hour,
			Wished: nexjob.Cancelled, Args: []byte("\xff"), Meta: map[string]string{"by": "a\x1bb"},
			Parents:   []nexjob.Parent{{ID: child, Rule: nexjob.OnAnyEnd, Decided: true}},
			Followers: []nexjob.Follower{{ID: child, Key: "k", Outcome: nexjob.Existing}},
			Attempts:  []nexjob.Attempt{{Started: at, Ended: at.Add(time.Second), Ending: nexjob.EndCrashed, Worker: "w"}},
		},
		Receipts: []nexjob.Receipt{{
			Sort: nexjob.EffectReceipt, Name: "charge", Item: "7", State: nexjob.Intended,
			SendBefore: at, LookupAfter: time.Minute,
		}},
	}
	card := CardOf(&e)
	var b bytes.Buffer
	if err := card.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"0 of 10, crashes 2, look-ups 3", "crashed", "after 1s", "charge/7", "not known", "on any end", "decided",
		"ship", "and more", "existing", "/w==", `a\x1bb`, `It \x1b[2J waits.`,
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no %q in\n%s", part, b.String())
		}
	}
	b.Reset()
	if err := view.WriteJSON(&b, card); err != nil {
		t.Fatal(err)
	}
	var back Card
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatalf("%v in %s", err, b.Bytes())
	}
	if diff := cmp.Diff(card, back); diff != "" {
		t.Errorf("it does not come back from JSON (-want +got):\n%s", diff)
	}
}
