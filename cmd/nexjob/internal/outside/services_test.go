package outside_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// answer is what a caller sees.
type answer struct {
	status   int
	body     string
	replayed bool
	after    string // Retry-After
}

// post sends one request. A client is for one request, so that no connection is used
// again: on a used one net/http may repeat a request by itself.
func post(ctx context.Context, url, key, body string) (answer, error) {
	transport := &http.Transport{DisableKeepAlives: true}
	return postBy(ctx, &http.Client{Transport: transport}, url, key, body)
}

func postBy(ctx context.Context, client *http.Client, url, key, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	r.Header.Set(outside.HeaderCaller, "test")
	response, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	return answer{
		status: response.StatusCode, body: string(text),
		replayed: response.Header.Get("Idempotent-Replayed") == "true",
		after:    response.Header.Get("Retry-After"),
	}, err
}

func mustPost(t *testing.T, url, key, body string) answer {
	t.Helper()
	a, err := post(t.Context(), url, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// keyedService is one of the services that honour keys, as these tests see both.
type keyedService struct {
	url      string // where to post
	status   int    // of a request that was applied
	applied  func() int
	replayed func() int
}

// keyedServices are started under the conditions by the tests of what both do.
var keyedServices = map[string]func(*testing.T, outside.Conditions) keyedService{
	"payment": func(t *testing.T, c outside.Conditions) keyedService {
		p, url := provide(t, c)
		return keyedService{url, http.StatusCreated, func() int { return len(p.Payments()) }, p.Replayed}
	},
	"webhook": func(t *testing.T, c outside.Conditions) keyedService {
		v, url := receive(t, c)
		return keyedService{
			url + "order-42-paid", http.StatusNoContent, func() int { return len(v.Deliveries()) }, v.Replayed,
		}
	},
}

// forKeyed runs a test for each of them.
func forKeyed(t *testing.T, test func(t *testing.T, start func(outside.Conditions) keyedService)) {
	t.Helper()
	for name, start := range keyedServices {
		t.Run(name, func(t *testing.T) {
			test(t, func(c outside.Conditions) keyedService { return start(t, c) })
		})
	}
}

func listen(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// holding is a gate that holds the first call that comes to a moment.
type holding struct {
	at      outside.Moment
	held    chan context.Context // the held call's
	release chan bool            // whether it died
	taken   atomic.Bool
}

func newHolding(at outside.Moment) *holding {
	return &holding{at: at, held: make(chan context.Context), release: make(chan bool)}
}

func (h *holding) gate(ctx context.Context, at outside.Moment, _ outside.Call) (died bool) {
	if at != h.at || !h.taken.CompareAndSwap(false, true) {
		return false
	}
	h.held <- ctx
	return <-h.release
}

// scripted is trouble that befalls calls in order, and none after that.
func scripted(faults ...outside.Fault) outside.Trouble {
	var mu sync.Mutex
	return func(outside.Call) outside.Fault {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) == 0 {
			return outside.None
		}
		fault := faults[0]
		faults = faults[1:]
		return fault
	}
}

// passage is one call at one moment.
type passage struct {
	At   outside.Moment
	Call outside.Call
}

// watching is a gate that notes who passes.
type watching struct {
	mu     sync.Mutex
	passed []passage
}

func (w *watching) gate(_ context.Context, at outside.Moment, call outside.Call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passed = append(w.passed, passage{at, call})
	return false
}

func (w *watching) list() []passage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.passed)
}
