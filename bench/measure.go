package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/sqlite"
)

// sizes are how much each bench does.
type sizes struct {
	rounds      int           // of every side; the median counts
	warm, timed time.Duration // of enqueue16 and batch1000, in each round
	batch       int           // jobs of one step of many
	ourJobs     int           // of endtoend
	theirJobs   int           // fewer, so that the slowest peer ends; what is waiting costs no peer anything
	runs, paced int           // of latency: runs, and jobs of each
	pacedNormal int           // the same at NORMAL, for information
	primer      int           // of latency: jobs before those that count
	deep, flat  int           // of flat1m: waiting jobs
	claims      int           // of flat1m: jobs worked in each round
}

func fullSizes(rounds int) sizes {
	return sizes{
		rounds: rounds, warm: 300 * time.Millisecond, timed: 3 * time.Second, batch: 1_000,
		ourJobs: 100_000, theirJobs: 5_000,
		runs: 5, paced: 2_000, pacedNormal: 400, primer: 50,
		deep: 1_000_000, flat: 10_000, claims: 20_000,
	}
}

// quickSizes show that everything runs; their figures mean nothing.
func quickSizes() sizes {
	return sizes{
		rounds: 1, warm: 10 * time.Millisecond, timed: 50 * time.Millisecond, batch: 1_000,
		ourJobs: 2_000, theirJobs: 100,
		runs: 1, paced: 10, pacedNormal: 5, primer: 5,
		deep: 4_000, flat: 2_000, claims: 1_000,
	}
}

// readings are those of all sides, in order of the rounds.
type readings map[string][]gauge.Reading

// bench is one run of the command: where it measures, how much, and where the
// lines go.
type bench struct {
	sizes
	dir      string
	peers    string // names of those to measure beside, with commas; "": all
	progress io.Writer
	emit     func(line) error
}

// alternate runs every side once in each round, each time on a fresh file, so that
// what disturbs the machine for a while disturbs all of them.
func (b *bench) alternate(
	ctx context.Context, title string, rounds int, mode sqlite.Synchronous, sides []side,
	run func(context.Context, string, queue) (gauge.Reading, error),
) (readings, error) {
	all := make(readings)
	for round := range rounds {
		for _, s := range sides {
			r, err := b.once(ctx, s, mode, run)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", title, s.name, err)
			}
			all[s.name] = append(all[s.name], r)
			fmt.Fprintf(b.progress, "%s %d/%d %s: %.4g, %.3g µs of CPU\n", title, round+1, rounds, s.name, r.Value, r.CPU)
		}
	}
	return all, nil
}

// once runs one side on a fresh file, which it removes.
func (b *bench) once(
	ctx context.Context, s side, mode sqlite.Synchronous,
	run func(context.Context, string, queue) (gauge.Reading, error),
) (r gauge.Reading, err error) {
	file, remove, err := b.fresh()
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	q, err := s.open(ctx, file, mode)
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	return run(ctx, s.name, q)
}

// fresh names a file that is not there, in a folder that remove removes.
func (b *bench) fresh() (file string, remove func() error, err error) {
	dir, err := os.MkdirTemp(b.dir, "nexjob-bench-")
	return filepath.Join(dir, "bench.db"), func() error { return os.RemoveAll(dir) }, err
}
