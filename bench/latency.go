package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/sqlite"
)

const (
	pace  = 20 * time.Millisecond  // between two enqueues
	alike = 200 * time.Microsecond // a difference nobody could tell
)

// latency is the time from the enqueue's return to the handler's start in the same
// process, at a calm pace. The runs of a side are pooled. A handler that starts
// before the enqueue has returned waited for nothing.
func (b *bench) latency(ctx context.Context) error {
	sides := b.with([]side{
		{ours, openOurs}, {"backlite", openBacklite}, {"goqite", openGoqite}, {"river", openRiverPlain},
	})
	for _, m := range []struct {
		mode sqlite.Synchronous
		jobs int
	}{{sqlite.Full, b.paced}, {sqlite.Normal, b.pacedNormal}} {
		waits := make(map[string][]time.Duration)
		run := func(ctx context.Context, name string, q queue) (gauge.Reading, error) {
			run, spent, err := paced(ctx, q, b.primer, m.jobs)
			waits[name] = append(waits[name], run...)
			return gauge.Reading{Value: millis(gauge.Quantile(run, 0.5)), CPU: spent}, err
		}
		title := "latency" + suffix(m.mode)
		fmt.Fprintf(b.progress, "%s takes about %v\n", title, time.Duration(b.runs*len(sides)*m.jobs)*pace)
		all, err := b.alternate(ctx, title, b.runs, m.mode, sides, run)
		if err != nil {
			return err
		}
		for _, peer := range names(sides[1:]) {
			for _, of := range []struct {
				name string
				q    float64
			}{{"p50", 0.5}, {"p99", 0.99}} {
				l := waited(title, of.name, gauge.Quantile(waits[ours], of.q), gauge.Quantile(waits[peer], of.q))
				l.Peer, l.Runs = peer, b.runs
				if err := b.emit(l); err != nil {
					return err
				}
			}
		}
		if err := b.compareCPU(title, all, names(sides[1:])); err != nil {
			return err
		}
	}
	return nil
}

func waited(name, of string, our, their time.Duration) line {
	l := line{Name: name, Of: of, Ours: millis(our), Theirs: millis(their), Unit: "ms"}
	l.Ratio = l.Theirs / l.Ours
	if (our - their).Abs() < alike {
		l.Equal, l.Ratio = true, 1
	}
	return l
}

// paced enqueues jobs one by one while the worker is idle, and answers how long each
// waited and the CPU of each. Those of the primer do not count.
func paced(ctx context.Context, q queue, primer, jobs int) (waits []time.Duration, spent float64, err error) {
	entered := make([]time.Time, primer+jobs)
	returned := make([]time.Time, primer+jobs)
	var count atomic.Int64
	all := make(chan struct{})
	stop, err := q.work(ctx, slots, func(o order) {
		entered[o.Number] = time.Now()
		if count.Add(1) == int64(len(entered)) {
			close(all)
		}
	})
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var w gauge.Watch
	for i, o := range orders(0, len(returned)) {
		if i == primer {
			if w, err = gauge.Start(); err != nil {
				return nil, 0, err
			}
		}
		if err := q.add(ctx, o); err != nil {
			return nil, 0, err
		}
		returned[i] = time.Now()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	r, err := w.Rate(int64(jobs))
	for i := primer; i < len(entered); i++ {
		waits = append(waits, max(entered[i].Sub(returned[i]), time.Microsecond))
	}
	return waits, r.CPU, err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
