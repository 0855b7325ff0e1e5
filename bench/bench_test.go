package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/bench/internal/queues"
)

// tiny sizes show that every bench still fits its peers.
func tiny() sizes {
	return sizes{
		rounds: 1, timed: 5 * time.Millisecond, batch: queues.RawRows,
		held: 10, ourJobs: 100, theirJobs: 20, finished: 20,
		runs: 1, paced: 2, pacedInfo: 1, primer: 1,
		watched: 1, later: 5, horizon: 50 * time.Millisecond,
		deep: 100, flat: 50, claims: 50, dead: 100,
	}
}

// TestBenches runs all of them, so that they cannot rot, and checks the names that
// others read.
func TestBenches(t *testing.T) {
	tests := map[string]map[string][]string{
		"sqlite": {
			"enqueue16": {"backlite", "goqite", "river"},
			"batch1000": {"raw", "backlite", "river"},
			"endtoend":  {"backlite", "goqite", "river"},
			"latency":   {"p50 backlite", "p99 backlite", "p50 goqite", "p99 goqite", "p50 river", "p99 river"},
			"flat1m":    {"10k waiting"},
		},
		"postgres": {
			"enqueue1":        {"river"},
			"enqueue16":       {"river"},
			"enqueue256":      {"river"},
			"batch1000":       {"river"},
			"duplicate1":      {"river"},
			"duplicate16":     {"river"},
			"endtoend":        {"100 river", "2000 river"},
			"live":            {"warm river", "empty river"},
			"latency":         {"p50 river", "p99 river"},
			"latency-default": {"p50 river", "p99 river"},
			"recorded":        {"p50 river"},
			"late":            {"p99 river", "p95 river"},
			"snapshot":        {"self"},
			"flat10m":         {"self"},
		},
	}
	for engine, want := range tests {
		t.Run(engine, func(t *testing.T) {
			var out bytes.Buffer
			b := &bench{sizes: tiny(), progress: io.Discard, emit: inLines(&out)}
			if err := b.choose(t.Context(), engine, reachable(t), ""); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(b.all(t.Context(), suites()[engine].benches), b.leave()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, counted(t, &out)); diff != "" {
				t.Errorf("lines that count (-want +got):\n%s", diff)
			}
		})
	}
}

// reachable is a folder that the users of private servers reach, which t.TempDir keeps
// from them.
func reachable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nexjob-bench-test-") //nolint:usetesting // its parents are closed to others
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// counted are the lines that count, by name: what each is about, and the peer.
func counted(t *testing.T, out io.Reader) map[string][]string {
	t.Helper()
	got := make(map[string][]string)
	for dec := json.NewDecoder(out); ; {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return got
		} else if err != nil {
			t.Fatal(err)
		}
		// So little work costs a server less than what the system counts in, and CPU
		// lines are no rates.
		if !strings.HasPrefix(l.Name, "info-server-cpu-") && (l.Ours <= 0 || l.Theirs <= 0 || l.Ratio <= 0) {
			t.Errorf("no figure: %+v", l)
		}
		if !strings.HasPrefix(l.Name, "info-") && !strings.HasSuffix(l.Name, "-normal") {
			got[l.Name] = append(got[l.Name], strings.TrimPrefix(l.Of+" "+l.Peer, " "))
		}
	}
}

func TestWaited(t *testing.T) {
	tests := []struct {
		name       string
		our, their time.Duration
		ratio      float64
		equal      bool
	}{
		{"twice as fast", time.Millisecond, 2 * time.Millisecond, 2, false},
		{"half as fast", 2 * time.Millisecond, time.Millisecond, 0.5, false},
		{"a little slower", 500 * time.Microsecond, 310 * time.Microsecond, 1, true},
		{"a little faster", 310 * time.Microsecond, 500 * time.Microsecond, 1, true},
		{"just slower", 400 * time.Microsecond, 200 * time.Microsecond, 0.5, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := waited("latency", "p50", tt.our, tt.their)
			if l.Ratio != tt.ratio || l.Equal != tt.equal {
				t.Errorf("ratio %v, equal %v; want %v, %v", l.Ratio, l.Equal, tt.ratio, tt.equal)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	tests := []struct {
		args   []string
		stderr string
	}{
		{[]string{"-engine", "redis"}, "-engine redis: the engines that can be measured are sqlite and postgres"},
		{[]string{"-run", "enqueue"}, "-run enqueue: the benches are enqueue16"},
		{[]string{"-run", "enqueue1"}, "-run enqueue1: the benches are enqueue16"},
		{[]string{"-engine", "postgres", "-run", "flat1m"}, "-run flat1m: the benches are enqueue1, "},
		{[]string{"-engine", "postgres", "-peers", "goqite"}, "-peers goqite: the peers on postgres are river, asynq"},
		{[]string{"-rounds", "0"}, "-rounds 0: at least 1"},
		{[]string{"enqueue16"}, `"enqueue16": no arguments`},
		{[]string{"-dir", filepath.Join(t.TempDir(), "none")}, "none: no such file or directory"},
		{[]string{"-nope"}, "not defined: -nope"},
	}
	for _, tt := range tests {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), tt.args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%q: code %d, %s", tt.args, code, &stderr)
		}
	}
	chosen, err := suites()["sqlite"].choose("latency,flat1m")
	if err != nil || !slices.Equal([]string{chosen[0].name, chosen[1].name}, []string{"latency", "flat1m"}) {
		t.Error(chosen, err)
	}
}
