package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/smtp"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker"
)

// sender is the shop's own address.
const sender = "shop@shop.example"

// Submit hands one message to a mail server.
type Submit func(ctx context.Context, from, to string, message []byte) error

// Postbox is the shop's client of the mail server: SMTP to send, HTTP to ask.
type Postbox struct {
	Submit Submit
	URL    string // where the mailbox answers questions
	HTTP   *http.Client
}

// Send sends a mail under its Message-ID.
func (p *Postbox) Send(ctx context.Context, id, to, subject, text string) error {
	message := strings.Join([]string{
		"Message-ID: " + id,
		"From: The Shop <" + sender + ">",
		"To: " + to,
		"Subject: " + subject,
		"Date: " + time.Now().Format(time.RFC1123Z),
		"Content-Type: text/plain; charset=utf-8",
		"",
		text,
		"",
	}, "\r\n")
	if err := p.Submit(ctx, sender, to, []byte(message)); err != nil {
		return fmt.Errorf("shop: mail %s: %w", to, err)
	}
	return nil
}

// Find asks the mailbox whether the mail with a Message-ID has arrived.
func (p *Postbox) Find(ctx context.Context, id string) (nexjob.Verdict, error) {
	target := p.URL + "/v1/messages?" + url.Values{"message_id": {id}}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nexjob.StillUnknown, fmt.Errorf("shop: ask for mail %s: %w", id, err)
	}
	response, err := p.HTTP.Do(r)
	if err != nil {
		return nexjob.StillUnknown, fmt.Errorf("shop: ask for mail %s: %w", id, err)
	}
	defer func() { _ = response.Body.Close() }() // only the status counts
	switch response.StatusCode {
	case http.StatusOK:
		return nexjob.Applied, nil
	case http.StatusNotFound:
		return nexjob.NotApplied, nil
	}
	return nexjob.StillUnknown, fmt.Errorf("shop: ask for mail %s: %s", id, response.Status)
}

// SMTP returns what submits to the server at an address, without TLS or a name to log
// in with: the server is on this machine.
func SMTP(address string) Submit {
	return func(ctx context.Context, from, to string, message []byte) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err // an error in dialling says by itself that nothing was sent
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // the mail ends with its context
		defer func() { _ = conn.Close() }()                         // the server has its QUIT, or is gone
		if deadline, ok := ctx.Deadline(); ok {
			if err := conn.SetDeadline(deadline); err != nil {
				return worker.NotSent(err)
			}
		}
		client, err := smtp.NewClient(conn, "localhost")
		if err != nil {
			return worker.NotSent(err)
		}
		return submit(client, from, to, message)
	}
}

// submit speaks SMTP. Before the end of the message nothing is accepted (RFC 5321,
// 4.1.1.4), so an error till then says that nothing was sent. After it no answer does:
// servers are known to say 451 of a mail that they have accepted.
func submit(client *smtp.Client, from, to string, message []byte) error {
	body, err := envelope(client, from, to)
	if err != nil {
		var said *textproto.Error
		if errors.As(err, &said) && said.Code >= 500 {
			return worker.Permanent(worker.Refused(err)) // the address is no address there
		}
		return worker.NotSent(err)
	}
	if _, err := body.Write(message); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	_ = client.Quit() // the mail is accepted, whatever becomes of the connection
	return nil
}

// envelope says whose mail comes and for whom, and opens its body.
func envelope(client *smtp.Client, from, to string) (io.WriteCloser, error) {
	if err := client.Hello("shop.example"); err != nil {
		return nil, err
	}
	if err := client.Mail(from); err != nil {
		return nil, err
	}
	if err := client.Rcpt(to); err != nil {
		return nil, err
	}
	return client.Data()
}
