package main

import (
	"context"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/sqlite"
)

// batch1000 is batches by one caller. The peer raw is no queue: it writes the same
// rows into nexjob's own table and tells what the rules about keys cost.
func (b *bench) batch1000(ctx context.Context) error {
	sides := b.with([]side{
		{ours, openOurs}, {"raw", openRaw}, {"backlite", openBacklite}, {"river", openRiverUnique},
	})
	single := []side{{ours, openOurs}, {"raw, row by row", openRawSingle}}
	if err := b.bothModes(ctx, "batch1000", "jobs/s", sides, b.batches); err != nil {
		return err
	}
	return b.inMode(ctx, "info-batch1000-rows", "jobs/s", sqlite.Full, single, b.batches)
}

func (b *bench) batches(ctx context.Context, _ string, q queue) (gauge.Reading, error) {
	next := int64(1)
	one := func() error {
		list := orders(next, b.batch)
		next += int64(b.batch)
		return q.addMany(ctx, list)
	}
	if _, err := together(1, b.warm, one); err != nil {
		return gauge.Reading{}, err
	}
	w, err := gauge.Start()
	if err != nil {
		return gauge.Reading{}, err
	}
	done, err := together(1, b.timed, one)
	if err != nil {
		return gauge.Reading{}, err
	}
	return w.Rate(done * int64(b.batch))
}
