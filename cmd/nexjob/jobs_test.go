package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/record"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
	"github.com/nexjob/nexjob/sqlite"
)

// shelf is a storage with jobs, and the command on it.
type shelf struct {
	*testing.T
	at     string // for --store
	client *nexjob.Client
	ids    []nexjob.ID
}

func newShelf(t *testing.T, jobs int) *shelf {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{T: t, at: "sqlite:" + path, client: nexjob.NewClient(store, nexjob.ClientOptions{})}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	many := make([]nexjob.NewJob, jobs)
	for i := range many {
		many[i] = nexjob.RawJob("charge-card", nil, nexjob.Options{IdempotencyKey: fmt.Sprint("payment-", i)})
	}
	answers, err := s.client.EnqueueMany(t.Context(), many)
	if err != nil {
		t.Fatal(err)
	}
	for i := range answers {
		s.ids = append(s.ids, answers[i].ID)
	}
	return s
}

// lines runs a command that must end with an exit code, and returns its lines.
func (s *shelf) lines(code int, args ...string) (out []string, notes string) {
	s.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(s.Context(), append(args, "--store", s.at), &stdout, &stderr); got != code {
		s.Fatalf("%q: exit code %d, want %d\n%s", args, got, code, stderr.String())
	}
	return strings.Split(strings.TrimSuffix(stdout.String(), "\n"), "\n"), stderr.String()
}

// TestManyJobs lists and amends more jobs than a page or a batch holds: none twice, none
// left out, the oldest first where they are amended.
func TestManyJobs(t *testing.T) {
	s := newShelf(t, nexjob.MaxPage+150)
	listed := func(lines []string) []nexjob.ID {
		var ids []nexjob.ID
		for _, line := range lines {
			var job struct {
				ID nexjob.ID `json:"id"`
			}
			if err := json.Unmarshal([]byte(line), &job); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			ids = append(ids, job.ID)
		}
		return ids
	}
	all, notes := s.lines(0, "jobs", "list", "--oldest-first", "--limit", "0", "--json")
	if diff := cmp.Diff(s.ids, listed(all)); diff != "" || notes != "" {
		t.Fatalf("listed (-want +got):\n%s\n%s", diff, notes)
	}
	part, notes := s.lines(0, "jobs", "list", "--oldest-first", "--limit", "1010", "--json")
	_, after, found := strings.Cut(strings.TrimSpace(notes), "--after ")
	if !found {
		t.Fatalf("no way to go on: %q", notes)
	}
	rest, _ := s.lines(0, "jobs", "list", "--oldest-first", "--limit", "0", "--json", "--after", after)
	if diff := cmp.Diff(s.ids, append(listed(part), listed(rest)...)); diff != "" {
		t.Fatalf("listed in two parts (-want +got):\n%s", diff)
	}
	some, notes := s.lines(0, "jobs", "cancel", "--kind", "charge-card", "--limit", "250", "--yes", "--json")
	if diff := cmp.Diff(s.ids[:250], listed(some)); diff != "" || !strings.Contains(notes, "cancel: 250 done") {
		t.Fatalf("cancelled (-want +got):\n%s\n%s", diff, notes)
	}
	rested, notes := s.lines(0, "jobs", "cancel", "--kind", "charge-card", "--limit", "0", "--yes", "--json")
	if diff := cmp.Diff(s.ids[250:], listed(rested)); diff != "" || !strings.Contains(notes, "cancel: 900 done") {
		t.Fatalf("cancelled in the end (-want +got):\n%s\n%s", diff, notes)
	}
}

// TestAmendLeavesAloneWhatHasGoneOn: between the search and the action a job was
// requeued and is active again; nothing may happen to it.
func TestAmendLeavesAloneWhatHasGoneOn(t *testing.T) {
	s := newShelf(t, 2)
	if _, err := s.client.AmendJob(t.Context(), s.ids[1], nexjob.Action{Act: nexjob.ActCancel}); err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	a := &amendment{do: nexjob.Action{Act: nexjob.ActRequeue}}
	n := record.NewChanges(a.do.Act, view.Printer{Out: &out, JSON: true}, &notes)
	q := nexjob.Query{States: []nexjob.State{nexjob.Cancelled}}
	selected := make([]record.Change, len(s.ids))
	for i, id := range s.ids {
		selected[i] = wouldBe(id, "", nexjob.Cancelled)
	}
	if err := a.stepFound(t.Context(), s.client, q, selected, n); err != nil {
		t.Fatal(err)
	}
	if err := n.End(t.Context()); err != nil || strings.TrimSpace(notes.String()) != "requeue: 1 done, 1 skipped" {
		t.Errorf("%v, %s", err, notes.String())
	}
	if lines := strings.Split(out.String(), "\n"); !strings.Contains(lines[0], `"answer":"skipped"`) {
		t.Errorf("answers %s", out.String())
	}
}
