package outside_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

const order42 = `{"order_id":42,"cents":1999,"currency":"EUR"}`

// serve starts a provider for one test.
func serve(t *testing.T, gate outside.Gate) (*outside.Provider, string) {
	t.Helper()
	p := outside.NewProvider(outside.Conditions{Gate: gate})
	server := httptest.NewServer(p.Handler())
	t.Cleanup(server.Close)
	return p, server.URL
}

// answer is what a caller sees.
type answer struct {
	status   int
	body     string
	replayed bool
}

func post(ctx context.Context, url, key, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set(outside.HeaderCaller, "test")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	return answer{response.StatusCode, string(text), response.Header.Get("Idempotent-Replayed") == "true"}, err
}

func mustPost(t *testing.T, url, key, body string) answer {
	t.Helper()
	a, err := post(t.Context(), url, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestARepeatGetsTheStoredAnswer(t *testing.T) {
	p, url := serve(t, nil)
	first := mustPost(t, url, "k", order42)
	again := mustPost(t, url, "k", order42)
	if first.status != http.StatusCreated || first.replayed {
		t.Errorf("the first request was answered %+v", first)
	}
	if again.status != http.StatusCreated || !again.replayed || again.body != first.body {
		t.Errorf("the repeat was answered %+v, the first %+v", again, first)
	}
	payments := p.Payments()
	if len(payments) != 1 || p.Replayed() != 1 {
		t.Fatalf("%d payments and %d replays, want one each", len(payments), p.Replayed())
	}
	var told outside.Payment
	if err := json.Unmarshal([]byte(first.body), &told); err != nil {
		t.Fatal(err)
	}
	if told != payments[0] || told.OrderID != 42 || told.Cents != 1999 || told.Key != "k" || told.ID == "" {
		t.Errorf("told %+v, recorded %+v", told, payments[0])
	}
}

func TestAnotherKeyIsAnotherCharge(t *testing.T) {
	p, url := serve(t, nil)
	mustPost(t, url, "k1", order42)
	mustPost(t, url, "k2", order42)
	if n := len(p.Payments()); n != 2 {
		t.Errorf("%d payments, want 2: the provider must not do the shop's work", n)
	}
}

func TestRefusedRequestsMoveNoMoney(t *testing.T) {
	tests := []struct {
		name, key, body string
		status          int
	}{
		{"no key", "", order42, http.StatusBadRequest},
		{"key too long", strings.Repeat("k", 256), order42, http.StatusBadRequest},
		{"no JSON", "k", "charge 42", http.StatusBadRequest},
		{"no cents", "k", `{"order_id":42,"currency":"EUR"}`, http.StatusBadRequest},
		{"no currency", "k", `{"order_id":42,"cents":1}`, http.StatusBadRequest},
		{"too large", "k", `{"order_id":42,"cents":1,"currency":"` + strings.Repeat("x", 70_000) + `"}`, http.StatusBadRequest},
		{"other request under a used key", "used", `{"order_id":42,"cents":2000,"currency":"EUR"}`, http.StatusUnprocessableEntity},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, url := serve(t, nil)
			mustPost(t, url, "used", order42)
			if a := mustPost(t, url, tt.key, tt.body); a.status != tt.status || !strings.Contains(a.body, "detail") {
				t.Errorf("answered %+v, want status %d and a problem", a, tt.status)
			}
			if n := len(p.Payments()); n != 1 {
				t.Errorf("%d payments, want the one before", n)
			}
			if a := mustPost(t, url, "k", order42); a.status != http.StatusCreated {
				t.Errorf("the key of a refused request is spent: %+v", a)
			}
		})
	}
}

