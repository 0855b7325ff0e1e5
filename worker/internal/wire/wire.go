// Package wire sees whether a call can have reached an outside service.
//
// It stands on the standard library alone and knows nothing of jobs. Start reading
// at Trace.NothingSent.
package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// Trace sees whether an HTTP request under a context got a connection. From
// then on it may have been written, whatever error is answered.
type Trace struct {
	asked atomic.Bool // for a connection
	used  atomic.Bool // one was handed out
}

// Watch returns a context under which net/http tells the trace.
func Watch(ctx context.Context) (context.Context, *Trace) {
	t := new(Trace)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { t.asked.Store(true) },
		GotConn:      func(httptrace.GotConnInfo) { t.used.Store(true) },
		WroteHeaders: func() { t.used.Store(true) },
		WroteRequest: func(httptrace.WroteRequestInfo) { t.used.Store(true) },
	}), t
}

// NothingSent reports whether an error of Send says by itself that nothing reached
// the outside service: name look-up, dialling or TLS set-up failed, or the context
// ended while there was no connection yet. Where any request got a connection it
// says nothing, because Send may have made more than one call.
func (t *Trace) NothingSent(err error) bool {
	if t.used.Load() {
		return false
	}
	var (
		client    *url.Error // of net/http
		dns       *net.DNSError
		op        *net.OpError
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &client) && t.asked.Load():
		return true
	case errors.As(err, &op):
		return op.Op == "dial" || op.Op == "proxyconnect"
	}
	return errors.As(err, &dns) || errors.As(err, &record) || errors.As(err, &verify) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}
