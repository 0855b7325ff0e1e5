package worker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// scheduled enqueues n jobs that fall due at odd milliseconds of so many seconds.
func (b *bench) scheduled(n, seconds int) {
	b.Helper()
	jobs := make([]nexjob.NewJob, n)
	for i := range jobs {
		ms := rand.N(seconds*500)*2 + 1
		jobs[i] = kindA.New(args{ms}, nexjob.Options{Delay: time.Duration(ms) * time.Millisecond})
		jobs[i].ID = nexjob.NewID()
	}
	if _, err := b.store.Store.Enqueue(b.Context(), time.Now(), jobs); err != nil {
		b.Fatal(err)
	}
}

// bellless is a storage that forecasts and tells nobody of new work.
type bellless struct {
	nexjob.Storage
	nexjob.Forecaster
}

// Jobs start on time, whoever enqueued them, however rare polls are and however many
// workers wait for them. A lone worker is late only where it may not ask yet.
func TestJobsFallDueBetweenPolls(t *testing.T) {
	for workers, most := range map[int]time.Duration{1: 5 * time.Millisecond, 5: 25 * time.Millisecond} {
		bubble(t, func(b *bench) {
			var mu sync.Mutex
			late := time.Duration(0)
			ran := 0
			b.scheduled(300, 3)
			for range workers {
				w := worker.New(bellless{b.store, b.store}, worker.Options{Poll: time.Hour, Lease: 24 * time.Hour, Logger: quiet()})
				worker.Handle(w, kindA, func(_ context.Context, _ *worker.Run, a args) error {
					mu.Lock()
					defer mu.Unlock()
					ran++
					late = max(late, b.at()-time.Duration(a.N)*time.Millisecond)
					return nil
				})
				b.start(w)
			}
			b.sleep(4 * time.Second)
			if ran != 300 || late > most {
				t.Errorf("%d workers: %d of 300 jobs ran, up to %s late", workers, ran, late)
			}
			if n := b.store.count("claim"); n > 400+250*(workers-1) {
				t.Errorf("%d workers: %d claims for 300 jobs", workers, n)
			}
		})
	}
}

// Jobs that are further apart than the engine may be asked start at the very moment.
func TestJobsStartToTheMillisecond(t *testing.T) {
	bubble(t, func(b *bench) {
		for i := range 100 {
			ms := i*17 + 1
			b.add(kindA.New(args{ms}, nexjob.Options{Delay: time.Duration(ms) * time.Millisecond}))
		}
		w, _ := b.run(worker.Options{Poll: time.Hour, Lease: 24 * time.Hour}, func(_ context.Context, _ *worker.Run, a args) error {
			if late := b.at() - time.Duration(a.N)*time.Millisecond; late != 0 {
				t.Errorf("started %s late", late)
			}
			return nil
		})
		b.sleep(2 * time.Second)
		if h := w.Health(); h.Succeeded != 100 {
			t.Errorf("health %+v", h)
		}
	})
}

// blind is a storage that does not forecast, or does it badly.
type blind struct {
	nexjob.Storage
	asked atomic.Int64
}

type mistaken struct{ *blind }

func (m mistaken) NextDue(context.Context, time.Time, []string, []string) (time.Time, error) {
	m.asked.Add(1)
	return time.Time{}, errors.New("no such index")
}

// Without a forecast, or with one that fails, the scout and polls find what falls due.
func TestWithoutForecast(t *testing.T) {
	for name, fails := range map[string]bool{"the engine has none": false, "it fails": true} {
		bubble(t, func(b *bench) {
			engine := &blind{Storage: b.store}
			var store nexjob.Storage = engine
			if fails {
				store = mistaken{engine}
			}
			w := worker.New(store, worker.Options{Logger: quiet()})
			var ran atomic.Int64
			worker.Handle(w, kindA, func(context.Context, *worker.Run, args) error { ran.Add(1); return nil })
			b.scheduled(300, 3)
			b.start(w)
			b.sleep(6 * time.Second)
			if h := w.Health(); ran.Load() != 300 || (h.StorageErrors > 0) != fails || (engine.asked.Load() > 0) != fails {
				t.Errorf("%s: %d jobs ran, asked %d times, health %+v", name, ran.Load(), engine.asked.Load(), h)
			}
		})
	}
}