// TestARepeatWhileTheFirstIsWorked holds the first request at each moment and asks
// again meanwhile.
func TestARepeatWhileTheFirstIsWorked(t *testing.T) {
	for at, want := range map[outside.Moment]int{
		outside.BeforeApply: http.StatusConflict, // not applied yet
		outside.AfterApply:  http.StatusCreated,  // applied, only the answer is on its way
	} {
		t.Run(at.String(), func(t *testing.T) {
			held, release := make(chan struct{}), make(chan struct{})
			var taken atomic.Bool
			p, url := serve(t, func(_ context.Context, moment outside.Moment, _ outside.Call) bool {
				if moment == at && taken.CompareAndSwap(false, true) {
					close(held)
					<-release
				}
				return false
			})
			var first answer
			var firstErr error
			var group sync.WaitGroup
			group.Go(func() { first, firstErr = post(t.Context(), url, "k", order42) })
			<-held
			second := mustPost(t, url, "k", order42)
			close(release)
			group.Wait()
			if firstErr != nil || first.status != http.StatusCreated {
				t.Errorf("the first was answered %+v, %v", first, firstErr)
			}
			if second.status != want {
				t.Errorf("the second was answered %+v, want status %d", second, want)
			}
			if n := len(p.Payments()); n != 1 {
				t.Errorf("%d payments, want 1", n)
			}
		})
	}
}

// TestACallerThatDies sees the difference between the two moments: before, nothing
// was charged and the key is free; after, the charge stands and a repeat gets it.
func TestACallerThatDies(t *testing.T) {
	for at, want := range map[outside.Moment]int{outside.BeforeApply: 0, outside.AfterApply: 1} {
		t.Run(at.String(), func(t *testing.T) {
			died := false
			var calls []outside.Call
			p, url := serve(t, func(_ context.Context, moment outside.Moment, call outside.Call) bool {
				calls = append(calls, call)
				if moment != at || died {
					return false
				}
				died = true
				return true
			})
			if a, err := post(t.Context(), url, "k", order42); err == nil {
				t.Fatalf("a dead caller was answered %+v", a)
			}
			if n := len(p.Payments()); n != want {
				t.Errorf("%d payments after the death, want %d", n, want)
			}
			a := mustPost(t, url, "k", order42)
			if a.status != http.StatusCreated || a.replayed != (want == 1) {
				t.Errorf("the repeat was answered %+v", a)
			}
			if n := len(p.Payments()); n != 1 {
				t.Errorf("%d payments in the end, want 1", n)
			}
			if calls[0] != (outside.Call{Service: outside.PaymentService, Item: "42", Caller: "test"}) {
				t.Errorf("the gate was passed by %+v", calls[0])
			}
		})
	}
}

func TestTheGateSeesTheConnectionClose(t *testing.T) {
	gone := make(chan error, 1)
	atGate := make(chan struct{})
	_, url := serve(t, func(ctx context.Context, moment outside.Moment, _ outside.Call) bool {
		if moment != outside.AfterApply {
			return false
		}
		close(atGate)
		select {
		case <-ctx.Done():
			gone <- ctx.Err()
		case <-time.After(10 * time.Second):
			gone <- nil
		}
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _, _ = post(ctx, url, "k", order42) })
	<-atGate
	cancel()
	group.Wait()
	if err := <-gone; err == nil {
		t.Error("the gate's context outlived the connection")
	}
}

// TestManyAtOnce sends each request several times at once: some are told that it is
// in progress, and in the end each was charged once.
func TestManyAtOnce(t *testing.T) {
	p, url := serve(t, nil)
	var group sync.WaitGroup
	for key := range 8 {
		for range 4 {
			group.Go(func() {
				a, err := post(t.Context(), url, string(rune('a'+key)), order42)
				if err != nil || a.status != http.StatusCreated && a.status != http.StatusConflict {
					t.Errorf("%+v, %v", a, err)
				}
			})
		}
	}
	group.Wait()
	if n := len(p.Payments()); n != 8 {
		t.Errorf("%d payments, want 8", n)
	}
	ids := make(map[string]bool)
	for _, payment := range p.Payments() {
		ids[payment.ID] = true
	}
	if len(ids) != 8 {
		t.Errorf("%d different IDs, want 8", len(ids))
	}
}

func TestOtherPathsAreNotServed(t *testing.T) {
	_, url := serve(t, nil)
	for _, request := range []struct{ method, path string }{
		{http.MethodGet, "/v1/charges"}, {http.MethodPost, "/v1/refunds"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), request.method, url+request.path, bytes.NewReader(nil))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
		if response.StatusCode < 400 {
			t.Errorf("%s %s was answered %s", request.method, request.path, response.Status)
		}
	}
}
