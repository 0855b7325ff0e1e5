package record

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Job is a job as a list tells it.
type Job struct {
	ID            nexjob.ID       `json:"id"`
	Kind          string          `json:"kind"`
	State         nexjob.State    `json:"state"`
	Reason        string          `json:"reason,omitempty"`
	Key           string          `json:"key,omitempty"`
	Operation     nexjob.ID       `json:"operation"`
	Queue         string          `json:"queue"`
	Priority      nexjob.Priority `json:"priority"`
	Tags          []string        `json:"tags,omitempty"`
	EnqueuedAt    time.Time       `json:"enqueued_at"`
	DueAt         time.Time       `json:"due_at,omitzero"` // of active jobs
	Deadline      time.Time       `json:"deadline,omitzero"`
	StartedAt     time.Time       `json:"started_at,omitzero"`
	EndedAt       time.Time       `json:"ended_at,omitzero"`
	Worker        string          `json:"worker,omitempty"` // that claimed it last
	LeaseUntil    time.Time       `json:"lease_until,omitzero"`
	Stopping      bool            `json:"stopping,omitempty"` // its worker has been asked to stop it
	Wished        *nexjob.State   `json:"wished,omitempty"`   // the end that a missing outcome holds up
	Tries         int             `json:"tries"`
	MaxAttempts   int             `json:"max_attempts"`
	Crashes       int             `json:"crashes,omitempty"`
	Interruptions int             `json:"interruptions,omitempty"`
	Snoozes       int             `json:"snoozes,omitempty"`
	Lookups       int             `json:"lookups,omitempty"`
	OpenEffects   int             `json:"open_effects,omitempty"`
}

// JobOf makes a Job of what Find answered.
func JobOf(j *nexjob.Job) Job {
	out := Job{
		ID: j.ID, Kind: j.Kind, State: j.State, Reason: j.Reason, Key: j.Key, Operation: j.Operation,
		Queue: j.Queue, Priority: j.Priority, Tags: j.Tags,
		EnqueuedAt: j.EnqueuedAt, Deadline: j.Deadline, StartedAt: j.StartedAt, EndedAt: j.EndedAt,
		Worker: j.Worker, Tries: j.Tries, MaxAttempts: j.MaxAttempts, Crashes: j.Crashes,
		Interruptions: j.Interruptions, Snoozes: j.Snoozes, Lookups: j.Lookups, OpenEffects: j.OpenEffects,
	}
	if j.State.Active() {
		out.DueAt = j.DueAt
	}
	if j.State == nexjob.Processing {
		out.LeaseUntil, out.Stopping = j.LeaseUntil, j.Stop
	}
	if j.Wished != 0 {
		out.Wished = &j.Wished
	}
	return out
}

// JobTable begins a table of jobs on w. Its rows are written by JobRow.
func JobTable(w io.Writer) *view.Table {
	return view.NewTable(w, "ID", "STATE", "KIND", "KEY", "TRIES", "WHEN", "REASON")
}

// JobRow adds a job to a JobTable, with its key and reason cut to what a line can hold.
func JobRow(t *view.Table, j *nexjob.Job) {
	t.Row(j.ID, j.State, j.Kind, keyCell(j.Key), fmt.Sprintf("%d/%d", j.Tries, j.MaxAttempts), when(j), firstLine(j.Reason))
}

// when is the time that matters most in the job's state.
func when(j *nexjob.Job) string {
	switch {
	case !j.EndedAt.IsZero():
		return "ended " + second(j.EndedAt)
	case j.State == nexjob.Processing:
		return "since " + second(j.StartedAt)
	case j.DueAt.IsZero():
		return "since " + second(j.EnqueuedAt)
	}
	return "due " + second(j.DueAt)
}

// second writes a time to the second: a list is read, and --json has the rest.
func second(t time.Time) string { return view.Time(t.Truncate(time.Second)) }

const (
	shownKey    = 40 // characters of a key in a table
	shownReason = 80 // of a reason
)

func keyCell(key string) string {
	if key == "" {
		return "-"
	}
	return short(view.Key(key), shownKey)
}

func firstLine(text string) string {
	line, rest, _ := strings.Cut(text, "\n")
	line = short(view.Safe(strings.TrimSpace(line)), shownReason)
	if rest != "" && !strings.HasSuffix(line, "…") {
		line += " …"
	}
	return line
}

// short cuts safe text to n characters and marks the cut.
func short(text string, n int) string {
	letters := []rune(text)
	if len(letters) <= n {
		return text
	}
	return string(letters[:n-1]) + "…"
}

// data are bytes that are JSON by habit, not by law: what is none is shown as text, or
// in base64 where it is no text.
func data(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if json.Valid(raw) {
		return raw
	}
	text, err := json.Marshal(map[string][]byte{"base64": raw})
	if err != nil {
		return nil
	}
	return text
}
