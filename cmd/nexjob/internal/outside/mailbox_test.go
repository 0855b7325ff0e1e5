package outside_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// open starts a mailbox for one test.
func open(t *testing.T, c outside.Conditions) (m *outside.Mailbox, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m = outside.NewMailbox(c, nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := m.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		m.Close()
		serving.Wait()
	})
	return m, l.Addr().String()
}

const from, ann = "shop@example.org", "ann@example.org"

// welcome is a mail with a Message-ID.
func welcome(id string) string {
	return "Message-ID: <" + id + ">\r\nSubject: Welcome\r\n" + outside.HeaderCaller + ": test\r\n\r\nHello.\r\n"
}

// send is a caller with the standard library's client, over a connection of its own.
func send(address, text string, to ...string) error {
	return smtp.SendMail(address, nil, from, to, []byte(text))
}

// code is the number by which the mailbox refused, 250 if it did not, 0 if there was
// no answer.
func code(t *testing.T, err error) int {
	t.Helper()
	var refused *textproto.Error
	switch {
	case err == nil:
		return 250
	case errors.As(err, &refused):
		return refused.Code
	case errors.Is(err, io.EOF):
		return 0
	}
	t.Error(err)
	return -1
}

func TestAMailIsRecorded(t *testing.T) {
	m, address := open(t, outside.Conditions{})
	text := "From: The Shop <other@example.org>\r\nMessage-ID:\r\n <welcome-1@example.org> \r\n" +
		"Subject: =?utf-8?q?Willkommen=2C_J=C3=BCrgen?=\r\n" + outside.HeaderCaller + ": test\r\n\r\n" +
		"Hello.\r\n..and a line with a dot\r\n"
	if err := send(address, text, ann, "bob@example.org"); err != nil {
		t.Fatal(err)
	}
	want := []outside.Message{{
		MessageID: "welcome-1@example.org", From: from, Recipients: []string{ann, "bob@example.org"},
		Subject: "Willkommen, Jürgen", Size: len("Hello.\r\n..and a line with a dot\r\n"), At: time.Now(),
	}}
	if diff := cmp.Diff(want, m.Messages(), cmpopts.EquateApproxTime(time.Minute)); diff != "" {
		t.Error(diff)
	}
}

// TestAMailTwiceIsTwoMails: SMTP has no idempotency key, and the mailbox must not
// do the shop's work.
func TestAMailTwiceIsTwoMails(t *testing.T) {
	m, address := open(t, outside.Conditions{})
	for range 2 {
		if err := send(address, welcome("w1@example.org"), ann); err != nil {
			t.Fatal(err)
		}
	}
	messages := m.Messages()
	if len(messages) != 2 || messages[0].MessageID != messages[1].MessageID {
		t.Errorf("recorded %+v, want the mail twice", messages)
	}
}

func TestRefusedMails(t *testing.T) {
	var nine []string
	for i := range 9 {
		nine = append(nine, fmt.Sprintf("c%d@example.org", i))
	}
	tests := []struct {
		name, text string
		to         []string
		code       int
	}{
		{"no Message-ID", "Subject: Welcome\r\n\r\nHello.\r\n", []string{ann}, 554},
		{"empty Message-ID", "Message-ID: <>\r\n\r\nHello.\r\n", []string{ann}, 554},
		{"two Message-IDs", "Message-ID: <a@example.org>\r\n" + welcome("b@example.org"), []string{ann}, 554},
		{"Message-ID in the body", "Subject: Welcome\r\n\r\n" + welcome("a@example.org"), []string{ann}, 554},
		{"no header", "Hello.\r\n", []string{ann}, 554},
		{"nothing", "", []string{ann}, 554},
		{"too large", welcome("a@example.org") + strings.Repeat("more and more\r\n", 5_000), []string{ann}, 552},
		{"too many recipients", welcome("a@example.org"), nine, 452},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var w watching
			m, address := open(t, outside.Conditions{Gate: w.gate})
			if got := code(t, send(address, tt.text, tt.to...)); got != tt.code {
				t.Errorf("answered %d, want %d", got, tt.code)
			}
			if len(m.Messages()) != 0 || len(w.list()) != 0 {
				t.Errorf("recorded %+v, passed the gate %+v", m.Messages(), w.list())
			}
		})
	}
}

// client is one connection to the mailbox.
type client struct {
	*smtp.Client
	conn net.Conn
}

