package shop

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// mailbox serves a mailbox under the conditions, and returns its postbox.
func mailbox(t *testing.T, c outside.Conditions) (*outside.Mailbox, *Postbox) {
	t.Helper()
	m := outside.NewMailbox(c, nil)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.Serve(listener) }()
	asked := httptest.NewServer(m.Handler())
	t.Cleanup(func() {
		asked.Close()
		m.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m, &Postbox{Submit: SMTP(listener.Addr().String()), URL: asked.URL, HTTP: asked.Client()}
}

// TestALostMailIsFound: what the mailbox took is found by its Message-ID, whether or not
// the sender was told.
func TestALostMailIsFound(t *testing.T) {
	for _, tt := range []struct {
		fault outside.Fault
		sent  bool
		found nexjob.Verdict
	}{
		{outside.None, true, nexjob.Applied},
		{outside.DropReply, false, nexjob.Applied},
		{outside.ServerErrorAfter, false, nexjob.Applied},
		{outside.ServerError, false, nexjob.NotApplied},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			box, post := mailbox(t, outside.Conditions{Trouble: func(outside.Call) outside.Fault { return tt.fault }})
			id := messageID("nj-1")
			err := post.Send(t.Context(), id, "ada@example.org", "Welcome", "Hello.\n.\nIt goes on.")
			if (err == nil) != tt.sent {
				t.Errorf("sending was answered %v", err)
			}
			if found, err := post.Find(t.Context(), id); err != nil || found != tt.found {
				t.Errorf("the mailbox says %s, %v; want %s", found, err, tt.found)
			}
			if messages := box.Messages(); tt.found == nexjob.Applied {
				if len(messages) != 1 || messages[0].MessageID != "nj-1@shop.example" || messages[0].Subject != "Welcome" {
					t.Errorf("it holds %+v", messages)
				}
			}
		})
	}
}

// TestAMailEndsWithItsContext: an attempt that has no time left does not reach the server.
func TestAMailEndsWithItsContext(t *testing.T) {
	box, post := mailbox(t, outside.Conditions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := post.Send(ctx, messageID("nj-1"), "ada@example.org", "Welcome", "Hello."); !errors.Is(err, context.Canceled) {
		t.Errorf("sending was answered %v", err)
	}
	if messages := box.Messages(); len(messages) > 0 {
		t.Errorf("the mailbox holds %+v", messages)
	}
}

// TestRepeatsUnderOneKey: the services know a repeat by its key, whatever became of the
// answer.
func TestRepeatsUnderOneKey(t *testing.T) {
	drop := true
	c := outside.Conditions{Trouble: func(outside.Call) outside.Fault {
		if drop {
			return outside.ServerErrorAfter
		}
		return outside.None
	}}
	provider, receiver := outside.NewProvider(c), outside.NewReceiver(c)
	mux := http.NewServeMux()
	mux.Handle("/v1/charges", provider.Handler())
	mux.Handle("/hooks/", receiver.Handler())
	server := httptest.NewServer(mux)
	defer server.Close()
	cash, hooks := &Cashier{URL: server.URL, HTTP: server.Client()}, &Courier{URL: server.URL, HTTP: server.Client()}
	order := Order{ID: 7, Customer: "ada@example.org", Cents: 500, Currency: "EUR"}
	event := Event{Name: PaidEvent(7), OrderID: 7}
	if _, err := cash.Charge(t.Context(), "k", order); err == nil {
		t.Error("a server error passed for a charge")
	}
	if err := hooks.Deliver(t.Context(), "k", event); err == nil {
		t.Error("a server error passed for a delivery")
	}
	drop = false
	payment, err := cash.Charge(t.Context(), "k", order)
	if err != nil {
		t.Fatal(err)
	}
	if err := hooks.Deliver(t.Context(), "k", event); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]outside.Payment{payment}, provider.Payments()); diff != "" {
		t.Error(diff)
	}
	if deliveries := receiver.Deliveries(); len(deliveries) != 1 || deliveries[0].Event != "order-7-paid" {
		t.Errorf("the receiver holds %+v", deliveries)
	}
}
