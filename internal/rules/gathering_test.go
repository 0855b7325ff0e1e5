package rules

import (
	"testing"
	"time"
)

// TestGatheringStopsWhereItCosts: it goes on while others come cheaply, ends when nobody
// comes, and rests after it was too dear.
func TestGatheringStopsWhereItCosts(t *testing.T) {
	now := time.Now()
	var g Gathering
	for _, step := range []struct {
		took  time.Duration
		came  int
		again bool
		rests time.Duration
	}{
		{took: 100 * time.Microsecond, came: 1, again: true},
		{took: 25 * time.Millisecond, came: 1000, again: true},
		{took: 100 * time.Microsecond, came: 0, again: false},
		{took: 500 * time.Millisecond, came: 3, again: false, rests: 50 * time.Second},
		{took: 10 * time.Millisecond, came: 0, again: false, rests: time.Second},
	} {
		if !g.pays(now) {
			t.Fatalf("before %+v it rests", step)
		}
		if again := g.took(now, step.took, step.came); again != step.again {
			t.Errorf("after %+v it goes on: %v", step, again)
		}
		if step.rests > 0 && g.pays(now.Add(step.rests-1)) {
			t.Errorf("after %+v it does not rest", step)
		}
		now = now.Add(step.rests)
	}
}

// TestGather: it counts again as long as more come, and no longer than there are enough.
func TestGather(t *testing.T) {
	at := time.Now()
	clock := func() time.Time { return at } // nobody takes any time
	for _, tt := range []struct {
		counts       []int
		enough, want int
		asked        int
	}{
		{counts: []int{0}, enough: 9, want: 0, asked: 1},
		{counts: []int{1, 1}, enough: 9, want: 1, asked: 2},
		{counts: []int{1, 3, 7, 7}, enough: 9, want: 7, asked: 4},
		{counts: []int{1, 3, 9}, enough: 9, want: 9, asked: 3},
		{counts: []int{2, 1}, enough: 9, want: 1, asked: 2}, // one has left
	} {
		var g Gathering
		asked := 0
		got := g.Gather(clock, func() int { asked++; return tt.counts[asked-1] }, tt.enough)
		if got != tt.want || asked != tt.asked {
			t.Errorf("of %v: %d after %d counts, want %d after %d", tt.counts, got, asked, tt.want, tt.asked)
		}
	}
}
