package demo

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/harm"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// Services that were never served are let go of like the others, so that a run which
// could not begin ends.
func TestServicesEnd(t *testing.T) {
	hand := new(harm.Hand)
	hand.Plan(nil)
	unserved, err := newServices(t.Context(), 1, hand, nil)
	if err != nil {
		t.Fatal(err)
	}
	unserved.close()

	served, err := newServices(t.Context(), 1, hand, nil)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { err = served.serve() })
	r, requestErr := http.NewRequestWithContext(t.Context(), http.MethodPost, served.url()+cast.HealthPath, http.NoBody)
	if requestErr != nil {
		t.Fatal(requestErr)
	}
	response, requestErr := http.DefaultClient.Do(r)
	if requestErr != nil {
		t.Fatal(requestErr)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusBadRequest {
		t.Errorf("a process that says nothing is answered %s", response.Status)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := served.stop(ctx); err != nil {
		t.Error(err)
	}
	serving.Wait()
	if err != nil {
		t.Error(err)
	}
}

// TestTrouble: every effect meets with some trouble at most twice, and none where its
// caller is to be killed or frozen.
func TestTrouble(t *testing.T) {
	hand := new(harm.Hand)
	hand.Plan([]harm.Deed{{Act: harm.Kill, At: harm.AfterApply, Service: outside.MailService, Item: "planned"}})
	trouble := troubling(hand, newRandom(1, streamTrouble))
	met := make(map[outside.Fault]int)
	for range 1000 {
		if fault := trouble(outside.Call{Service: outside.MailService, Item: "planned"}); fault != outside.None {
			t.Fatalf("the planned effect met %s", fault)
		}
		met[trouble(outside.Call{Service: outside.MailService, Item: "one", Caller: t.Name()})]++
	}
	if met[outside.None] != 1000-maxTrouble {
		t.Errorf("one effect met %v", met)
	}
	for i := range 1000 {
		met[trouble(outside.Call{Service: outside.PaymentService, Item: string(rune('a' + i))})]++
	}
	for _, fault := range []outside.Fault{
		outside.DropReply, outside.ServerError, outside.ServerErrorAfter, outside.TooMany, outside.InProgress,
	} {
		if met[fault] == 0 {
			t.Errorf("nobody met %s", fault)
		}
	}
}
