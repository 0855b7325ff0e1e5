package outside

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// Message is a mail that the mailbox took: the customer can read it. Its record of
// them is what the audit believes.
type Message struct {
	MessageID  string    `json:"message_id"` // without the angle brackets, which RFC 5322 counts as no part of it
	From       string    `json:"from"`       // of the envelope, as the recipients
	Recipients []string  `json:"recipients"`
	Subject    string    `json:"subject"`
	Size       int       `json:"size"` // of the body, in bytes
	At         time.Time `json:"at"`
}

// What the mailbox takes.
const (
	maxMessage    = 64 << 10
	maxRecipients = 8
	smtpTimeout   = 30 * time.Second // of a read and of a write
)

// Mailbox is an SMTP server and all the mailboxes behind it. It takes every mail
// that has a Message-ID, from anybody to anybody, and records it. As real ones do,
// it takes a mail that comes twice for two mails, whatever their Message-IDs: SMTP
// has no idempotency key. So whoever lost the answer has to look: GET
// /v1/messages?message_id=… answers the record, or 404. A real provider's list of
// mails may lag behind by seconds; this one knows a mail once it is recorded.
//
// It neither forwards nor keeps what mails say, and knows no users and no TLS.
type Mailbox struct {
	conditions Conditions
	server     *smtp.Server
	lines      *lines

	mu       sync.Mutex
	messages []Message
}

// NewMailbox returns a mailbox with an empty record. log hears of what goes wrong on
// connections, such as those of callers that were killed; it may be nil.
func NewMailbox(c Conditions, log *slog.Logger) *Mailbox {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Mailbox{conditions: c.filled(), lines: newLines()}
	m.server = smtp.NewServer(smtp.BackendFunc(m.session))
	m.server.Domain = "localhost"
	m.server.MaxMessageBytes = maxMessage
	m.server.MaxRecipients = maxRecipients
	m.server.ReadTimeout, m.server.WriteTimeout = smtpTimeout, smtpTimeout
	m.server.ErrorLog = complaints{log}
	return m
}

// Serve takes mails from the listener, and closes it, until Shutdown or Close; then
// it returns nil.
func (m *Mailbox) Serve(l net.Listener) error {
	counted, leave := m.lines.enter(l)
	defer leave()
	if err := m.server.Serve(counted); err != nil && !m.lines.stopping() {
		return fmt.Errorf("outside: serve SMTP: %w", err)
	}
	return nil
}

// Shutdown takes no more connections and waits for those there are. When ctx ends
// it cuts them, and still waits until the calls have ended, which a gate can delay
// that does not heed its context. Nothing of the mailbox runs when it returns.
func (m *Mailbox) Shutdown(ctx context.Context) error {
	m.lines.stop(func() { _ = m.server.Shutdown(context.WithoutCancel(ctx)) })
	select {
	case <-m.lines.ended:
		return nil
	case <-ctx.Done():
		m.lines.cut()
		<-m.lines.ended
		return fmt.Errorf("outside: connections were cut: %w", ctx.Err())
	}
}

// Close cuts all connections and waits as Shutdown does.
func (m *Mailbox) Close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Shutdown(ctx) // it says that there were connections to cut
}

// Handler returns the HTTP interface by which senders look mails up.
func (m *Mailbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/messages", m.lookUp)
	return mux
}

// Messages returns the record, oldest first.
func (m *Mailbox) Messages() []Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.messages)
}

func (m *Mailbox) record(message Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	message.At = time.Now().UTC()
	m.messages = append(m.messages, message)
}

// lookUp answers the first mail with a Message-ID, which may be asked for with or
// without its angle brackets.
func (m *Mailbox) lookUp(w http.ResponseWriter, r *http.Request) {
	id := bare(r.URL.Query().Get("message_id"))
	if id == "" {
		refuse(w, http.StatusBadRequest, "a message_id is required")
		return
	}
	messages := m.Messages()
	i := slices.IndexFunc(messages, func(message Message) bool { return message.MessageID == id })
	if i < 0 {
		refuse(w, http.StatusNotFound, "there is no mail with this Message-ID")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(messages[i])) // a caller that is gone asks again
}

// bare is a Message-ID without its angle brackets.
func bare(id string) string {
	id = strings.TrimSpace(id)
	if inner, ok := strings.CutPrefix(id, "<"); ok {
		if inner, ok := strings.CutSuffix(inner, ">"); ok {
			return inner
		}
	}
	return id
}

// complaints hands the SMTP server's log lines to a structured log.
type complaints struct{ log *slog.Logger }

// Printf hands on a line.
func (c complaints) Printf(format string, v ...any) {
	c.log.Warn("mailbox", "said", fmt.Sprintf(format, v...))
}

// Println hands on a line.
func (c complaints) Println(v ...any) {
	c.log.Warn("mailbox", "said", fmt.Sprint(v...))
}
