package nexjob_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nexjob/nexjob"
)

func TestValidateKey(t *testing.T) {
	t.Parallel()
	for key, good := range map[string]bool{
		"payment-42": true, "Order-A": true, " ": true, "ü": true, "a\nb": true, "a/b%2F#+:": true,
		strings.Repeat("k", 512): true, strings.Repeat("😀", 128): true, "\x00derived": true,
		"": false, strings.Repeat("k", 513): false, strings.Repeat("😀", 129): false, strings.Repeat("k", 100_000): false,
		"\xff": false, "a\xc0\x80": false, "a\x00b": false, "a\x00": false, "\x00\x00": false,
	} {
		if err := nexjob.ValidateKey(key); (err == nil) != good || !good && !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("ValidateKey(%.20q, %d bytes) = %v", key, len(key), err)
		}
	}
}

func TestValidateName(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"default": true, "Upper-Case_and.dots": true, "a:b": true, "a#b": true, "a+b": true, "a/b": true,
		"a%2Fb": true, "ü": true, "two words": true, strings.Repeat("q", 51): true, strings.Repeat("q", 128): true,
		"": false, strings.Repeat("q", 129): false, strings.Repeat("ü", 65): false, "a\nb": false, "a\x00b": false,
		"\u0085": false, "\x7f": false, " a": false, "a ": false, "\u00a0a": false, "\xff": false,
	} {
		if err := nexjob.ValidateName("queue", name); (err == nil) != good || !good && !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("ValidateName(%.20q, %d bytes) = %v", name, len(name), err)
		}
	}
}

func FuzzKeysAndNames(f *testing.F) {
	for _, seed := range []string{"", "a", "\x00a", "a\x00", "\xff", "ü", strings.Repeat("k", 513), " a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if nexjob.ValidateKey(text) == nil &&
			(text == "" || len(text) > nexjob.MaxKey || !utf8.ValidString(text) || strings.Contains(text[1:], "\x00")) {
			t.Errorf("the key %q is accepted", text)
		}
		if nexjob.ValidateName("queue", text) == nil &&
			(text == "" || len(text) > nexjob.MaxName || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n\r\x1b")) {
			t.Errorf("the name %q is accepted", text)
		}
		for _, limit := range []int{0, 5, 20, 100} {
			cut := nexjob.CutText(text, limit)
			if len(cut) > max(limit, 0) || !utf8.ValidString(cut) || strings.Contains(cut, "\x00") {
				t.Errorf("CutText(%q, %d) = %q", text, limit, cut)
			}
			if again := nexjob.CutText(cut, limit); again != cut {
				t.Errorf("cutting %q again makes %q", cut, again)
			}
		}
	})
}

