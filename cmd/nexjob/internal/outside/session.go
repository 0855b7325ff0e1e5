package outside

import (
	"bytes"
	"io"
	"mime"
	"net/mail"
	"slices"

	"github.com/emersion/go-smtp"
)

// session is one client's mails over one connection, one after the other.
type session struct {
	box  *Mailbox
	line *line
	from string
	to   []string
}

var _ smtp.Session = (*session)(nil)

func (m *Mailbox) session(c *smtp.Conn) (smtp.Session, error) {
	l, ok := c.Conn().(*line)
	if !ok { // every connection comes from lines
		return nil, &smtp.SMTPError{Code: 421, Message: "this connection is not served"}
	}
	return &session{box: m, line: l}, nil
}

// Mail begins a mail.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

// Rcpt adds a recipient.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = append(s.to, to)
	return nil
}

// Reset ends a mail, sent or not.
func (s *session) Reset() { s.from, s.to = "", nil }

// Logout ends the session.
func (s *session) Logout() error { return nil }

// Data takes the mail: what was read to its end is recorded, and its client learns
// of it if all goes well. What it returns is what the client is answered.
func (s *session) Data(r io.Reader) error {
	message, caller, err := s.readMail(r)
	if err != nil {
		return err
	}
	call := Call{Service: MailService, Item: s.to[0], Caller: caller}
	ctx, stop := s.line.watch()
	defer stop()
	switch s.box.conditions.pass(ctx, call, func() { s.box.record(message) }, func() {}) {
	case None:
		return nil
	case DropReply:
		_ = s.line.Close() // what the server then answers reaches nobody
		return notNow()
	default:
		return notNow()
	}
}

// readMail reads a mail to its end, and who sends it.
func (s *session) readMail(r io.Reader) (message Message, caller string, err error) {
	raw, err := io.ReadAll(r) // the server bounds it
	if err != nil {
		return Message{}, "", err // the server's own, which it knows how to answer
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, "", &smtp.SMTPError{
			Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "the mail's header cannot be read",
		}
	}
	ids := parsed.Header["Message-Id"]
	if len(ids) != 1 || bare(ids[0]) == "" {
		return Message{}, "", &smtp.SMTPError{
			Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "a mail needs one Message-ID",
		}
	}
	body, err := io.ReadAll(parsed.Body)
	if err != nil {
		return Message{}, "", err
	}
	subject := parsed.Header.Get("Subject")
	if plain, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
		subject = plain
	}
	return Message{
		MessageID: bare(ids[0]), From: s.from, Recipients: slices.Clone(s.to), Subject: subject, Size: len(body),
	}, parsed.Header.Get(HeaderCaller), nil
}

// notNow is SMTP's word for every trouble: local error, try again later.
func notNow() error {
	return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "not now, try again later"}
}
