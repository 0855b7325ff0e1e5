package outside_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

var moments = []outside.Moment{outside.BeforeApply, outside.AfterApply}

// TestARepeatWhileTheFirstIsWorked holds the first request at each moment and asks
// again meanwhile.
func TestARepeatWhileTheFirstIsWorked(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		for _, at := range moments {
			t.Run(at.String(), func(t *testing.T) {
				h := newHolding(at)
				s := start(outside.Conditions{Gate: h.gate})
				var first answer
				var firstErr error
				var group sync.WaitGroup
				group.Go(func() { first, firstErr = post(t.Context(), s.url, "k", order42) })
				<-h.held
				second := mustPost(t, s.url, "k", order42)
				h.release <- false
				group.Wait()
				if firstErr != nil || first.status != s.status || first.replayed {
					t.Errorf("the first was answered %+v, %v", first, firstErr)
				}
				want := answer{status: s.status, body: first.body, replayed: true} // only the answer is on its way
				if at == outside.BeforeApply {
					want = answer{status: http.StatusConflict, body: second.body}
				}
				if diff := cmp.Diff(want, second, cmp.AllowUnexported(answer{})); diff != "" {
					t.Errorf("the second was answered otherwise: %s", diff)
				}
				if n := s.applied(); n != 1 {
					t.Errorf("applied %d times, want once", n)
				}
			})
		}
	})
}

// TestACallerThatDies sees the difference between the two moments: before, nothing
// was applied and the key is free; after, it stands and a repeat gets the answer.
func TestACallerThatDies(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		for i, at := range moments {
			t.Run(at.String(), func(t *testing.T) {
				var died atomic.Bool
				s := start(outside.Conditions{Gate: func(_ context.Context, moment outside.Moment, _ outside.Call) bool {
					return moment == at && died.CompareAndSwap(false, true)
				}})
				if a, err := post(t.Context(), s.url, "k", order42); !errors.Is(err, io.EOF) {
					t.Fatalf("a dead caller was answered %+v, %v", a, err)
				}
				if n := s.applied(); n != i {
					t.Errorf("applied %d times at the death, want %d", n, i)
				}
				a := mustPost(t, s.url, "k", order42)
				if a.status != s.status || a.replayed != (at == outside.AfterApply) {
					t.Errorf("the repeat was answered %+v", a)
				}
				if n := s.applied(); n != 1 || s.replayed() != i {
					t.Errorf("applied %d times and replayed %d in the end", n, s.replayed())
				}
			})
		}
	})
}

// faults are what a caller sees of each fault, and whether the call was applied.
var faults = []struct {
	fault   outside.Fault
	status  int // 0: no answer
	applied bool
	after   string
}{
	{fault: outside.DropReply, applied: true},
	{fault: outside.ServerError, status: http.StatusInternalServerError},
	{fault: outside.ServerErrorAfter, status: http.StatusInternalServerError, applied: true},
	{fault: outside.TooMany, status: http.StatusTooManyRequests, after: "1"},
	{fault: outside.InProgress, status: http.StatusConflict},
}

func TestTrouble(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		for _, tt := range faults {
			t.Run(tt.fault.String(), func(t *testing.T) {
				var w watching
				s := start(outside.Conditions{
					Gate: w.gate, Trouble: scripted(tt.fault, outside.None, tt.fault, outside.None),
				})
				meet := func() {
					t.Helper()
					a, err := post(t.Context(), s.url, "k", order42)
					if tt.status == 0 && !errors.Is(err, io.EOF) {
						t.Errorf("answered %+v, %v; want no answer", a, err)
					}
					if tt.status != 0 && (err != nil || a.status != tt.status || a.after != tt.after || a.replayed) {
						t.Errorf("answered %+v, %v; want status %d", a, err, tt.status)
					}
				}
				meet()
				applied, passes := 0, 1 // a fault before it was applied spares it the second moment
				if tt.applied {
					applied, passes = 1, 2
				}
				if n := s.applied(); n != applied {
					t.Errorf("applied %d times, want %d", n, applied)
				}
				if n := len(w.list()); n != passes {
					t.Errorf("the gate was passed %d times, want %d", n, passes)
				}
				a := mustPost(t, s.url, "k", order42)
				if a.status != s.status || a.replayed != tt.applied {
					t.Errorf("the repeat was answered %+v", a)
				}

				meet() // trouble befalls repeats as well
				b := mustPost(t, s.url, "k", order42)
				if b.status != s.status || !b.replayed || b.body != a.body {
					t.Errorf("after trouble a repeat was answered %+v, before %+v", b, a)
				}
				if n := s.applied(); n != 1 {
					t.Errorf("applied %d times in the end, want once", n)
				}
			})
		}
	})
}

