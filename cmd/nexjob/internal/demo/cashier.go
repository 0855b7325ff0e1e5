package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/worker"
)

// cashier is the shop's client of the payment provider.
type cashier struct {
	url    string // of the provider
	worker string // who asks, for the provider's gate
	http   *http.Client
}

// committed waits until the demo's witness has looked at what a transaction left.
// Nobody depends on it: if it cannot be asked, the shop goes on.
func (c *cashier) committed(ctx context.Context, order int64, job nexjob.ID) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	body, err := json.Marshal(commit{OrderID: order, Job: job})
	if err != nil {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+commitPath, bytes.NewReader(body))
	if err != nil {
		return
	}
	if response, err := c.http.Do(r); err == nil {
		_ = response.Body.Close()
	}
}

// commitPath is where the witness is told of a commit.
const commitPath = "/demo/commits"

// commit is what the witness is told.
type commit struct {
	OrderID int64     `json:"order_id"`
	Job     nexjob.ID `json:"job"`
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// caller is who asks, as the demo's workers tell the gate.
type caller struct {
	Worker string       `json:"worker"`
	Lease  nexjob.Lease `json:"lease"`
}

// callerOf reads what a call says of its sender.
func callerOf(call outside.Call) (caller, error) {
	var who caller
	if err := json.Unmarshal([]byte(call.Caller), &who); err != nil {
		return who, fmt.Errorf("demo: a call does not say who sends it: %w", err)
	}
	return who, nil
}

// orderOf is the order that a call to the provider is about; 0 if it is about none.
func orderOf(call outside.Call) int64 {
	order, err := strconv.ParseInt(call.Item, 10, 64)
	if err != nil {
		return 0
	}
	return order
}

// charge asks for a charge under an idempotency key. An error that comes back from
// it is an unknown outcome, unless the provider said that it will not do it.
func (c *cashier) charge(
	ctx context.Context, key string, lease nexjob.Lease, asked outside.Charge,
) (outside.Payment, error) {
	body, err := json.Marshal(asked)
	if err != nil {
		return outside.Payment{}, worker.Refused(fmt.Errorf("demo: encode the charge: %w", err))
	}
	who, err := json.Marshal(caller{Worker: c.worker, Lease: lease})
	if err != nil {
		return outside.Payment{}, worker.Refused(fmt.Errorf("demo: say who asks: %w", err))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/charges", bytes.NewReader(body))
	if err != nil {
		return outside.Payment{}, worker.Refused(fmt.Errorf("demo: ask for the charge: %w", err))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set(outside.HeaderCaller, string(who))
	response, err := c.http.Do(r)
	if err != nil {
		return outside.Payment{}, fmt.Errorf("demo: ask for the charge: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return outside.Payment{}, fmt.Errorf("demo: read the provider's answer: %w", err)
	}
	switch response.StatusCode {
	case http.StatusCreated:
		var payment outside.Payment
		if err := json.Unmarshal(answer, &payment); err != nil {
			return outside.Payment{}, fmt.Errorf("demo: read the payment: %w", err)
		}
		return payment, nil
	case http.StatusBadRequest, http.StatusPaymentRequired:
		return outside.Payment{}, worker.Refused(fmt.Errorf("demo: the provider says %s: %s", response.Status, answer))
	default:
		// 409: an earlier request is still worked. 422: the key stands for another
		// request, of which this one knows nothing. 429 and 5xx: anything may be.
		return outside.Payment{}, fmt.Errorf("demo: the provider says %s: %s", response.Status, answer)
	}
}
