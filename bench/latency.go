package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
	"github.com/nexjob/nexjob/sqlite"
)

const (
	pace  = 20 * time.Millisecond  // between two enqueues
	alike = 200 * time.Microsecond // a difference nobody could tell
)

// latencyOnFiles measures latency in both modes.
func (b *bench) latencyOnFiles(ctx context.Context, sides []queues.Side) error {
	err := b.latency(ctx, contest{name: "latency", sides: sides}, b.paced)
	if err != nil {
		return err
	}
	return b.latency(ctx, contest{name: "latency" + suffix(sqlite.Normal), mode: sqlite.Normal, sides: sides}, b.pacedInfo)
}

// latency is the time from the enqueue's return to the handler's start in the same
// process, at a calm pace. The runs of a side are pooled. A handler that starts
// before the enqueue has returned waited for nothing.
func (b *bench) latency(ctx context.Context, c contest, jobs int) error {
	fmt.Fprintf(b.progress, "%s takes about %v\n", c.name, time.Duration(b.runs*len(c.sides)*jobs)*pace)
	c.rounds = b.runs
	return b.waits(ctx, c, []string{"p50", "p99"}, func(ctx context.Context, t turn) ([]time.Duration, gauge.Reading, error) {
		return b.calm(ctx, t, jobs)
	})
}

// quantiles by their names.
var quantiles = map[string]float64{"p50": 0.5, "p95": 0.95, "p99": 0.99} //nolint:gochecknoglobals // a table

// waits measures a contest whose runs give waits. Those of all rounds are pooled, and
// there is a line for each of some quantiles.
func (b *bench) waits(
	ctx context.Context, c contest, of []string,
	run func(context.Context, turn) ([]time.Duration, gauge.Reading, error),
) error {
	waits := make(map[string][]time.Duration)
	c.run = func(ctx context.Context, t turn) (gauge.Reading, error) {
		some, r, err := run(ctx, t)
		if err != nil {
			return gauge.Reading{}, err
		}
		waits[t.name] = append(waits[t.name], some...)
		r.Value = millis(gauge.Quantile(some, quantiles[of[0]]))
		return r, nil
	}
	all, err := b.alternate(ctx, c)
	if err != nil {
		return err
	}
	for _, peer := range names(c.sides[1:]) {
		for _, name := range of {
			q := quantiles[name]
			l := waited(lineName(c.name, peer), name, gauge.Quantile(waits[queues.Ours], q), gauge.Quantile(waits[peer], q))
			l.Peer, l.Runs = peer, c.rounds
			if err := b.emit(l); err != nil {
				return err
			}
		}
	}
	return b.compareCPU(c, all)
}

func waited(name, of string, our, their time.Duration) line {
	l := line{Name: name, Of: of, Ours: millis(our), Theirs: millis(their), Unit: "ms"}
	l.Ratio = l.Theirs / l.Ours
	if (our - their).Abs() < alike {
		l.Equal, l.Ratio = true, 1
	}
	return l
}

// calm enqueues jobs one by one while the worker is idle, and answers how long each
// waited and the CPU of each. Those of the primer do not count.
func (b *bench) calm(ctx context.Context, t turn, jobs int) (waits []time.Duration, r gauge.Reading, err error) {
	entered := make([]time.Time, b.primer+jobs)
	returned := make([]time.Time, b.primer+jobs)
	var count atomic.Int64
	all := make(chan struct{})
	stop, err := t.Work(ctx, slots, func(o queues.Order, _ any) {
		entered[o.Number] = time.Now()
		if count.Add(1) == int64(len(entered)) {
			close(all)
		}
	})
	if err != nil {
		return nil, r, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	var w gauge.Watch
	for i, o := range queues.Orders(0, len(returned)) {
		if i == b.primer {
			if w, err = t.watch(); err != nil {
				return nil, r, err
			}
		}
		if err := t.Add(ctx, o); err != nil {
			return nil, r, err
		}
		returned[i] = time.Now()
		if err := wait(ctx, ticker.C); err != nil {
			return nil, r, err
		}
	}
	if err := wait(ctx, all); err != nil {
		return nil, r, err
	}
	r, err = w.Rate(int64(jobs))
	for i := b.primer; i < len(entered); i++ {
		waits = append(waits, max(entered[i].Sub(returned[i]), time.Microsecond))
	}
	return waits, r, err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
