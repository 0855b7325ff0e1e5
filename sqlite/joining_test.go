package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/storagetest"
)

// joining is a store whose steps join one transaction. It is committed before anything is
// read, and now and then.
type joining struct {
	*Store
	t    testing.TB
	draw *rand.Rand

	last time.Time     // that a step was given
	next chan struct{} // closed when the next step has come, or none is to join; nil: none is open
	done []chan error  // of the steps in the open transaction

	joined *int
}

// joins does a step in the open transaction, or in a new one. Its answer is that of the
// step, which is not committed yet.
func joins[T any](
	ctx context.Context, s *joining, now time.Time, sort sortOfCall, size int,
	f func(ctx context.Context, u *onewriter.Unit) (T, error),
) (answer T, err error) {
	if now.Before(s.last) || s.draw.IntN(12) == 0 {
		s.commit()
	}
	s.last = now
	before, next := s.next, make(chan struct{})
	did, done := make(chan struct{}), make(chan error, 1)
	work := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
		answer, err = f(ctx, u)
		close(did)
		<-next
		return 0, nil
	}}
	go func() {
		done <- s.write(context.WithoutCancel(ctx), "join", now, &call{sort: sort, size: size, work: work})
	}()
	if before != nil {
		for s.lane.count() == 0 {
			runtime.Gosched()
		}
		*s.joined++
		close(before)
	}
	s.next, s.done = next, append(s.done, done)
	<-did
	return answer, err
}

// commit lets the open transaction end.
func (s *joining) commit() {
	if s.next == nil {
		return
	}
	close(s.next)
	for _, done := range s.done {
		if err := <-done; err != nil {
			s.t.Errorf("a transaction of %d steps: %v", len(s.done), err)
		}
	}
	s.next, s.done = nil, nil
}

func (s *joining) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	jobs = ownJobs(jobs)
	return joins(ctx, s, now, enqueueing, len(jobs), func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Answer, error) {
		return u.Enqueue(ctx, jobs)
	})
}

func (s *joining) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	if err := onewriter.CheckClaim(&ask); err != nil {
		return nil, wrap("claim", err)
	}
	return joins(ctx, s, now, claiming, ask.N, func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Claimed, error) {
		return u.Claim(ctx, ask)
	})
}

func (s *joining) Renew(ctx context.Context, now, until time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	return joins(ctx, s, now, renewing, len(leases), func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Renewal, error) {
		return u.Renew(ctx, until.Sub(now), leases)
	})
}

func (s *joining) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return joins(ctx, s, now, settling, len(ends), func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Settled, error) {
		return u.Settle(ctx, ends)
	})
}

func (s *joining) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	return joins(ctx, s, now, recording, len(receipts), func(ctx context.Context, u *onewriter.Unit) ([]nexjob.Recorded, error) {
		return u.Record(ctx, receipts)
	})
}

func (s *joining) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	return joins(ctx, s, now, putting, len(puts), func(ctx context.Context, u *onewriter.Unit) ([]nexjob.PutAnswer, error) {
		return u.Put(ctx, puts)
	})
}

func (s *joining) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if err := onewriter.CheckAction(q, &do, limit); err != nil {
		return nexjob.Amended{}, wrap("amend", err)
	}
	if do.FollowUp != nil { // for several jobs it would be refused too late
		s.commit()
		return s.Store.Amend(ctx, now, q, do, limit)
	}
	return joins(ctx, s, now, amending, 1, func(ctx context.Context, u *onewriter.Unit) (nexjob.Amended, error) {
		return u.Amend(ctx, q, do, limit)
	})
}

func (s *joining) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	s.commit()
	return s.Store.Find(ctx, now, q)
}

func (s *joining) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	s.commit()
	return s.Store.Count(ctx, now, q)
}

func (s *joining) Entries(ctx context.Context, now time.Time, kind string) ([]nexjob.Entry, error) {
	s.commit()
	return s.Store.Entries(ctx, now, kind)
}

func (s *joining) Join(tx nexjob.Tx) (nexjob.Joined, error) {
	s.commit()
	return s.Store.Join(tx)
}

func (s *joining) Close() error {
	s.commit()
	return s.Store.Close()
}

// TestCompareJoining: steps that join a running transaction do what they do in one of
// their own, whatever came before them in it and however late they come.
func TestCompareJoining(t *testing.T) {
	opened, joined := uint64(0), 0
	reference := func(_ testing.TB, clock func() time.Time) nexjob.Storage {
		return memory.New(memory.Options{Clock: clock})
	}
	engine := func(t testing.TB, clock func() time.Time) nexjob.Storage {
		opened++
		s, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), Options{Clock: clock, Synchronous: Normal})
		if err != nil {
			t.Fatal(err)
		}
		return &joining{Store: s, t: t, draw: rand.New(rand.NewPCG(2, opened)), joined: &joined}
	}
	storagetest.Compare(t, storagetest.Harness{Open: reference}, storagetest.Harness{Open: engine}, 40)
	if joined < 500 {
		t.Errorf("only %d steps joined a transaction", joined)
	}
}

// TestWhatJoinsFailsAlone: calls that join a transaction and fail, panic, or whose callers
// have left, and a Close in the middle, cost nobody else anything.
func TestWhatJoinsFailsAlone(t *testing.T) {
	s := testStore(t, Options{})
	closed := make(chan error, 1)
	gone, leave := context.WithCancel(t.Context())
	step := func(key string, f func()) *single[nexjob.Answer] {
		job := charge(key)
		return &single[nexjob.Answer]{step: func(u *onewriter.Unit, ctx context.Context) (nexjob.Answer, error) {
			answers, err := u.Enqueue(ctx, []nexjob.NewJob{job})
			if err == nil {
				err = u.Flush(ctx)
			}
			f()
			return answers[0], err
		}}
	}
	var wg sync.WaitGroup
	write := func(ctx context.Context, key string, f func(), want error) {
		w := step(key, f)
		wg.Go(func() {
			defer func() {
				if r := recover(); (r != nil) != (key == "panics") {
					t.Errorf("%s: it panicked with %v", key, r)
				}
			}()
			err := s.write(ctx, key, time.Now(), &call{sort: amending, size: 1, work: w})
			if err != nil && !errors.Is(err, want) || err == nil && w.answer.Outcome != nexjob.Created {
				t.Errorf("%s: it is answered %v, %+v", key, err, w.answer)
			}
		})
	}
	first := sync.OnceFunc(func() {
		write(t.Context(), "neighbour", func() {}, nil)
		write(gone, "leaves", leave, nexjob.ErrOutcomeUnknown)
		write(t.Context(), "panics", func() {
			go func() { closed <- s.Close() }()
			panic("joined")
		}, nil)
		awaiting(t, s, 3)
	})
	write(t.Context(), "opens", first, nil)
	wg.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestCallsThatAreDoneAreLetGo: an idle lane holds nothing of what it was given.
func TestCallsThatAreDoneAreLetGo(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge(fmt.Sprint(i))}); err != nil {
				t.Error(err)
			}
		})
	}
	awaiting(t, s, 5)
	release()
	wg.Wait()
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	for i, c := range s.lane.waiting[:cap(s.lane.waiting)] {
		if c != nil {
			t.Errorf("call %d of %d is held", i+1, cap(s.lane.waiting))
		}
	}
}
