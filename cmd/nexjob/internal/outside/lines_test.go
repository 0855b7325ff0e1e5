package outside_test

import (
	"context"
	"errors"
	"net"
	"net/smtp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// pipes is a listener within the process, so that a test's time can be synctest's:
// its bubble also fails the test if a goroutine outlives it.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newPipes() *pipes { return &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return new(net.TCPAddr) }

// dial returns a client, or nil if nobody listens.
func (p *pipes) dial(t *testing.T) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
	case <-p.closed:
		return nil
	}
	c, err := smtp.NewClient(ours, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	return &client{c, ours}
}

// bubble runs a test with a mailbox in a bubble, and waits for the mailbox's end.
func bubble(t *testing.T, c outside.Conditions, test func(t *testing.T, m *outside.Mailbox, p *pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, p := outside.NewMailbox(c, nil), newPipes()
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := m.Serve(p); err != nil {
				t.Error(err)
			}
		})
		test(t, m, p)
		serving.Wait()
	})
}

// fiveMinutes is a gate that holds every call for so long, unless the connection
// ends: then the caller died.
func fiveMinutes(ctx context.Context, _ outside.Moment, _ outside.Call) (died bool) {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(5 * time.Minute):
		return false
	}
}

// TestAGateMayHoldLongerThanAReadMayTake: the frozen sender of a mail that is held
// for minutes is answered once it is thawed.
func TestAGateMayHoldLongerThanAReadMayTake(t *testing.T) {
	bubble(t, outside.Conditions{Gate: fiveMinutes}, func(t *testing.T, m *outside.Mailbox, p *pipes) {
		c := p.dial(t)
		if err := c.mail(welcome("w1@example.org"), ann); err != nil {
			t.Error(err)
		}
		if err := c.mail(welcome("w2@example.org"), ann); err != nil {
			t.Errorf("the next mail on the connection: %v", err)
		}
		if err := c.Quit(); err != nil {
			t.Error(err)
		}
		if err := m.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnIdleClientIsSentAway(t *testing.T) {
	bubble(t, outside.Conditions{}, func(t *testing.T, m *outside.Mailbox, p *pipes) {
		c, since := p.dial(t), time.Now()
		if _, _, err := c.Text.ReadResponse(421); err != nil {
			t.Error(err)
		}
		if idle := time.Since(since); idle != 30*time.Second {
			t.Errorf("it was sent away after %s, want 30s", idle)
		}
		if err := m.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownWaitsForAMail(t *testing.T) {
	bubble(t, outside.Conditions{Gate: fiveMinutes}, func(t *testing.T, m *outside.Mailbox, p *pipes) {
		c := p.dial(t)
		var group sync.WaitGroup
		group.Go(func() {
			if err := c.mail(welcome("w1@example.org"), ann); err != nil {
				t.Errorf("the mail that was under way: %v", err)
			}
			_ = c.Quit()
		})
		synctest.Wait()
		group.Go(func() {
			if err := m.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if n := len(m.Messages()); n != 1 {
				t.Errorf("%d mails were recorded when it returned, want 1", n)
			}
		})
		synctest.Wait()
		if p.dial(t) != nil {
			t.Error("it still takes connections")
		}
		group.Wait()
	})
}

// TestShutdownCutsWhatDoesNotEnd: a call held at its gate, and a client that only
// stays.
func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	for name, stop := range map[string]func(*testing.T, *outside.Mailbox) time.Duration{
		"Shutdown": func(t *testing.T, m *outside.Mailbox) time.Duration {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := m.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it returned %v", err)
			}
			return 10 * time.Second
		},
		"Close": func(_ *testing.T, m *outside.Mailbox) time.Duration {
			m.Close()
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, outside.Conditions{Gate: fiveMinutes}, func(t *testing.T, m *outside.Mailbox, p *pipes) {
				held, idle := p.dial(t), p.dial(t)
				var group sync.WaitGroup
				group.Go(func() {
					if got := code(t, held.mail(welcome("w1@example.org"), ann)); got != 0 {
						t.Errorf("the held mail was answered %d", got)
					}
				})
				synctest.Wait()
				since := time.Now()
				want := stop(t, m)
				if took := time.Since(since); took != want {
					t.Errorf("it took %s, want %s", took, want)
				}
				group.Wait()
				if err := idle.Noop(); err == nil {
					t.Error("the idle client is still served")
				}
				if n := len(m.Messages()); n != 0 {
					t.Errorf("%d mails were recorded of one that died before", n)
				}
				m.Close() // once more is no harm
				if err := m.Serve(newPipes()); err != nil {
					t.Errorf("Serve afterwards: %v", err)
				}
			})
		})
	}
}
