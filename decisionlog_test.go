package nexjob_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
)

// registry is a storage whose puts fail as told.
type registry struct {
	nexjob.Storage
	puts  atomic.Int64
	spoil atomic.Pointer[func(n int64) error] // the error of the nth put, from 1
}

func (r *registry) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	n := r.puts.Add(1)
	if fail := r.spoil.Load(); fail != nil {
		if err := (*fail)(n); err != nil {
			return nil, err
		}
	}
	return r.Storage.Put(ctx, now, puts)
}

// spoilFrom makes puts fail from the nth on; without an error they work again.
func (r *registry) spoilFrom(n int64, err error) {
	fail := func(put int64) error {
		if put < n {
			return nil
		}
		return err
	}
	r.spoil.Store(&fail)
}

func (s *shop) decisions(client *nexjob.Client, key string) nexjob.KeyDecisions {
	s.t.Helper()
	e, err := client.Explain(s.t.Context(), key)
	s.check(err)
	return e.Decisions
}

func (s *shop) stored(key string) []nexjob.Entry {
	s.t.Helper()
	entries, err := s.store.Entries(s.t.Context(), time.Now(), nexjob.DecisionKind(key))
	s.check(err)
	return entries
}

func TestDecisionsAreWrittenWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.enqueue("k", nexjob.Options{})
		if synctest.Wait(); len(s.stored("k")) != 0 {
			t.Error("a created job is no decision")
		}
		for range 30 {
			s.enqueue("k", nexjob.Options{})
		}
		if len(s.stored("k")) != 0 {
			t.Error("an enqueue waited for the decision to be written")
		}
		time.Sleep(1100 * time.Millisecond)
		if n := len(s.stored("k")); n != 1 {
			t.Fatalf("%d entries after a second, want 1", n)
		}
		s.enqueue("k", nexjob.Options{})
		time.Sleep(1100 * time.Millisecond)
		entries := s.stored("k")
		if len(entries) != 1 || entries[0].Version != 2 || !json.Valid(entries[0].Value) {
			t.Errorf("entries %+v", entries)
		}
		got := s.decisions(s.client, "k")
		want := []nexjob.DecisionCount{{Kind: "charge-card", Outcome: nexjob.Existing, Count: 31}}
		if !slices.Equal(got.Counts, want) || len(got.Last) != 20 || got.Last[0].At.Before(got.Last[19].At) {
			t.Errorf("decisions %+v", got)
		}
		time.Sleep(40 * 24 * time.Hour)
		if n := len(s.stored("k")); n != 0 {
			t.Errorf("%d entries are kept for ever", n)
		}
	})
}

func TestDecisionsOfSeveralProcessesAddUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.enqueue("k", nexjob.Options{})
		other := nexjob.NewClient(s.store, nexjob.ClientOptions{})
		for i := range 3 {
			s.enqueue("k", nexjob.Options{})
			_, err := other.Enqueue(t.Context(), nexjob.RawJob(fmt.Sprint("kind-", i%2), nil,
				nexjob.Options{IdempotencyKey: "k"}))
			if !errors.Is(err, nexjob.ErrKeyMismatch) {
				t.Error(err)
			}
		}
		s.check(other.Close(t.Context()))
		want := []nexjob.DecisionCount{
			{Kind: "charge-card", Outcome: nexjob.Existing, Count: 3},
			{Kind: "kind-0", Outcome: nexjob.Mismatched, Count: 2},
			{Kind: "kind-1", Outcome: nexjob.Mismatched, Count: 1},
		}
		newer := nexjob.Entry{Kind: nexjob.DecisionKind("k"), Name: "a newer version", Value: []byte(`{"last":[{"outcome":"new"}]}`)}
		_, err := s.store.Put(t.Context(), time.Now(), []nexjob.Put{{Entry: newer}})
		s.check(err)
		got := s.decisions(s.client, "k")
		if !slices.Equal(got.Counts, want) || len(got.Last) != 6 {
			t.Errorf("decisions %+v", got)
		}
	})
}

func TestCloseWritesWhatIsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.enqueue("k", nexjob.Options{})
		s.enqueue("k", nexjob.Options{})
		start := time.Now()
		s.check(s.client.Close(t.Context()))
		if len(s.stored("k")) != 1 || time.Since(start) > 0 {
			t.Errorf("%d entries after %v", len(s.stored("k")), time.Since(start))
		}
	})
}

func TestDecisionsSurviveTroubleOfTheStorage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &registry{Storage: s.store}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{Logger: s.quiet()})
		storage.spoilFrom(1, errors.New("disk full"))
		job := ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "k"})
		for range 3 {
			_, err := client.Enqueue(t.Context(), job)
			s.check(err)
		}
		time.Sleep(time.Hour)
		if n := storage.puts.Load(); n < 100 || n > 200 {
			t.Errorf("%d writes in an hour of trouble", n)
		}
		storage.spoilFrom(1, nil)
		time.Sleep(time.Minute)
		puts := storage.puts.Load()
		if got := s.decisions(client, "k"); len(s.stored("k")) != 1 || got.Counts[0].Count != 2 {
			t.Errorf("decisions %+v", got)
		}
		time.Sleep(time.Hour)
		if n := storage.puts.Load(); n != puts {
			t.Errorf("%d writes though nothing was pending", n-puts)
		}
		s.check(client.Close(t.Context()))
		if n := client.Stats().DecisionsLost; n != 0 {
			t.Errorf("%d decisions were lost", n)
		}
	})
}

