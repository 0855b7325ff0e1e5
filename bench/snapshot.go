package main

import (
	"context"
	"errors"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// snapshot is how fast jobs are claimed and settled at the storage after many others
// were, while another session holds a snapshot that is older than all of that: what has
// died cannot be cleaned away. It is compared with the same without that session.
func (b *bench) snapshot(ctx context.Context) error {
	return b.rates(ctx, contest{
		name: "snapshot",
		sides: []queues.Side{
			{Name: queues.Ours, Open: queues.OpenPostgres},
			{Name: self, Open: queues.OpenPostgres},
		},
		run: func(ctx context.Context, t turn) (gauge.Reading, error) { return b.aged(ctx, t, t.name == queues.Ours) },
	})
}

func (b *bench) aged(ctx context.Context, t turn, held bool) (r gauge.Reading, err error) {
	q, ok := t.Queue.(*queues.Nexjob)
	if !ok {
		return r, errors.ErrUnsupported
	}
	if err := b.fill(ctx, q, 1, b.dead+b.claims); err != nil {
		return r, err
	}
	if err := b.server.Tidy(ctx, t.at); err != nil {
		return r, err
	}
	if held {
		release, err := b.server.Hold(ctx, t.at)
		if err != nil {
			return r, err
		}
		defer release()
	}
	if err := q.Take(ctx, b.dead, handful); err != nil {
		return r, err
	}
	w, err := t.watch()
	if err != nil {
		return r, err
	}
	if err := q.Take(ctx, b.claims, handful); err != nil {
		return r, err
	}
	return w.Rate(int64(b.claims))
}
