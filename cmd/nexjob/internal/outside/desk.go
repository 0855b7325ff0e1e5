package outside

import (
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBody bounds a request's body.
const maxBody = 64 << 10

// desk is where an HTTP service takes requests that carry an Idempotency-Key. The
// first request under a key is applied and its answer stored; the same request again
// gets the stored answer; another request under the same key is refused with 422,
// and one that comes while the first is still worked with 409.
type desk[T any] struct {
	conditions Conditions
	ledger     ledger[T]
	status     int // of a request that was applied
}

// read returns the request's key and body, or answers why it cannot be taken.
func read(w http.ResponseWriter, r *http.Request) (key string, body []byte, ok bool) {
	key = r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > 255 {
		refuse(w, http.StatusBadRequest, "an Idempotency-Key of 1 to 255 bytes is required")
		return "", nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body cannot be read: "+err.Error())
		return "", nil, false
	}
	return key, body, true
}

// take applies the request once per key, by do, and answers it.
func (d *desk[T]) take(
	w http.ResponseWriter, r *http.Request, call Call, key string, request [sha256.Size]byte,
	do func(before int, at time.Time) (T, []byte),
) {
	known, refused := d.ledger.begin(key, request)
	if refused != nil {
		refuse(w, refused.status, refused.why)
		return
	}
	var answer []byte
	apply := func() { answer = d.ledger.finish(key, do) }
	abandon := func() { d.ledger.abandon(key) }
	if known != nil {
		apply = func() { d.ledger.replay(); answer = known.answer }
		abandon = func() {}
	}
	switch d.conditions.pass(r.Context(), call, apply, abandon) {
	case DropReply:
		panic(http.ErrAbortHandler) // net/http closes the connection and says nothing
	case ServerError, ServerErrorAfter:
		refuse(w, http.StatusInternalServerError, "something went wrong here")
	case TooMany:
		w.Header().Set("Retry-After", "1") // seconds, RFC 9110
		refuse(w, http.StatusTooManyRequests, "too many requests, come back in a second")
	case InProgress:
		refuse(w, http.StatusConflict, inProgress)
	case None:
		if known != nil {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		if len(answer) > 0 {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(d.status)
		_, _ = w.Write(answer) // a caller that is gone asks again
	}
}

// refuse answers a problem.
func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	title := strings.ToLower(http.StatusText(status))
	_ = json.NewEncoder(w).Encode(map[string]any{"title": title, "status": status, "detail": why})
}

// encode is for what cannot fail: structs of text, numbers and times of this
// century.
func encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
