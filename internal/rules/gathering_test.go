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
		if !g.Pays(now) {
			t.Fatalf("before %+v it rests", step)
		}
		if again := g.Took(now, step.took, step.came); again != step.again {
			t.Errorf("after %+v it goes on: %v", step, again)
		}
		if step.rests > 0 && g.Pays(now.Add(step.rests-1)) {
			t.Errorf("after %+v it does not rest", step)
		}
		now = now.Add(step.rests)
	}
}
