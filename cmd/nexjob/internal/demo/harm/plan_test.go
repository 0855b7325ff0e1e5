package demo

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tenOrders() []Line {
	var lines []Line
	for id := range int64(10) {
		lines = append(lines, Line{OrderID: id + 1, Cents: 100, Currency: "EUR"})
	}
	return append(lines, lines...)
}

func TestPlanKills(t *testing.T) {
	for n := range 3*10 + 1 {
		planned := planKills(tenOrders(), n, 5)
		total, after, most, least := 0, 0, 0, 10
		for id := range int64(10) {
			moments := planned[id+1]
			total += len(moments)
			most, least = max(most, len(moments)), min(least, len(moments))
			for _, at := range moments {
				if at == outside.AfterApply {
					after++
				}
			}
		}
		if total != n || most-least > 1 || after != (n+1)/2 {
			t.Errorf("%d kills: planned %d, %d to %d per order, %d after apply", n, total, least, most, after)
		}
	}
	if diff := cmp.Diff(planKills(tenOrders(), 4, 5), planKills(tenOrders(), 4, 5)); diff != "" {
		t.Errorf("equal seeds, different plans: %s", diff)
	}
	different := 0
	for seed := range uint64(20) {
		if !cmp.Equal(planKills(tenOrders(), 1, 0), planKills(tenOrders(), 1, seed)) {
			different++
		}
	}
	if different < 10 {
		t.Errorf("of 20 seeds only %d kill another order than seed 0", different)
	}
}

func callOf(t *testing.T, order int64, worker string) outside.Call {
	t.Helper()
	lease := nexjob.Lease{Job: nexjob.NewID(), Fence: 7}
	return outside.Call{
		Service: outside.PaymentService, Item: strconv.FormatInt(order, 10),
		Caller: asJSON(t, caller{Worker: worker, Lease: lease}),
	}
}

func TestAKillHappensAtItsMomentAndOnce(t *testing.T) {
	var victims []string
	var followed []Kill
	k := &kills{
		kill:    func(worker string) (int, bool) { victims = append(victims, worker); return 99, true },
		killed:  func(_ context.Context, kill Kill) { followed = append(followed, kill) },
		planned: map[int64][]outside.Moment{2: {outside.AfterApply, outside.BeforeApply}},
	}
	call := callOf(t, 2, "worker-1.1")
	steps := []struct {
		at   outside.Moment
		call outside.Call
		died bool
	}{
		{outside.BeforeApply, callOf(t, 1, "worker-1.1"), false}, // not planned
		{outside.BeforeApply, call, false},                       // not yet
		{outside.AfterApply, call, true},
		{outside.BeforeApply, call, true}, // the next attempt meets the second kill
		{outside.BeforeApply, call, false},
		{outside.AfterApply, call, false}, // the plan is used up
	}
	for i, step := range steps {
		if died := k.gate(t.Context(), step.at, step.call); died != step.died {
			t.Errorf("step %d: died = %t", i, died)
		}
	}
	if diff := cmp.Diff([]string{"worker-1.1", "worker-1.1"}, victims); diff != "" {
		t.Error(diff)
	}
	done := k.list()
	if len(done) != 2 || len(followed) != 2 || done[0] != followed[0] {
		t.Fatalf("%d kills counted, %d followed", len(done), len(followed))
	}
	if done[0].PID != 99 || done[0].OrderID != 2 || done[0].At != outside.AfterApply || done[0].Lease.Fence != 7 {
		t.Errorf("counted as %+v", done[0])
	}
}

// TestAKillThatMissedStaysPlanned: what does not hit a worker inside a charge does
// not count, and the next attempt meets it again.
func TestAKillThatMissedStaysPlanned(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		alive bool
		call  outside.Call
		died  bool
	}{
		{"the caller had hung up", ended, true, callOf(t, 2, "w"), true},
		{"the worker was dead already", t.Context(), false, callOf(t, 2, "w"), true},
		{"the caller does not say who it is", t.Context(), true, outside.Call{Item: "2", Caller: "curl"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := &kills{
				kill:    func(string) (int, bool) { return 99, tt.alive },
				killed:  func(context.Context, Kill) { t.Error("it was followed up as a kill") },
				planned: map[int64][]outside.Moment{2: {outside.AfterApply}},
			}
			if died := k.gate(tt.ctx, outside.AfterApply, tt.call); died != tt.died {
				t.Errorf("died = %t", died)
			}
			if len(k.list()) != 0 {
				t.Error("it was counted")
			}
			k.kill = func(string) (int, bool) { return 99, true }
			k.killed = func(context.Context, Kill) {}
			if !k.gate(t.Context(), outside.AfterApply, callOf(t, 2, "w")) {
				t.Error("the next attempt was spared")
			}
		})
	}
}
