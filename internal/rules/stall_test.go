package rules_test

import (
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func leased(until, length time.Duration) *nexjob.Job {
	return &nexjob.Job{State: nexjob.Processing, LeaseUntil: at(until), LeaseFor: length}
}

func TestALeaseThatEndedInAGapIsForgiven(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct {
		name  string
		beats []int // seconds
		until int
		now   int
		dead  bool
	}{
		{"writes all along", []int{0, 5, 10, 15, 20, 25, 30}, 29, 30, true},
		{"not over yet", []int{0, 5, 10}, 29, 10, false},
		{"ended in a long silence", []int{0, 60}, 20, 60, false},
		{"and nobody renewed it afterwards", []int{0, 60, 65, 70, 75, 80}, 20, 80, true},
		{"the gap took 20 s, so 20 s are given back", []int{0, 60, 65, 70, 75}, 20, 79, false},
		{"at least one round of renewal", []int{0, 60, 65}, 1, 69, false},
		{"but no more", []int{0, 60, 65, 70}, 1, 70, true},
		{"ended before the silence", []int{0, 5, 65}, 4, 65, true},
		{"a gap too short to harm it", []int{0, 9}, 5, 9, true},
		{"two stalls in a row", []int{0, 60, 120}, 20, 121, false},
		{"no lease lives for ever", []int{0, 60, 120, 180, 240}, 20, 240, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p rules.Pulse
			for _, beat := range c.beats {
				p.Beat(at(seconds(beat)))
			}
			job := leased(seconds(c.until), lease)
			if dead := p.Dead(job, at(seconds(c.now))); dead != c.dead {
				t.Errorf("lease until %ds of %s at %ds: dead = %v, want %v (gaps %+v)",
					c.until, lease, c.now, dead, c.dead, p.Gaps)
			}
		})
	}
}

func TestThePulseStaysSmallAndKeepsTheLongestGaps(t *testing.T) {
	var p rules.Pulse
	now := time.Duration(0)
	p.Beat(at(now))
	now += 20 * time.Second
	p.Beat(at(now))
	for range 100 {
		now += time.Second
		p.Beat(at(now))
	}
	if len(p.Gaps) > 8 {
		t.Fatalf("%d gaps kept", len(p.Gaps))
	}
	if p.Gaps[0].End.Sub(p.Gaps[0].Start) != 20*time.Second {
		t.Errorf("the longest gap was forgotten: %+v", p.Gaps)
	}
	now += 2 * time.Hour
	p.Beat(at(now))
	if len(p.Gaps) != 1 {
		t.Errorf("gaps of two hours ago are kept: %+v", p.Gaps)
	}
}

func TestAClockThatWentBackIsNoticed(t *testing.T) {
	var p rules.Pulse
	p.Beat(at(time.Hour))
	if p.Beat(at(time.Hour - 500*time.Millisecond)) {
		t.Error("half a second is within what clocks may differ")
	}
	if !p.Beat(at(0)) {
		t.Error("an hour back was not noticed")
	}
}