func dial(t *testing.T, address string) client {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := smtp.NewClient(conn, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{c, conn}
}

// mail sends one mail and waits for its answer.
func (c client) mail(text string, to ...string) error {
	if err := c.Mail(from); err != nil {
		return err
	}
	for _, one := range to {
		if err := c.Rcpt(one); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return errors.Join(err, w.Close())
}

func TestMailTrouble(t *testing.T) {
	for _, tt := range faults {
		t.Run(tt.fault.String(), func(t *testing.T) {
			m, address := open(t, outside.Conditions{Trouble: scripted(tt.fault)})
			c := dial(t, address)
			want, recorded := 451, 0
			if tt.fault == outside.DropReply {
				want = 0
			}
			if tt.applied {
				recorded = 1
			}
			if got := code(t, c.mail(welcome("w1@example.org"), ann)); got != want {
				t.Errorf("answered %d, want %d", got, want)
			}
			if n := len(m.Messages()); n != recorded {
				t.Errorf("%d mails were recorded, want %d", n, recorded)
			}
			again := c.mail(welcome("w1@example.org"), ann)
			if tt.fault == outside.DropReply {
				if again == nil {
					t.Error("the connection is still there")
				}
				return
			}
			if again != nil {
				t.Errorf("the same connection afterwards: %v", again)
			}
			if n := len(m.Messages()); n != recorded+1 {
				t.Errorf("%d mails were recorded in the end, want %d", n, recorded+1)
			}
		})
	}
}

func TestASenderThatDies(t *testing.T) {
	for i, at := range moments {
		t.Run(at.String(), func(t *testing.T) {
			var died atomic.Bool
			m, address := open(t, outside.Conditions{Gate: func(_ context.Context, moment outside.Moment, _ outside.Call) bool {
				return moment == at && died.CompareAndSwap(false, true)
			}})
			if got := code(t, send(address, welcome("w1@example.org"), ann)); got != 0 {
				t.Errorf("a dead sender was answered %d", got)
			}
			if n := len(m.Messages()); n != i {
				t.Errorf("%d mails were recorded, want %d", n, i)
			}
			if err := send(address, welcome("w2@example.org"), ann); err != nil {
				t.Errorf("the next mail: %v", err)
			}
		})
	}
}

// TestTheGateSeesAMail: the call is about the first recipient.
func TestTheGateSeesAMail(t *testing.T) {
	var w watching
	_, address := open(t, outside.Conditions{Gate: w.gate})
	if err := send(address, welcome("w1@example.org"), ann, "bob@example.org"); err != nil {
		t.Fatal(err)
	}
	call := outside.Call{Service: outside.MailService, Item: ann, Caller: "test"}
	if diff := cmp.Diff([]passage{{outside.BeforeApply, call}, {outside.AfterApply, call}}, w.list()); diff != "" {
		t.Error(diff)
	}
}

// TestAMailHeldAtTheGate looks it up meanwhile, as another worker would, and sends a
// command ahead, which must neither end the gate's context nor be lost.
func TestAMailHeldAtTheGate(t *testing.T) {
	for i, at := range moments {
		t.Run(at.String(), func(t *testing.T) {
			h := newHolding(at)
			m, address := open(t, outside.Conditions{Gate: h.gate})
			c := dial(t, address)
			var err error
			var group sync.WaitGroup
			group.Go(func() { err = c.mail(welcome("w1@example.org"), ann) })
			held := <-h.held
			if status, _ := look(t, m, "w1@example.org"); (status == http.StatusOK) != (i == 1) {
				t.Errorf("a look-up was answered %d", status)
			}
			if _, err := io.WriteString(c.conn, "NOOP\r\n"); err != nil {
				t.Error(err)
			}
			if held.Err() != nil {
				t.Error("the gate's context ended before the connection")
			}
			h.release <- false
			group.Wait()
			if err != nil {
				t.Errorf("the held mail: %v", err)
			}
			if _, _, err := c.Text.ReadResponse(250); err != nil {
				t.Errorf("the command sent ahead: %v", err)
			}
			if err := c.Noop(); err != nil {
				t.Errorf("the next command: %v", err)
			}
			if n := len(m.Messages()); n != 1 {
				t.Errorf("%d mails were recorded, want 1", n)
			}
		})
	}
}

// TestTheGateSeesASenderHangUp: a mail received to its end is recorded even so.
func TestTheGateSeesASenderHangUp(t *testing.T) {
	h := newHolding(outside.BeforeApply)
	m, address := open(t, outside.Conditions{Gate: h.gate})
	c := dial(t, address)
	var group sync.WaitGroup
	group.Go(func() { _ = c.mail(welcome("w1@example.org"), ann) })
	held := <-h.held
	if err := c.conn.Close(); err != nil {
		t.Error(err)
	}
	mustEnd(t, held)
	group.Wait()
	h.release <- false
	m.Close() // waits for the call
	if n := len(m.Messages()); n != 1 {
		t.Errorf("%d mails were recorded, want 1", n)
	}
}

// TestHalfAMailIsNone: the sender died while it sent.
func TestHalfAMailIsNone(t *testing.T) {
	for _, commands := range []string{
		"DATA\r\n" + strings.TrimSuffix(welcome("w1@example.org"), "\r\n"),
		"BDAT 30\r\nMessage-ID: <w1@example.org>\r\n",
	} {
		t.Run(commands[:4], func(t *testing.T) {
			m, address := open(t, outside.Conditions{})
			c := dial(t, address)
			if err := errors.Join(c.Mail(from), c.Rcpt(ann)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(c.conn, commands); err != nil {
				t.Fatal(err)
			}
			if _, _, err := c.Text.ReadResponse(0); err != nil && code(t, err) >= 400 {
				t.Fatal(err)
			}
			if err := c.conn.Close(); err != nil {
				t.Error(err)
			}
			if err := m.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if n := len(m.Messages()); n != 0 {
				t.Errorf("%d mails were recorded, want none", n)
			}
		})
	}
}

// TestAMailInChunks comes by BDAT (RFC 3030), which the server offers.
func TestAMailInChunks(t *testing.T) {
	var w watching
	m, address := open(t, outside.Conditions{Gate: w.gate})
	c := dial(t, address)
	if err := errors.Join(c.Mail(from), c.Rcpt(ann)); err != nil {
		t.Fatal(err)
	}
	text := welcome("w1@example.org")
	for _, chunk := range []string{
		fmt.Sprintf("BDAT 20\r\n%s", text[:20]), fmt.Sprintf("BDAT %d LAST\r\n%s", len(text)-20, text[20:]),
	} {
		if _, err := io.WriteString(c.conn, chunk); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Text.ReadResponse(250); err != nil {
			t.Error(err)
		}
	}
	if len(m.Messages()) != 1 || len(w.list()) != 2 {
		t.Errorf("recorded %+v, passed the gate %+v", m.Messages(), w.list())
	}
}

func TestManyMailsAtOnce(t *testing.T) {
	m, address := open(t, outside.Conditions{})
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			if err := send(address, welcome(fmt.Sprintf("w%d@example.org", i/2)), ann); err != nil {
				t.Error(err)
			}
			m.Messages()
		})
	}
	group.Wait()
	if n := len(m.Messages()); n != 16 {
		t.Errorf("%d mails were recorded, want 16", n)
	}
}

