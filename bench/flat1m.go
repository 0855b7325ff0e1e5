package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/sqlite"
)

const (
	grip  = 100   // jobs of one claim, and of the settlement that follows
	piece = 5_000 // jobs worked at most before the file is filled up again
)

// flat1m is how fast jobs are claimed and settled at the storage when a million
// wait, compared with ten thousand: what waits should cost nothing. Both files are
// worked in turns, and filled up to their depth before each turn.
func (b *bench) flat1m(ctx context.Context) error {
	for _, mode := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		if err := b.flatIn(ctx, mode); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) flatIn(ctx context.Context, mode sqlite.Synchronous) (err error) {
	const shallow = "10k waiting"
	title := "flat1m" + suffix(mode)
	lakes := []*lake{{name: ours, depth: b.deep}, {name: shallow, depth: b.flat}}
	defer func() {
		for _, l := range lakes {
			err = errors.Join(err, l.leave())
		}
	}()
	for _, l := range lakes {
		if err := l.open(ctx, b, mode); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.progress, "%s fills a file with %d jobs\n", title, b.deep)
	all := make(readings)
	for round := range b.rounds {
		turn, err := b.turns(ctx, lakes)
		if err != nil {
			return fmt.Errorf("%s: %w", title, err)
		}
		for _, l := range lakes {
			r := turn[l]
			all[l.name] = append(all[l.name], r)
			fmt.Fprintf(b.progress, "%s %d/%d with %d waiting: %.4g, %.3g µs of CPU\n",
				title, round+1, b.rounds, l.depth, r.Value, r.CPU)
		}
	}
	return b.compare(title, "jobs/s", all, []string{shallow})
}

// lake is a file of ours and how many jobs shall wait in it.
type lake struct {
	*our
	remove  func() error
	name    string
	depth   int
	waiting int
	next    int64 // order
}

// open begins with a fresh file.
func (l *lake) open(ctx context.Context, b *bench, mode sqlite.Synchronous) (err error) {
	var file string
	if file, l.remove, err = b.fresh(); err == nil {
		l.our, err = openOur(ctx, file, mode)
	}
	return err
}

// leave closes and removes what was opened.
func (l *lake) leave() error {
	var errs []error
	if l.our != nil {
		errs = append(errs, l.close())
	}
	if l.remove != nil {
		errs = append(errs, l.remove())
	}
	return errors.Join(errs...)
}

// turns works both files piece by piece, in turn, and answers the rate of each.
func (b *bench) turns(ctx context.Context, lakes []*lake) (map[*lake]gauge.Reading, error) {
	sum := make(map[*lake]gauge.Reading) // seconds and CPU
	for done := 0; done < b.claims; {
		n := min(piece, b.claims-done, b.flat/2)
		for _, l := range lakes {
			if err := l.fill(ctx, b.batch); err != nil {
				return nil, err
			}
			r, err := l.take(ctx, n)
			if err != nil {
				return nil, err
			}
			s := sum[l]
			s.Value += float64(n) / r.Value
			s.CPU += r.CPU * float64(n)
			sum[l] = s
		}
		done += n
	}
	for l, s := range sum {
		sum[l] = gauge.Reading{Value: float64(b.claims) / s.Value, CPU: s.CPU / float64(b.claims)}
	}
	return sum, nil
}

// fill adds what is missing, and moves it out of the log, so that the next piece
// pays only for itself.
func (l *lake) fill(ctx context.Context, batch int) error {
	for l.waiting < l.depth {
		n := min(batch, l.depth-l.waiting)
		if err := l.addMany(ctx, orders(l.next, n)); err != nil {
			return err
		}
		l.waiting += n
		l.next += int64(n)
	}
	_, err := l.store.DB().ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)")
	return err
}

// take claims and settles n jobs.
func (l *lake) take(ctx context.Context, n int) (gauge.Reading, error) {
	w, err := gauge.Start()
	if err != nil {
		return gauge.Reading{}, err
	}
	for done := 0; done < n; {
		claimed, err := l.store.Claim(ctx, time.Now(), nexjob.ClaimRequest{
			Worker: "bench", N: min(grip, n-done), Lease: time.Minute,
			Queues: []string{nexjob.DefaultQueue}, Kinds: []string{charge.Name()},
		})
		if err != nil {
			return gauge.Reading{}, err
		}
		if len(claimed) == 0 {
			return gauge.Reading{}, errors.New("nothing to claim")
		}
		ends := make([]nexjob.Settlement, len(claimed))
		for i := range claimed {
			ends[i] = nexjob.Settlement{Lease: claimed[i].Job.Lease(), As: nexjob.EndSucceeded}
		}
		settled, err := l.store.Settle(ctx, time.Now(), ends)
		if err != nil {
			return gauge.Reading{}, err
		}
		for _, s := range settled {
			if s.Err != nil {
				return gauge.Reading{}, s.Err
			}
		}
		done += len(claimed)
	}
	l.waiting -= n
	return w.Rate(int64(n))
}