// TestADroppedReplyOnAUsedConnection is what a shop meets with its usual client:
// net/http repeats a request with an Idempotency-Key by itself if a connection that
// served before breaks, and the caller never learns of the drop.
func TestADroppedReplyOnAUsedConnection(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		s := start(outside.Conditions{Trouble: scripted(outside.None, outside.DropReply)})
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		if a, err := postBy(t.Context(), client, s.url, "first", order42); err != nil || a.status != s.status {
			t.Fatalf("answered %+v, %v", a, err)
		}
		a, err := postBy(t.Context(), client, s.url, "second", order42)
		if err != nil || a.status != s.status || !a.replayed {
			t.Errorf("answered %+v, %v; want the answer of net/http's own repeat", a, err)
		}
		if s.applied() != 2 || s.replayed() != 1 {
			t.Errorf("applied %d and replayed %d times, want 2 and 1", s.applied(), s.replayed())
		}
	})
}

func TestTheGateSeesWhoCalls(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		var w watching
		s := start(outside.Conditions{Gate: w.gate})
		mustPost(t, s.url, "k", order42)
		want := outside.Call{Service: outside.PaymentService, Item: "42", Caller: "test"}
		if s.status == http.StatusNoContent {
			want = outside.Call{Service: outside.WebhookService, Item: "order-42-paid", Caller: "test"}
		}
		if diff := cmp.Diff([]passage{{outside.BeforeApply, want}, {outside.AfterApply, want}}, w.list()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTheGateSeesTheConnectionClose: a call is applied even if its caller hung up
// before, and the gate can know it.
func TestTheGateSeesTheConnectionClose(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		for _, at := range moments {
			t.Run(at.String(), func(t *testing.T) {
				h := newHolding(at)
				s := start(outside.Conditions{Gate: h.gate})
				ctx, cancel := context.WithCancel(t.Context())
				var group sync.WaitGroup
				group.Go(func() { _, _ = post(ctx, s.url, "k", order42) })
				held := <-h.held
				if held.Err() != nil {
					t.Error("the gate's context ended before the connection")
				}
				cancel()
				group.Wait()
				mustEnd(t, held)
				h.release <- false
				for { // until the request that nobody waits for is through
					a := mustPost(t, s.url, "k", order42)
					if a.status == http.StatusConflict {
						continue
					}
					if !a.replayed || s.applied() != 1 {
						t.Errorf("the repeat was answered %+v, applied %d times", a, s.applied())
					}
					return
				}
			})
		}
	})
}

// mustEnd waits until the context ends.
func mustEnd(t *testing.T, ctx context.Context) { //nolint:revive // testing.T comes first in tests
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Error("the gate's context outlived the connection")
	}
}

// TestManyAtOnce sends each request several times at once, through every trouble:
// in the end each was applied once.
func TestManyAtOnce(t *testing.T) {
	forKeyed(t, func(t *testing.T, start func(outside.Conditions) keyedService) {
		var drawn atomic.Int64
		s := start(outside.Conditions{Trouble: func(outside.Call) outside.Fault {
			return outside.Fault(drawn.Add(1) % int64(outside.InProgress+1))
		}})
		const keys, callers = 8, 4
		var fresh atomic.Int64
		var group sync.WaitGroup
		for key := range keys {
			for range callers {
				group.Go(func() {
					for { // as a client does that must know
						a, err := post(t.Context(), s.url, strconv.Itoa(key), order42)
						switch {
						case errors.Is(err, io.EOF):
						case err != nil:
							t.Error(err)
							return
						case a.status == s.status:
							if !a.replayed {
								fresh.Add(1)
							}
							return
						case !slices.Contains([]int{409, 429, 500}, a.status):
							t.Errorf("answered %+v", a)
							return
						}
					}
				})
			}
		}
		group.Wait()
		if n := s.applied(); n != keys {
			t.Errorf("applied %d times, want %d", n, keys)
		}
		if n := fresh.Load(); n > keys {
			t.Errorf("%d callers were told that theirs was the first, of %d keys", n, keys)
		}
	})
}