// look asks for a mail by its Message-ID.
func look(t *testing.T, m *outside.Mailbox, id string) (status int, found outside.Message) {
	t.Helper()
	target := "/v1/messages"
	if id != "" {
		target += "?" + url.Values{"message_id": {id}}.Encode()
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody))
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
			t.Error(err)
		}
	}
	return w.Code, found
}

func TestLookUp(t *testing.T) {
	m, address := open(t, outside.Conditions{})
	for _, id := range []string{"w1+a@example.org", "w2@example.org", "w1+a@example.org"} {
		if err := send(address, welcome(id), ann); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		id     string
		status int
		record int
	}{
		{"w1+a@example.org", http.StatusOK, 0},
		{"<w1+a@example.org>", http.StatusOK, 0},
		{"w2@example.org", http.StatusOK, 1},
		{"w3@example.org", http.StatusNotFound, 0},
		{"W2@example.org", http.StatusNotFound, 0},
		{"", http.StatusBadRequest, 0},
	} {
		status, found := look(t, m, tt.id)
		if status != tt.status {
			t.Errorf("%q was answered %d, want %d", tt.id, status, tt.status)
		}
		if status == http.StatusOK {
			if diff := cmp.Diff(m.Messages()[tt.record], found); diff != "" {
				t.Errorf("%q was answered otherwise than recorded: %s", tt.id, diff)
			}
		}
	}
}
