package rules_test

import (
	"math/rand/v2"
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
		{"a gap within the lease that left less than a round", []int{0, 25, 31}, 30, 31, false},
		{"and nobody renewed it in that round", []int{0, 25, 31, 35}, 30, 35, true},
		{"a gap before it was granted", []int{0, 25, 31, 36, 41, 46, 51, 55}, 55, 55, true},
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

func TestThePulseStaysSmallAndKeepsWhatMatters(t *testing.T) {
	var p rules.Pulse
	now := time.Duration(0)
	p.Beat(at(now))
	now += 20 * time.Second
	p.Beat(at(now))
	for i := range 100 {
		now += time.Second
		p.Beat(at(now))
		if len(p.Gaps) > 16 {
			t.Fatalf("%d gaps kept", len(p.Gaps))
		}
		if long := p.Gaps[0].End.Sub(p.Gaps[0].Start) == 20*time.Second; i < 19 && !long || i > 22 && long {
			t.Fatalf("the gap of 20 s is kept %ds after it: %v", i+1, long)
		}
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

// TestAnOldOutageDoesNotHideAStall: long gaps of the last hour, which matter to no
// lease any more, must not push out the one that does.
func TestAnOldOutageDoesNotHideAStall(t *testing.T) {
	const lease = 30 * time.Second
	var p rules.Pulse
	now := time.Duration(0)
	p.Beat(at(now))
	for range 9 { // an application that starts, works for a minute, and is away for five
		now += 5 * time.Minute
		p.Beat(at(now))
		for range 60 {
			now += time.Second
			p.Beat(at(now))
		}
	}
	until := now + 5*time.Second
	now += 12 * time.Second // a stall of 12 s, in which the lease ends
	p.Beat(at(now))
	for range 8 {
		now += time.Second
		if p.Beat(at(now)); p.Dead(leased(until, lease), at(now)) {
			t.Fatalf("a lease that ended in a stall of 12 s is dead %s after it (gaps %+v)", now-until, p.Gaps)
		}
	}
	now += 3 * time.Second
	if p.Beat(at(now)); !p.Dead(leased(until, lease), at(now)) {
		t.Error("a dead worker's lease is forgiven for longer than a round of renewal")
	}
}

// TestNothingThatMattersIsForgotten: with its short memory a pulse judges every lease
// as one that remembers each gap.
func TestNothingThatMattersIsForgotten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		var p, all rules.Pulse
		now := time.Duration(0)
		p.Beat(at(0))
		for range 12 {
			was := now
			now += time.Duration(300+random.IntN(1<<random.IntN(16))) * time.Millisecond
			p.Beat(at(now))
			all.Gaps = append(all.Gaps, rules.Gap{Start: at(was), End: at(now)})
			for range 20 {
				lease := time.Duration(1+random.IntN(60)) * time.Second
				job := leased(time.Duration(random.Int64N(int64(now)+1)).Truncate(time.Microsecond), lease)
				if got, want := p.Dead(job, at(now)), all.Dead(job, at(now)); got != want {
					t.Fatalf("a lease of %s until %s at %s: dead = %v, want %v\n%+v\n%+v", lease, job.LeaseUntil, at(now), got, want, p.Gaps, all.Gaps)
				}
			}
		}
	}
}
