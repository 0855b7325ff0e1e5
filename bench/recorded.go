package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// breath is the longest pause between two jobs of recorded, as long as River's longest
// wait for more ends to write.
const breath = 250 * time.Millisecond

// recorded is the time from the handler's return until another connection can read that
// the job succeeded. Jobs go one by one, and pauses of all lengths lie between them:
// else a side with a timer would meet it at the same moment each time.
func (b *bench) recorded(ctx context.Context) error {
	c := contest{name: "recorded", rounds: b.rounds, sides: b.beside(queues.RiverPrompt, false)}
	return b.waits(ctx, c, []string{"p50"}, b.written)
}

func (b *bench) written(ctx context.Context, t turn) (waits []time.Duration, r gauge.Reading, err error) {
	q, ok := t.Queue.(queues.Witness)
	if !ok {
		return nil, r, errors.ErrUnsupported
	}
	type handled struct {
		id any
		at time.Time
	}
	returned := make(chan handled, 1)
	stop, err := q.Work(ctx, slots, func(_ queues.Order, id any) { returned <- handled{id, time.Now()} })
	if err != nil {
		return nil, r, err
	}
	defer func() {
		if stopped := stop(); err == nil {
			err = stopped
		}
	}()
	pauses := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // G404: pauses, the same for all sides
	w, err := t.watch()
	if err != nil {
		return nil, r, err
	}
	for _, o := range queues.Orders(1, b.watched) {
		pause := time.NewTimer(time.Duration(pauses.Int64N(int64(breath))))
		if err := wait(ctx, pause.C); err != nil {
			return nil, r, err
		}
		if err := q.Add(ctx, o); err != nil {
			return nil, r, err
		}
		var job handled
		select {
		case job = <-returned:
		case <-ctx.Done():
			return nil, r, ctx.Err()
		}
		for written := false; !written; {
			if written, err = q.Succeeded(ctx, job.id); err != nil {
				return nil, r, err
			}
		}
		waits = append(waits, time.Since(job.at))
	}
	r, err = w.Rate(int64(b.watched))
	return waits, r, err
}
