package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nexjob/nexjob"
)

// TestPace: quick handlers are claimed ahead of, slow ones are not, whether they return
// one by one or all together, and a pace that has ended is forgotten.
func TestPace(t *testing.T) {
	const slots = 100
	for name, tt := range map[string]struct {
		every time.Duration // handlers return
		many  int           // so many at once
		least int
		most  int
	}{
		"no time at all":         {100 * time.Microsecond, 10, 500, 500},
		"10 ms":                  {100 * time.Microsecond, 1, 450, 500},
		"10 ms, all together":    {10 * time.Millisecond, slots, 450, 500},
		"50 ms":                  {500 * time.Microsecond, 1, 95, 105},
		"200 ms":                 {2 * time.Millisecond, 1, 0, 0},
		"200 ms, all together":   {200 * time.Millisecond, slots, 0, 0},
		"1 s, all together":      {time.Second, slots, 0, 0},
		"10 min, all together":   {10 * time.Minute, slots, 0, 0},
		"a few quick among many": {time.Millisecond, 2, 90, 110},
	} {
		var p pace
		now := time.Now()
		if n := p.ahead(now, slots, 500); n != 0 {
			t.Errorf("%s: %d ahead at the beginning", name, n)
		}
		for range max(int(2*time.Second/tt.every), 3) {
			now = now.Add(tt.every)
			for range tt.many {
				p.returned(now)
			}
		}
		if n := p.ahead(now, slots, 500); n < tt.least || n > tt.most {
			t.Errorf("%s: %d ahead, want %d to %d", name, n, tt.least, tt.most)
		}
		if n := p.ahead(now, slots, -1); n != 0 {
			t.Errorf("%s: %d ahead of those who want none", name, n)
		}
		if n := p.ahead(now.Add(2*time.Second), slots, 500); n != 0 {
			t.Errorf("%s: %d ahead 2 s after the last return", name, n)
		}
	}
}

// TestNothingStartsLate: what has waited too long, or whose lease has run out, is not
// started, although its timer has not fired yet.
func TestNothingStartsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		list := make([]*attempt, 4)
		for i := range list {
			list[i] = &attempt{lease: nexjob.Lease{Fence: int64(i)}, ends: time.Now().Add(time.Hour)}
		}
		list[1].ends = time.Now().Add(time.Second)
		b.keep(list[:1], time.Now().Add(time.Second))
		b.keep(list[1:2], time.Now().Add(time.Hour))
		b.keep(list[2:], time.Now().Add(2*time.Second))
		time.Sleep(time.Second)
		var started []*attempt
		start := func(a *attempt) { started = append(started, a) }
		if late := b.next(1, start); !slices.Equal(late, list[:2]) || !slices.Equal(started, list[2:3]) {
			t.Errorf("started %v of %v, late %v", started, list, late)
		}
		if late := b.next(1, start); late != nil || len(started) != 1 {
			t.Errorf("started %v beyond the slots, late %v", started, late)
		}
		if out := b.closeStock(); len(out) != 1 || out[0] != list[3] || out[0].phase != settling {
			t.Errorf("closed with %v", out)
		}
		if b.keep([]*attempt{{}}, time.Now().Add(time.Hour)) || b.waiting() != 0 {
			t.Error("a closed stock was added to")
		}
	})
}

// TestAnEmptyStockForgetsNoPace: each claim has a timer that looks for what has waited too
// long. Where all has started, it says nothing about the pace.
func TestAnEmptyStockForgetsNoPace(t *testing.T) {
	b := newBoard()
	b.pace = pace{rate: 1000, at: time.Now()}
	if late := b.late(); late != nil || b.pace.rate != 1000 {
		t.Errorf("late %v, pace %v", late, b.pace)
	}
}

// TestEachLeaseEnds: one timer serves all leases, and none is forgotten, whichever was
// renewed or began last.
func TestEachLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard()
		b.alarm.lost = func(*attempt, string) {}
		now := time.Now()
		list := make([]*attempt, 4)
		for i, ends := range []time.Duration{3 * time.Second, time.Second, 2 * time.Second, time.Second} {
			list[i] = &attempt{
				lease: nexjob.Lease{Fence: int64(i)}, ends: now.Add(ends), cancel: func(error) {},
			}
		}
		b.keep(list, now.Add(time.Hour))
		for range list {
			b.next(len(list), func(*attempt) {})
		}
		b.renewed(list[3], time.Time{}, now.Add(5*time.Second))
		for after, want := range [][]int64{nil, {1}, {1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2, 3}} {
			time.Sleep(time.Until(now.Add(time.Duration(after) * time.Second)))
			synctest.Wait()
			var lost []int64
			for _, a := range list {
				if b.phaseOf(a) == over {
					lost = append(lost, a.lease.Fence)
				}
			}
			if !slices.Equal(lost, want) {
				t.Errorf("after %d s the leases %v are lost, want %v", after, lost, want)
			}
		}
	})
}