func TestDecisionsOfAClosedStorageAreLostAndCounted(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(t *testing.T, c *nexjob.Client, r *registry){
		"storage closed": func(_ *testing.T, _ *nexjob.Client, r *registry) {
			r.spoilFrom(1, nexjob.ErrClosed)
			time.Sleep(time.Minute) // and the goroutine ends: else the bubble would not
		},
		"client closed in trouble": func(t *testing.T, c *nexjob.Client, r *registry) {
			full := errors.New("disk full")
			r.spoilFrom(1, full)
			if err := c.Close(t.Context()); !errors.Is(err, full) {
				t.Errorf("Close: %v", err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t)
			storage := &registry{Storage: s.store}
			client := nexjob.NewClient(storage, nexjob.ClientOptions{Logger: s.quiet()})
			job := ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "k"})
			for range 3 {
				_, err := client.Enqueue(t.Context(), job)
				s.check(err)
			}
			after(t, client, storage)
			if n := client.Stats().DecisionsLost; n != 2 {
				t.Errorf("%s: %d decisions were lost, want 2", name, n)
			}
		})
	}
}

func TestCloseReturnsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		client := nexjob.NewClient(stuck{s.store}, nexjob.ClientOptions{Logger: s.quiet()})
		job := ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: "k"})
		for range 2 {
			_, err := client.Enqueue(t.Context(), job)
			s.check(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		synctest.Wait()
		if n := client.Stats().DecisionsLost; n != 1 {
			t.Errorf("%d decisions were lost, want 1", n)
		}
	})
}

// stuck is a storage whose puts last as long as their context.
type stuck struct{ nexjob.Storage }

func (stuck) Put(ctx context.Context, _ time.Time, _ []nexjob.Put) ([]nexjob.PutAnswer, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A flood of keys costs bounded memory: what is longest untouched goes first, and
// what it had not written is counted as lost.
func TestAFloodOfKeysIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &registry{Storage: s.store}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{Logger: s.quiet()})
		const more = 50
		jobs := make([]nexjob.NewJob, nexjob.MaxTallies+more)
		for i := range jobs {
			jobs[i] = ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: fmt.Sprint("k", i)})
		}
		for range 2 {
			_, err := client.EnqueueMany(t.Context(), jobs)
			s.check(err)
		}
		s.check(client.Close(t.Context()))
		if n := client.Stats().DecisionsLost; n != more {
			t.Errorf("%d decisions were lost, want %d", n, more)
		}
		if n := storage.puts.Load(); n != nexjob.MaxTallies/200 {
			t.Errorf("%d writes", n)
		}
		if len(s.stored("k0")) != 0 || len(s.stored(fmt.Sprint("k", more))) != 1 {
			t.Error("not the oldest were given up")
		}
	})
}

func TestAKeyUsedByManyKindsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		s.enqueue("k", nexjob.Options{})
		for i := range 100 {
			_, err := s.client.Enqueue(t.Context(), nexjob.RawJob(fmt.Sprintf("kind-%02d", i), nil,
				nexjob.Options{IdempotencyKey: "k"}))
			if !errors.Is(err, nexjob.ErrKeyMismatch) {
				t.Error(err)
			}
		}
		got := s.decisions(s.client, "k")
		total := int64(0)
		for _, n := range got.Counts {
			total += n.Count
		}
		if len(got.Counts) > 41 || total != 100 || got.Counts[0].Kind != "" {
			t.Errorf("%d counts that sum up to %d", len(got.Counts), total)
		}
	})
}

// A write of many keys that fails half-way leaves the rest pending, and a key that was
// written is written again when it is touched again, whichever it is.
func TestEveryDecisionIsWrittenInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		storage := &registry{Storage: s.store}
		client := nexjob.NewClient(storage, nexjob.ClientOptions{Logger: s.quiet()})
		jobs := make([]nexjob.NewJob, 450)
		for i := range jobs {
			jobs[i] = ChargeCard.New(Charge{}, nexjob.Options{IdempotencyKey: fmt.Sprint("k", i)})
		}
		for range 2 {
			_, err := client.EnqueueMany(t.Context(), jobs)
			s.check(err)
		}
		storage.spoilFrom(2, errors.New("disk full"))
		time.Sleep(time.Minute)
		storage.spoilFrom(1, nil)
		time.Sleep(time.Minute)
		for _, i := range []int{0, 1, len(jobs) - 1} {
			_, err := client.Enqueue(t.Context(), jobs[i])
			s.check(err)
			time.Sleep(time.Minute)
		}
		for i := range jobs {
			want := int64(1)
			if i < 2 || i == len(jobs)-1 {
				want = 2
			}
			entries := s.stored(fmt.Sprint("k", i))
			if len(entries) != 1 || entries[0].Version != want {
				t.Fatalf("key %d has entries %+v, want one at version %d", i, entries, want)
			}
		}
	})
}
