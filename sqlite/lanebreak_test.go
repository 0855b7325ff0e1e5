package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// TestAPanicIsItsCallersOwn: a step that panics does so in its caller's goroutine;
// nothing of it is stored, its neighbours are done, and the lane goes on.
func TestAPanicIsItsCallersOwn(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge(fmt.Sprint("k", i))}); err != nil {
				t.Errorf("a neighbour is answered %v", err)
			}
		})
	}
	wg.Go(func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "half-way") {
				t.Errorf("the caller of a step that panics recovers %v", r)
			}
		}()
		bad := &single[int]{step: func(u *onewriter.Unit, ctx context.Context) (int, error) {
			if _, err := u.Enqueue(ctx, []nexjob.NewJob{charge("half")}); err != nil {
				return 0, err
			}
			if err := u.Flush(ctx); err != nil {
				return 0, err
			}
			panic("half-way")
		}}
		err := s.write(t.Context(), "panic", time.Now(), &call{sort: amending, size: 1, work: bad})
		t.Errorf("a step that panics is answered %v", err)
	})
	awaiting(t, s, 6)
	release()
	wg.Wait()
	if n := jobsStored(t, s); n != 5 {
		t.Errorf("%d jobs are stored, want the 5 neighbours", n)
	}
}

// TestABadActionDisturbsNobody: an action that makes no sense never reaches the lane,
// where it would undo a transaction that others share.
func TestABadActionDisturbsNobody(t *testing.T) {
	s := testStore(t, Options{})
	hold(t, s) // nothing can be written
	_, err := s.Amend(t.Context(), time.Now(), nexjob.Query{}, nexjob.Action{}, 1)
	if !errors.Is(err, nexjob.ErrInvalid) {
		t.Errorf("it is answered %v", err)
	}
}

// TestACallerThatLeftOwnsItsInput: a caller whose context ended gets its slices and
// maps back, though the lane is still at work with what was in them.
func TestACallerThatLeftOwnsItsInput(t *testing.T) {
	s := testStore(t, Options{})
	release := hold(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	jobs := make([]nexjob.NewJob, 200)
	for i := range jobs {
		jobs[i] = charge(fmt.Sprint("k", i))
		jobs[i].Meta, jobs[i].Tags = map[string]string{"a": "b"}, []string{"t"}
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = s.Enqueue(ctx, time.Now(), jobs)
		for i := range jobs { // the race detector watches
			jobs[i].Args[0], jobs[i].Meta["a"], jobs[i].Tags[0] = 'X', "X", "X"
			jobs[i] = nexjob.NewJob{}
		}
	}()
	awaiting(t, s, 1)
	release()
	for waiting := 1; waiting > 0; { // until it is taken up
		s.lane.mu.Lock()
		waiting = len(s.lane.waiting)
		s.lane.mu.Unlock()
	}
	cancel()
	<-answered
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{charge("after")}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Find(t.Context(), time.Now(), nexjob.Query{Limit: nexjob.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range page.Jobs {
		if string(j.Args) != `{"order_id":42}` {
			t.Fatalf("a job has the args %q", j.Args)
		}
	}
}
