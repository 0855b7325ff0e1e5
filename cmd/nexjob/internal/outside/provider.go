package outside

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Payment is a charge that the provider really applied: money moved. Its record of
// them is what the audit believes.
type Payment struct {
	ID       string    `json:"id"`
	OrderID  int64     `json:"order_id"`
	Cents    int64     `json:"cents"`
	Currency string    `json:"currency"`
	Key      string    `json:"idempotency_key"`
	At       time.Time `json:"at"`
}

// Charge is what the provider is asked for.
type Charge struct {
	OrderID  int64  `json:"order_id"`
	Cents    int64  `json:"cents"`
	Currency string `json:"currency"`
}

// maxBody bounds a request's body.
const maxBody = 64 << 10

// Provider is a payment provider as the well-known ones are. POST /v1/charges needs
// an Idempotency-Key. The first request under a key is applied, and its answer
// stored; the same request again gets the stored answer; another request under the
// same key is refused with 422, and one that comes while the first is still worked
// with 409.
type Provider struct {
	gate  Gate
	think func() time.Duration // how long it takes over a charge

	mu       sync.Mutex
	keys     map[string]*keyed
	payments []Payment
	replayed int
}

// keyed is what the provider remembers of an idempotency key.
type keyed struct {
	request [sha256.Size]byte
	answer  []byte // nil: still worked
}

// NewProvider returns a provider with an empty record. gate and think may be nil.
func NewProvider(gate Gate, think func() time.Duration) *Provider {
	if gate == nil {
		gate = open
	}
	if think == nil {
		think = func() time.Duration { return 0 }
	}
	return &Provider{gate: gate, think: think, keys: make(map[string]*keyed)}
}

// Handler returns the provider's HTTP interface.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", p.charge)
	return mux
}

// Payments returns the record, oldest first.
func (p *Provider) Payments() []Payment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.payments)
}

// Replayed returns how often a stored answer was given instead of a new charge.
func (p *Provider) Replayed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.replayed
}

func (p *Provider) charge(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > 255 {
		refuse(w, http.StatusBadRequest, "an Idempotency-Key of 1 to 255 bytes is required")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body cannot be read: "+err.Error())
		return
	}
	var asked Charge
	if err := json.Unmarshal(body, &asked); err != nil {
		refuse(w, http.StatusBadRequest, "the body is no charge: "+err.Error())
		return
	}
	if asked.Cents < 1 || asked.Currency == "" {
		refuse(w, http.StatusBadRequest, "a charge needs cents above zero and a currency")
		return
	}
	call := Call{OrderID: asked.OrderID, Caller: r.Header.Get(HeaderCaller)}
	p.apply(r.Context(), w, key, body, asked, call)
}

// apply charges once per key. A caller that dies before the charge was applied
// leaves the key free, as a provider does that rolled back.
func (p *Provider) apply(
	ctx context.Context, w http.ResponseWriter, key string, body []byte, asked Charge, call Call,
) {
	answer, status, why := p.begin(key, sha256.Sum256(body))
	if why != "" {
		refuse(w, status, why)
		return
	}
	replay := answer != nil
	if p.gate(ctx, BeforeApply, call) {
		p.abandon(key, replay)
		panic(http.ErrAbortHandler)
	}
	if !replay {
		// The money moves whether or not the caller still listens, so the wait does
		// not end with the connection.
		<-time.After(p.think())
		answer = p.finish(key, asked)
	}
	if p.gate(ctx, AfterApply, call) {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	if replay {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer) // a caller that is gone asks again
}

// begin looks the key up and marks it as being worked. It returns the stored answer
// of a repeat, or why the request is refused.
func (p *Provider) begin(key string, request [sha256.Size]byte) (answer []byte, status int, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, ok := p.keys[key]
	switch {
	case !ok:
		p.keys[key] = &keyed{request: request}
	case known.request != request:
		return nil, http.StatusUnprocessableEntity, "this Idempotency-Key was used for another request"
	case known.answer == nil:
		return nil, http.StatusConflict, "a request with this Idempotency-Key is still being worked"
	default:
		p.replayed++
		return known.answer, 0, ""
	}
	return nil, 0, ""
}

// abandon frees a key whose charge was not applied.
func (p *Provider) abandon(key string, replay bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !replay {
		delete(p.keys, key)
	}
}

// finish moves the money: the record and the stored answer change together.
func (p *Provider) finish(key string, asked Charge) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	payment := Payment{
		ID: fmt.Sprintf("ch_%06d", len(p.payments)+1), OrderID: asked.OrderID,
		Cents: asked.Cents, Currency: asked.Currency, Key: key, At: time.Now().UTC(),
	}
	answer, err := json.Marshal(payment)
	if err != nil { // a struct of text, numbers and one time of this century
		panic(err)
	}
	p.payments = append(p.payments, payment)
	p.keys[key].answer = answer
	return answer
}

// refuse answers an error that moved no money.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	title := strings.ToLower(http.StatusText(status))
	_ = json.NewEncoder(w).Encode(map[string]any{"title": title, "status": status, "detail": why})
}
