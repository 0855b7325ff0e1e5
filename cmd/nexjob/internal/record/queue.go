package record

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Queue is one queue with its jobs by state.
type Queue struct {
	Queue string `json:"queue"`
	Jobs  int64  `json:"jobs"`
	// OldestDue is the earliest due time among the jobs that may be claimed now, and
	// Waited the seconds since then: how far the workers are behind.
	OldestDue time.Time    `json:"oldest_due,omitzero"`
	Waited    float64      `json:"waited_seconds"`
	States    []QueueState `json:"states"`
}

// QueueState counts the jobs of a queue in one state.
type QueueState struct {
	State     nexjob.State     `json:"state"`
	Jobs      int64            `json:"jobs"`
	OldestDue time.Time        `json:"oldest_due,omitzero"` // of active jobs
	Kinds     map[string]int64 `json:"kinds"`
}

// QueuesOf groups tallies by queue and state, in the order of names and of a job's life.
func QueuesOf(tallies []nexjob.Tally, now time.Time) []Queue {
	var queues []Queue
	for _, t := range tallies {
		at := slices.IndexFunc(queues, func(q Queue) bool { return q.Queue == t.Queue })
		if at < 0 {
			queues, at = append(queues, Queue{Queue: t.Queue}), len(queues)
		}
		queues[at].add(t, now)
	}
	slices.SortFunc(queues, func(a, b Queue) int { return cmp.Compare(a.Queue, b.Queue) })
	order := nexjob.States()
	for i := range queues {
		slices.SortFunc(queues[i].States, func(a, b QueueState) int {
			return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
		})
	}
	return queues
}

func (q *Queue) add(t nexjob.Tally, now time.Time) {
	q.Jobs += t.Jobs
	at := slices.IndexFunc(q.States, func(s QueueState) bool { return s.State == t.State })
	if at < 0 {
		q.States, at = append(q.States, QueueState{State: t.State, Kinds: make(map[string]int64)}), len(q.States)
	}
	s := &q.States[at]
	s.Jobs += t.Jobs
	s.Kinds[t.Kind] += t.Jobs
	if !t.State.Active() || t.OldestDue.IsZero() {
		return
	}
	if s.OldestDue.IsZero() || t.OldestDue.Before(s.OldestDue) {
		s.OldestDue = t.OldestDue
	}
	if t.State == nexjob.Enqueued {
		q.OldestDue, q.Waited = s.OldestDue, max(0, now.Sub(s.OldestDue).Seconds())
	}
}

// WriteQueues writes queues for people, a row per queue and state.
func WriteQueues(w io.Writer, queues []Queue, now time.Time) error {
	t := view.NewTable(w, "QUEUE", "STATE", "JOBS", "OLDEST DUE", "KINDS")
	for i := range queues {
		for _, s := range queues[i].States {
			t.Row(queues[i].Queue, s.State, s.Jobs, age(s.OldestDue, now), kinds(s.Kinds))
		}
	}
	return t.Flush()
}

// age says how long ago, or in how long, a time is.
func age(at, now time.Time) string {
	d := now.Sub(at).Round(time.Second)
	switch {
	case at.IsZero():
		return "-"
	case d < 0:
		return "in " + (-d).String()
	}
	return d.String() + " ago"
}

// kinds names the most frequent kinds, as many as a line holds.
func kinds(counts map[string]int64) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	const shown = 5
	more := ""
	if len(names) > shown {
		more = fmt.Sprintf(", %d more", len(names)-shown)
		names = names[:shown]
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	return strings.Join(names, ", ") + more
}
