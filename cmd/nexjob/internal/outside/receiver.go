package outside

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"
)

// Delivery is a webhook that the receiver took as a new one. Its record of them is
// what the audit believes.
type Delivery struct {
	Event      string    `json:"event"`
	Key        string    `json:"idempotency_key"`
	BodySHA256 string    `json:"body_sha256"` // in hexadecimal
	At         time.Time `json:"at"`
}

// Receiver is the webhook endpoint of somebody else's program. POST /hooks/{event}
// needs an Idempotency-Key and answers 204. A repeat with the same key and body is
// recognised, answered 204 with Idempotent-Replayed and counted, not recorded;
// another event or body under the same key is refused with 422, and a repeat that
// comes while the first is still worked with 409.
//
// The same event under another key is a second delivery: a receiver knows a repeat
// by its key alone. A real one would check a signature as well.
type Receiver struct {
	desk desk[Delivery]
}

// NewReceiver returns a receiver with an empty record.
func NewReceiver(c Conditions) *Receiver {
	return &Receiver{desk[Delivery]{
		conditions: c.filled(), ledger: newLedger[Delivery](), status: http.StatusNoContent,
	}}
}

// Handler returns the receiver's HTTP interface.
func (v *Receiver) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{event}", v.hook)
	return mux
}

// Deliveries returns the record, oldest first.
func (v *Receiver) Deliveries() []Delivery { return v.desk.ledger.list() }

// Replayed returns how many repeats were recognised by their key.
func (v *Receiver) Replayed() int { return v.desk.ledger.replays() }

func (v *Receiver) hook(w http.ResponseWriter, r *http.Request) {
	key, body, ok := read(w, r)
	if !ok {
		return
	}
	event := r.PathValue("event")
	call := Call{Service: WebhookService, Item: event, Caller: r.Header.Get(HeaderCaller)}
	// The hash of fixed length stands first, so no event and body read as another's.
	content := sha256.Sum256(body)
	request := sha256.Sum256(append(content[:], event...))
	v.desk.take(w, r, call, key, request, func(_ int, at time.Time) (Delivery, []byte) {
		return Delivery{Event: event, Key: key, BodySHA256: hex.EncodeToString(content[:]), At: at}, nil
	})
}
