package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/bench/internal/gauge"
)

// tiny sizes show that every bench still fits its peers.
func tiny() sizes {
	return sizes{
		rounds: 1, timed: 5 * time.Millisecond, batch: rowsAtOnce,
		ourJobs: 100, theirJobs: 20,
		runs: 1, paced: 2, pacedNormal: 1, primer: 1,
		deep: 100, flat: 50, claims: 50,
	}
}

// TestBenches runs all of them, so that they cannot rot, and checks the names that
// others read.
func TestBenches(t *testing.T) {
	var out bytes.Buffer
	b := &bench{sizes: tiny(), dir: t.TempDir(), progress: io.Discard, emit: inLines(&out)}
	if err := b.all(t.Context(), benches()); err != nil {
		t.Fatal(err)
	}
	got := make(map[string][]string)
	for dec := json.NewDecoder(&out); ; {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if l.Ours <= 0 || l.Theirs <= 0 || l.Ratio <= 0 {
			t.Errorf("no figure: %+v", l)
		}
		if !strings.HasPrefix(l.Name, "info-") && !strings.HasSuffix(l.Name, "-normal") {
			got[l.Name] = append(got[l.Name], strings.TrimPrefix(l.Of+" "+l.Peer, " "))
		}
	}
	want := map[string][]string{
		"enqueue16": {"backlite", "goqite", "river"},
		"batch1000": {"raw", "backlite", "river"},
		"endtoend":  {"backlite", "goqite", "river"},
		"latency":   {"p50 backlite", "p99 backlite", "p50 goqite", "p99 goqite", "p50 river", "p99 river"},
		"flat1m":    {"10k waiting"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines that count (-want +got):\n%s", diff)
	}
}

// TestRawWritesWhatWeDo keeps the peer raw from leaving out rows: its tables hold as
// many as ours do, but for the keys.
func TestRawWritesWhatWeDo(t *testing.T) {
	rows := func(s side) map[string]int {
		counts := make(map[string]int)
		b := &bench{dir: t.TempDir()}
		_, err := b.once(t.Context(), s, 0, func(ctx context.Context, _ string, q queue) (gauge.Reading, error) {
			if err := q.addMany(ctx, orders(1, 100)); err != nil {
				return gauge.Reading{}, err
			}
			return gauge.Reading{}, tally(ctx, q, counts)
		})
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	mine, theirs := rows(side{ours, openOurs}), rows(side{"raw", openRaw})
	for _, table := range []string{"nexjob_keys", "nexjob_meta", "nexjob_migrations", "nexjob_entries"} {
		delete(mine, table)
		delete(theirs, table)
	}
	for table, n := range mine { // raw has the example's rows too
		if n > 0 {
			mine[table]++
		}
	}
	if diff := cmp.Diff(mine, theirs); diff != "" {
		t.Errorf("rows in each table (-ours +raw):\n%s", diff)
	}
}

func tally(ctx context.Context, q queue, counts map[string]int) error {
	var db *sql.DB
	switch q := q.(type) {
	case *our:
		db = q.store.DB()
	case *raw:
		db = q.db
	}
	tables, err := column(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'nexjob%'")
	for _, table := range tables {
		if err == nil {
			counts[table], err = number(ctx, db, "SELECT count(*) FROM "+table)
		}
	}
	return err
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
		{[]string{"-engine", "redis"}, "-engine redis: the engine that can be measured is sqlite"},
		{[]string{"-run", "enqueue"}, "-run enqueue: the benches are enqueue16"},
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
	chosen, err := choose("latency,flat1m")
	if err != nil || !slices.Equal([]string{chosen[0].name, chosen[1].name}, []string{"latency", "flat1m"}) {
		t.Error(chosen, err)
	}
}
