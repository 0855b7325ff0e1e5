package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/ground"
	"github.com/nexjob/nexjob/bench/internal/queues"
	"github.com/nexjob/nexjob/sqlite"
)

// readings are those of all sides, in order of the rounds.
type readings map[string][]gauge.Reading

// bench is one run of the command: where it measures, how much, and where the
// lines go.
type bench struct {
	sizes
	ground   ground.Ground
	server   *ground.Postgres // the ground, where it is a server of PostgreSQL
	redis    ground.Ground    // of asynq alone
	peers    string           // names of those to measure beside, with commas; "": all
	progress io.Writer
	emit     func(line) error
}

// turn is one side in one round.
type turn struct {
	queues.Queue
	name   string
	at     string
	ground ground.Ground
}

// watch starts to measure this side.
func (t turn) watch() (gauge.Watch, error) { return gauge.Start(t.ground.CPU) }

// contest is a bench in which several sides do the same.
type contest struct {
	name, of string // of its lines
	unit     string
	mode     sqlite.Synchronous
	rounds   int
	sides    []queues.Side // ours first
	run      func(context.Context, turn) (gauge.Reading, error)
}

// rates measures a contest whose readings are rates, and emits its lines.
func (b *bench) rates(ctx context.Context, c contest) error {
	c.rounds = b.rounds
	if c.unit == "" {
		c.unit = "jobs/s"
	}
	all, err := b.alternate(ctx, c)
	if err != nil {
		return err
	}
	return b.compare(c, all)
}

// bothModes measures rates on files with durable commits, which is the line that
// counts, and again at NORMAL for information.
func (b *bench) bothModes(ctx context.Context, c contest) error {
	name := c.name
	for _, mode := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		c.mode, c.name = mode, name+suffix(mode)
		if err := b.rates(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func suffix(mode sqlite.Synchronous) string {
	if mode == sqlite.Normal {
		return "-normal"
	}
	return ""
}

// alternate runs every side once in each round, each time in a fresh place, so that
// what disturbs the machine for a while disturbs all of them.
func (b *bench) alternate(ctx context.Context, c contest) (readings, error) {
	all := make(readings)
	for round := range c.rounds {
		for _, s := range c.sides {
			r, err := b.once(ctx, s, c.mode, c.run)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", c.title(), s.Name, err)
			}
			all[s.Name] = append(all[s.Name], r)
			fmt.Fprintf(b.progress, "%s %d/%d %s: %s\n", c.title(), round+1, c.rounds, s.Name, spoken(r))
		}
	}
	return all, nil
}

func (c contest) title() string {
	if c.of == "" {
		return c.name
	}
	return c.name + " " + c.of
}

// spoken is a reading as the progress tells it.
func spoken(r gauge.Reading) string {
	text := fmt.Sprintf("%.4g, %.3g µs of CPU", r.Value, r.CPU)
	if r.Server > 0 {
		text += fmt.Sprintf(", %.3g µs of the server's", r.Server)
	}
	return text
}

// once runs one side in a fresh place, which it removes.
func (b *bench) once(
	ctx context.Context, s queues.Side, mode sqlite.Synchronous,
	run func(context.Context, turn) (gauge.Reading, error),
) (r gauge.Reading, err error) {
	on := b.ground
	if s.Name == asynq {
		on = b.redis
	}
	at, remove, err := on.Fresh(ctx)
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	q, err := s.Open(ctx, queues.Place{At: at, Mode: mode})
	if err != nil {
		return gauge.Reading{}, err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	return run(ctx, turn{Queue: q, name: s.Name, at: at, ground: on})
}

// drained waits until the last ends are written. No side tells when, so it asks.
func drained(ctx context.Context, q queues.Queue) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := q.Left(ctx)
		if err != nil || left == 0 {
			return err
		}
		if err := wait(ctx, ticker.C); err != nil {
			return err
		}
	}
}

// wait waits for a channel to receive or to be closed.
func wait[T any](ctx context.Context, c <-chan T) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
