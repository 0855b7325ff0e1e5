package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // of the type of net/http's own field
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Whether nothing was sent is judged by real connections: each case ends in an
// error of net/http, and says whether the service can have seen the request.
func TestNothingSent(t *testing.T) {
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer hangs.Close()
	selfSigned := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the untrusted server got a request")
	}))
	selfSigned.Config.ErrorLog = log.New(io.Discard, "", 0)
	selfSigned.StartTLS()
	defer selfSigned.Close()
	silent := listen(t, func(net.Conn) {}) // accepts, never speaks TLS
	plain := listen(t, func(c net.Conn) { _, _ = fmt.Fprint(c, "this is no TLS\r\n") })
	cuts := listen(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n')
		_ = c.Close()
	})
	closed := listen(t, nil)

	get := func(ctx context.Context, url string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{TLSHandshakeTimeout: 200 * time.Millisecond, DisableKeepAlives: true}}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	tests := []struct {
		name string
		send func(ctx context.Context) error
		want bool
	}{
		{"nobody listens", func(ctx context.Context) error { return get(ctx, "http://"+closed) }, true},
		{"no such host", func(ctx context.Context) error { return get(ctx, "http://nobody.invalid") }, true},
		{"untrusted certificate", func(ctx context.Context) error { return get(ctx, selfSigned.URL) }, true},
		{"no TLS there", func(ctx context.Context) error { return get(ctx, "https://"+plain) }, true},
		{"TLS never answered", func(ctx context.Context) error { return get(ctx, "https://"+silent) }, true},
		// It was not, but a request under a context of its own would look the same.
		{"context ended before", func(ctx context.Context) error {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return get(ended, "http://"+silent)
		}, false},
		{"context ended while it was answered", func(ctx context.Context) error {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			return get(short, hangs.URL)
		}, false},
		{"cut after the request", func(ctx context.Context) error { return get(ctx, "http://"+cuts) }, false},
		{"a second call that could not dial", func(ctx context.Context) error {
			if err := get(ctx, good.URL); err != nil {
				t.Error(err)
			}
			return get(ctx, "http://"+closed)
		}, false},
		{"dialled by hand", func(ctx context.Context) error {
			_, err := new(net.Dialer).DialContext(ctx, "tcp", closed)
			return err
		}, true},
		{"any other error", func(context.Context) error { return errors.New("x") }, false},
		{"a read that failed", func(context.Context) error { return &net.OpError{Op: "read", Err: io.EOF} }, false},
		{"another error after a connection was sought", func(ctx context.Context) error {
			_ = get(ctx, "http://"+closed)
			return errors.New("of something that is not HTTP")
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, trace := Watch(t.Context())
			err := tt.send(ctx)
			if err == nil {
				t.Fatal("the send did not fail")
			}
			if got := trace.NothingSent(err); got != tt.want {
				t.Errorf("nothing sent: %v, want %v, by %v", got, tt.want, err)
			}
		})
	}
}

// listen opens a port and serves each connection; with nil the port is closed again.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if serve == nil {
		_ = listener.Close()
		return address
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go serve(conn)
		}
	}()
	return address
}
