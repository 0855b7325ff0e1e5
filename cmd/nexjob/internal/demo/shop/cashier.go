package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/worker"
)

// Cashier is the shop's client of the payment provider.
type Cashier struct {
	URL  string // of the provider
	HTTP *http.Client
}

// Charge asks for a charge under an idempotency key. An error that comes back from it is
// an unknown outcome, unless the provider said that it will not do it.
func (c *Cashier) Charge(ctx context.Context, key string, o Order) (outside.Payment, error) {
	asked := outside.Charge{OrderID: o.ID, Cents: o.Cents, Currency: o.Currency}
	answer, err := post(ctx, c.HTTP, c.URL+"/v1/charges", key, asked)
	if err != nil {
		return outside.Payment{}, fmt.Errorf("shop: charge order %d: %w", o.ID, err)
	}
	var payment outside.Payment
	if err := json.Unmarshal(answer, &payment); err != nil {
		return outside.Payment{}, fmt.Errorf("shop: charge order %d: read the payment: %w", o.ID, err)
	}
	return payment, nil
}

// Courier is the shop's client of the receiver of webhooks.
type Courier struct {
	URL  string // of the receiver
	HTTP *http.Client
}

// Deliver tells the receiver of an event, under an idempotency key.
func (c *Courier) Deliver(ctx context.Context, key string, e Event) error {
	if _, err := post(ctx, c.HTTP, c.URL+"/hooks/"+url.PathEscape(e.Name), key, e); err != nil {
		return fmt.Errorf("shop: deliver %s: %w", e.Name, err)
	}
	return nil
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// post sends a request under an idempotency key and returns the body of an answer of
// success. Its errors say what may be known of the outcome.
func post(ctx context.Context, client *http.Client, target, key string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, worker.NotSent(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, worker.NotSent(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return answer, judge(response, answer)
}

// judge says what an answer tells of the outcome.
//
// Only a request that was understood and turned down is refused for good. After 429 and
// 409 nothing was done by this request, but an earlier one under the same key may have
// been applied, or still be; and after a 5xx anything may be. To call such an answer a
// refusal would end the key, and the next attempt would charge again under a new one. So
// they are unknown, and the same key goes out again.
func judge(response *http.Response, answer []byte) error {
	said := fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(answer))
	switch status := response.StatusCode; {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusBadRequest, status == http.StatusPaymentRequired:
		return worker.Permanent(worker.Refused(said))
	case status == http.StatusTooManyRequests:
		// Retry-After in seconds, as RFC 9110, 10.2.3 has it; the other form is a date.
		if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16); err == nil {
			return worker.RetryAfter(time.Duration(seconds)*time.Second, said)
		}
	}
	return said
}
