package outside_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

const order42 = `{"order_id":42,"cents":1999,"currency":"EUR"}`

// provide starts a provider for one test.
func provide(t *testing.T, c outside.Conditions) (p *outside.Provider, charges string) {
	t.Helper()
	p = outside.NewProvider(c)
	return p, listen(t, p.Handler()) + "/v1/charges"
}

func TestARepeatGetsTheStoredAnswer(t *testing.T) {
	p, url := provide(t, outside.Conditions{})
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
	p, url := provide(t, outside.Conditions{})
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
			p, url := provide(t, outside.Conditions{})
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

func TestOtherPathsAreNotServed(t *testing.T) {
	_, charges := provide(t, outside.Conditions{})
	if a := mustPost(t, charges+"/1/refunds", "k", order42); a.status != http.StatusNotFound {
		t.Errorf("a refund was answered %+v", a)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, charges, http.NoBody)
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
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a look-up was answered %s", response.Status)
	}
}
