package outside_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// receive starts a receiver for one test.
func receive(t *testing.T, c outside.Conditions) (v *outside.Receiver, hooks string) {
	t.Helper()
	v = outside.NewReceiver(c)
	return v, listen(t, v.Handler()) + "/hooks/"
}

// TestDeliveries: a repeat is known by its key, and only by its key.
func TestDeliveries(t *testing.T) {
	v, hooks := receive(t, outside.Conditions{})
	steps := []struct {
		event, key, body string
		want             answer
	}{
		{"paid", "k1", "a", answer{status: http.StatusNoContent}},
		{"paid", "k1", "a", answer{status: http.StatusNoContent, replayed: true}},
		{"paid", "k1", "b", answer{status: http.StatusUnprocessableEntity}},
		{"sent", "k1", "a", answer{status: http.StatusUnprocessableEntity}},
		{"paid", "k2", "a", answer{status: http.StatusNoContent}}, // the harm that the audit looks for
		{"sent", "k3", "", answer{status: http.StatusNoContent}},
		{"paid", "", "a", answer{status: http.StatusBadRequest}},
		{"", "k4", "a", answer{status: http.StatusNotFound}},
		{"paid/late", "k4", "a", answer{status: http.StatusNotFound}},
	}
	for i, step := range steps {
		got := mustPost(t, hooks+step.event, step.key, step.body)
		if step.want.status == http.StatusNoContent && got.body != "" {
			t.Errorf("step %d: a body came: %q", i, got.body)
		}
		got.body = ""
		if diff := cmp.Diff(step.want, got, cmp.AllowUnexported(answer{})); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
	const a = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	want := []outside.Delivery{
		{Event: "paid", Key: "k1", BodySHA256: a, At: time.Now()},
		{Event: "paid", Key: "k2", BodySHA256: a, At: time.Now()},
		{Event: "sent", Key: "k3", BodySHA256: empty, At: time.Now()},
	}
	if diff := cmp.Diff(want, v.Deliveries(), cmpopts.EquateApproxTime(time.Minute)); diff != "" {
		t.Error(diff)
	}
	if v.Replayed() != 1 {
		t.Errorf("%d repeats were recognised, want 1", v.Replayed())
	}
}