func TestCutText(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"short", 5, "short"},
		{"a longer text that does not fit", 20, "a longer t … (cut)"},
		{"ééééééééééééé", 14, "éé … (cut)"},
		{"bytes \xff and \x00", 30, "bytes \uFFFD and \uFFFD"},
		{"ab", 1, "a"},
	} {
		if got := nexjob.CutText(tt.text, tt.limit); got != tt.want {
			t.Errorf("CutText(%q, %d) = %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}

func TestValidateItems(t *testing.T) {
	t.Parallel()
	parent := nexjob.Parent{ID: nexjob.NewID()}
	for name, change := range map[string]func(n *nexjob.NewJob){
		"no ID":                  func(n *nexjob.NewJob) { n.ID = nexjob.ID{} },
		"an error of its own":    func(n *nexjob.NewJob) { n.Err = &nexjob.InvalidError{} },
		"no kind":                func(n *nexjob.NewJob) { n.Kind = "" },
		"queue with a space":     func(n *nexjob.NewJob) { n.Queue = " " },
		"no such priority":       func(n *nexjob.NewJob) { n.Priority = 5 },
		"no such policy":         func(n *nexjob.NewJob) { n.DuplicatePolicy = 3 },
		"no such setting":        func(n *nexjob.NewJob) { n.WhileActive = 3 },
		"args too large":         func(n *nexjob.NewJob) { n.Args = make([]byte, nexjob.MaxArgs+1) },
		"key not UTF-8":          func(n *nexjob.NewJob) { n.IdempotencyKey = "\xff" },
		"negative tries":         func(n *nexjob.NewJob) { n.MaxAttempts = -1 },
		"too many tries":         func(n *nexjob.NewJob) { n.MaxAttempts = nexjob.MaxAttemptsEver + 1 },
		"negative delay":         func(n *nexjob.NewJob) { n.Delay = -1 },
		"delay without end":      func(n *nexjob.NewJob) { n.Delay = nexjob.MaxDuration + 1 },
		"negative time-out":      func(n *nexjob.NewJob) { n.Timeout = -1 },
		"negative deadline":      func(n *nexjob.NewJob) { n.DeadlineAfter = -1 },
		"key life without key":   func(n *nexjob.NewJob) { n.KeepKeyFor = time.Hour },
		"due in the year 12,000": func(n *nexjob.NewJob) { n.DueAt = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"deadline before 1970":   func(n *nexjob.NewJob) { n.Deadline = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) },
		"too many tags":          func(n *nexjob.NewJob) { n.Tags = make([]string, nexjob.MaxTags+1) },
		"an empty tag":           func(n *nexjob.NewJob) { n.Tags = []string{""} },
		"metadata name":          func(n *nexjob.NewJob) { n.Meta = map[string]string{"\n": ""} },
		"metadata not UTF-8":     func(n *nexjob.NewJob) { n.Meta = map[string]string{"a": "\xff"} },
		"metadata with NUL":      func(n *nexjob.NewJob) { n.Meta = map[string]string{"a": "\x00"} },
		"metadata too large":     func(n *nexjob.NewJob) { n.Meta = map[string]string{"a": strings.Repeat("x", nexjob.MaxMeta)} },
		"too many parents":       func(n *nexjob.NewJob) { n.Parents = make([]nexjob.Parent, nexjob.MaxParents+1) },
		"a parent without ID":    func(n *nexjob.NewJob) { n.Parents = []nexjob.Parent{{}} },
		"a parent named twice":   func(n *nexjob.NewJob) { n.Parents = []nexjob.Parent{parent, parent} },
		"its own parent":         func(n *nexjob.NewJob) { n.Parents = []nexjob.Parent{{ID: n.ID}} },
		"a parent under no rule": func(n *nexjob.NewJob) { n.Parents = []nexjob.Parent{{ID: parent.ID, Rule: 3}} },
	} {
		job := ChargeCard.New(Charge{}, nexjob.Options{})
		job.ID = nexjob.NewID()
		if err := job.Validate(); err != nil {
			t.Fatalf("a good item is refused: %v", err)
		}
		change(&job)
		if err := job.Validate(); !errors.Is(err, nexjob.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateActions(t *testing.T) {
	t.Parallel()
	followUp := ChargeCard.New(Charge{}, nexjob.Options{})
	good := map[string]nexjob.Action{
		"cancel":           {Act: nexjob.ActCancel},
		"requeue":          {Act: nexjob.ActRequeue, NewOperation: true},
		"delete":           {Act: nexjob.ActDelete},
		"delete by force":  {Act: nexjob.ActDelete, Force: true, Reason: "law"},
		"reschedule":       {Act: nexjob.ActReschedule, DueAt: time.Now()},
		"prioritise":       {Act: nexjob.ActPrioritise, Priority: nexjob.High},
		"move":             {Act: nexjob.ActMove, Queue: "slow"},
		"applied":          {Act: nexjob.ActResolve, Verdict: nexjob.Applied, By: "ada", Reason: "seen", Value: []byte("1")},
		"not applied":      {Act: nexjob.ActResolve, Verdict: nexjob.NotApplied, By: "ada", Reason: "asked"},
		"compensate":       {Act: nexjob.ActResolve, Verdict: nexjob.Compensate, By: "ada", Reason: "refund", FollowUp: &followUp},
		"purge and expire": {Act: nexjob.ActPurge},
	}
	for name, do := range good {
		if err := do.Validate(); err != nil {
			t.Errorf("%s is refused: %v", name, err)
		}
	}
	for name, do := range map[string]nexjob.Action{
		"no act":                   {},
		"no such act":              {Act: 99},
		"who acts":                 {Act: nexjob.ActCancel, By: "a\nb"},
		"reason with NUL":          {Act: nexjob.ActCancel, Reason: "a\x00"},
		"reason not UTF-8":         {Act: nexjob.ActCancel, Reason: "\xff"},
		"reason too long":          {Act: nexjob.ActCancel, Reason: strings.Repeat("x", nexjob.MaxError+1)},
		"force without reason":     {Act: nexjob.ActDelete, Force: true, Reason: " "},
		"force for another act":    {Act: nexjob.ActRequeue, Force: true, Reason: "x"},
		"operation of another act": {Act: nexjob.ActDelete, NewOperation: true},
		"due time of another act":  {Act: nexjob.ActMove, Queue: "q", DueAt: time.Now()},
		"no due time":              {Act: nexjob.ActReschedule},
		"due in the year 1":        {Act: nexjob.ActReschedule, DueAt: time.Time{}.Add(time.Hour)},
		"no priority":              {Act: nexjob.ActPrioritise},
		"no such priority":         {Act: nexjob.ActPrioritise, Priority: 9},
		"no queue":                 {Act: nexjob.ActMove},
		"verdict of another act":   {Act: nexjob.ActCancel, Verdict: nexjob.Applied},
		"verdict still unknown":    {Act: nexjob.ActResolve, By: "ada", Reason: "x"},
		"no such verdict":          {Act: nexjob.ActResolve, Verdict: 9, By: "ada", Reason: "x"},
		"verdict of nobody":        {Act: nexjob.ActResolve, Verdict: nexjob.Applied, Reason: "x"},
		"verdict without reason":   {Act: nexjob.ActResolve, Verdict: nexjob.Applied, By: "ada"},
		"value of nothing":         {Act: nexjob.ActResolve, Verdict: nexjob.NotApplied, By: "ada", Reason: "x", Value: []byte("1")},
		"compensate with nothing":  {Act: nexjob.ActResolve, Verdict: nexjob.Compensate, By: "ada", Reason: "x"},
		"follow-up of applied": {
			Act: nexjob.ActResolve, Verdict: nexjob.Applied, By: "ada", Reason: "x", FollowUp: &followUp,
		},
		"value that is not JSON": {
			Act: nexjob.ActResolve, Verdict: nexjob.Applied, By: "ada", Reason: "x", Value: []byte("R-17"),
		},
		"value too large": {
			Act: nexjob.ActResolve, Verdict: nexjob.Applied, By: "ada", Reason: "x",
			Value: make([]byte, nexjob.MaxReceiptBytes+1),
		},
	} {
		var invalid *nexjob.InvalidError
		if err := do.Validate(); !errors.As(err, &invalid) || invalid.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
