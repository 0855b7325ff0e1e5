package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
	"github.com/nexjob/nexjob/sqlite"
)

const (
	grip    = 100   // jobs of one claim on a file, and of the settlement that follows
	handful = 500   // the same on a server
	piece   = 5_000 // jobs worked at most before the place is filled up again
)

// flat is how fast jobs are claimed and settled at the storage when very many wait,
// compared with ten thousand: what waits should cost nothing. Both places are worked in
// turns, and filled up to their depth before each turn.
type flat struct {
	name, peer string
	open       func(context.Context, queues.Place) (queues.Queue, error)
	mode       sqlite.Synchronous
	grip       int
	fillers    int // goroutines that fill
}

// flat1m has a million waiting in a file.
func (b *bench) flat1m(ctx context.Context) error {
	for _, mode := range []sqlite.Synchronous{sqlite.Full, sqlite.Normal} {
		f := flat{
			name: "flat1m" + suffix(mode), peer: "10k waiting",
			open: queues.OpenSQLite, mode: mode, grip: grip, fillers: 1,
		}
		if err := b.flat(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// flat10m has ten millions waiting on a server.
func (b *bench) flat10m(ctx context.Context) error {
	return b.flat(ctx, flat{name: "flat10m", peer: self, open: queues.OpenPostgres, grip: handful, fillers: 4})
}

func (b *bench) flat(ctx context.Context, f flat) (err error) {
	lakes := []*lake{{name: queues.Ours, depth: b.deep}, {name: f.peer, depth: b.sizes.flat}}
	defer func() {
		for _, l := range lakes {
			err = errors.Join(err, l.leave())
		}
	}()
	for _, l := range lakes {
		if err := l.open(ctx, b, f); err != nil {
			return err
		}
	}
	all := make(readings)
	for round := range b.rounds {
		turn, err := b.turns(ctx, lakes)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for _, l := range lakes {
			all[l.name] = append(all[l.name], turn[l])
			fmt.Fprintf(b.progress, "%s %d/%d with %d waiting: %s\n", f.name, round+1, b.rounds, l.depth, spoken(turn[l]))
		}
	}
	return b.compare(contest{name: f.name, unit: "jobs/s", rounds: b.rounds, sides: []queues.Side{{}, {Name: f.peer}}}, all)
}

// lake is a place of ours and how many jobs shall wait in it.
type lake struct {
	*queues.Nexjob
	flat
	cpu     func() (time.Duration, error)
	remove  func() error
	name    string
	depth   int
	waiting int
	next    int64 // order
}

// open fills a fresh place.
func (l *lake) open(ctx context.Context, b *bench, f flat) error {
	at, remove, err := b.ground.Fresh(ctx)
	if err != nil {
		return err
	}
	l.flat, l.remove, l.cpu = f, remove, b.ground.CPU
	q, err := f.open(ctx, queues.Place{At: at, Mode: f.mode})
	if err != nil {
		return err
	}
	var ok bool
	if l.Nexjob, ok = q.(*queues.Nexjob); !ok {
		return errors.Join(errors.ErrUnsupported, q.Close())
	}
	fmt.Fprintf(b.progress, "%s fills a place with %d jobs\n", f.name, l.depth)
	if err := l.fill(ctx, b.batch); err != nil || b.server == nil {
		return err
	}
	return b.server.Tidy(ctx, at)
}

// leave closes and removes what was opened.
func (l *lake) leave() error {
	var errs []error
	if l.Nexjob != nil {
		errs = append(errs, l.Close())
	}
	if l.remove != nil {
		errs = append(errs, l.remove())
	}
	return errors.Join(errs...)
}

// turns works both places piece by piece, in turn, and answers the rate of each.
func (b *bench) turns(ctx context.Context, lakes []*lake) (map[*lake]gauge.Reading, error) {
	sum := make(map[*lake]gauge.Reading) // seconds and CPU
	for done := 0; done < b.claims; {
		n := min(piece, b.claims-done, b.sizes.flat/2)
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
			s.Server += r.Server * float64(n)
			sum[l] = s
		}
		done += n
	}
	all := float64(b.claims)
	for l, s := range sum {
		sum[l] = gauge.Reading{Value: all / s.Value, CPU: s.CPU / all, Server: s.Server / all}
	}
	return sum, nil
}

// fill adds what is missing, and moves it out of the log of a file, so that the next
// piece pays only for itself.
func (l *lake) fill(ctx context.Context, batch int) error {
	missing := l.depth - l.waiting
	var group sync.WaitGroup
	errs := make([]error, l.fillers)
	for i := range l.fillers {
		group.Go(func() {
			for from := i * batch; from < missing && errs[i] == nil; from += l.fillers * batch {
				errs[i] = l.AddMany(ctx, queues.Orders(l.next+int64(from), min(batch, missing-from)))
			}
		})
	}
	group.Wait()
	l.waiting += missing
	l.next += int64(missing)
	return errors.Join(errors.Join(errs...), l.Checkpoint(ctx))
}

// take claims and settles n jobs.
func (l *lake) take(ctx context.Context, n int) (gauge.Reading, error) {
	w, err := gauge.Start(l.cpu)
	if err != nil {
		return gauge.Reading{}, err
	}
	if err := l.Take(ctx, n, l.grip); err != nil {
		return gauge.Reading{}, err
	}
	l.waiting -= n
	return w.Rate(int64(n))
}
