package outside

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
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

// Provider is a payment provider as the well-known ones are. POST /v1/charges needs
// an Idempotency-Key. The first request under a key is applied, and its answer
// stored; the same request again gets the stored answer with Idempotent-Replayed;
// another request under the same key is refused with 422, and one that comes while
// the first is still worked with 409. A real one also asks who its customer is and
// remembers a card's refusal under the key; this one never refuses a card.
type Provider struct {
	desk desk[Payment]
}

// NewProvider returns a provider with an empty record.
func NewProvider(c Conditions) *Provider {
	return &Provider{desk[Payment]{
		conditions: c.filled(), ledger: newLedger[Payment](), status: http.StatusCreated,
	}}
}

// Handler returns the provider's HTTP interface.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/charges", p.charge)
	return mux
}

// Payments returns the record, oldest first.
func (p *Provider) Payments() []Payment { return p.desk.ledger.list() }

// Replayed returns how often a stored answer was given instead of a new charge.
func (p *Provider) Replayed() int { return p.desk.ledger.replays() }

func (p *Provider) charge(w http.ResponseWriter, r *http.Request) {
	key, body, ok := read(w, r)
	if !ok {
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
	call := Call{
		Service: PaymentService, Item: strconv.FormatInt(asked.OrderID, 10), Caller: r.Header.Get(HeaderCaller),
	}
	p.desk.take(w, r, call, key, sha256.Sum256(body), func(before int, at time.Time) (Payment, []byte) {
		payment := Payment{
			ID: fmt.Sprintf("ch_%06d", before+1), OrderID: asked.OrderID,
			Cents: asked.Cents, Currency: asked.Currency, Key: key, At: at,
		}
		return payment, encode(payment)
	})
}
