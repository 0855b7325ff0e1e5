package harm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

func effectsOf(orders, customers int) Effects {
	e := make(Effects)
	for i := range orders {
		e[outside.PaymentService] = append(e[outside.PaymentService], fmt.Sprintf("order %d", i))
		e[outside.WebhookService] = append(e[outside.WebhookService], fmt.Sprintf("event %d", i))
	}
	for i := range customers {
		e[outside.MailService] = append(e[outside.MailService], fmt.Sprintf("customer %d", i))
	}
	return e
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// TestDraw looks at the plan of every number of blows that ten orders allow.
func TestDraw(t *testing.T) {
	effects := effectsOf(10, 7)
	for kills := range 25 {
		for freezes := range 3 {
			if err := effects.Check(kills, freezes); err != nil {
				t.Fatal(err)
			}
			deeds := Draw(effects, kills, freezes, random(uint64(kills)))
			killed, frozen := 0, 0
			harmful := make(map[outside.Service]bool)
			used := make(map[string]bool)
			for _, d := range deeds {
				switch d.Act {
				case Kill:
					killed++
					harmful[d.Service] = harmful[d.Service] || d.At == AfterApply
				case Restart:
					t.Error("a restart is drawn by DrawRestarts")
				case Freeze:
					frozen++
					if d.At != BeforeSend && d.At != AfterApply {
						t.Errorf("a freeze %s: its caller would be served though others took over", d.At)
					}
				}
				if d.At == AnyTime {
					if d.Act == Freeze || d.Item != "" || d.After < 1 || d.After > 27 {
						t.Errorf("at any time is planned %+v", d)
					}
					continue
				}
				if used[d.Item] || d.Item == "" {
					t.Errorf("two blows at %q", d.Item)
				}
				used[d.Item] = true
			}
			if killed != kills || frozen != freezes {
				t.Errorf("asked for %d and %d, planned %d and %d", kills, freezes, killed, frozen)
			}
			for i, service := range Services() {
				if kills > i && !harmful[service] {
					t.Errorf("%d kills: none of a %s after it was applied", kills, service)
				}
			}
		}
	}
	if err := effects.Check(25, 3); err == nil {
		t.Error("28 blows at 27 effects were allowed")
	}
}

func TestDrawIsTheSeeds(t *testing.T) {
	effects := effectsOf(10, 7)
	if diff := cmp.Diff(Draw(effects, 9, 2, random(5)), Draw(effects, 9, 2, random(5))); diff != "" {
		t.Errorf("equal seeds, different plans: %s", diff)
	}
	different, anyTime := 0, 0
	for seed := range uint64(20) {
		deeds := Draw(effects, 9, 2, random(seed))
		if !cmp.Equal(deeds, Draw(effects, 9, 2, random(100))) {
			different++
		}
		for _, d := range deeds {
			if d.At == AnyTime {
				anyTime++
			}
		}
	}
	if different < 19 || anyTime < 10 {
		t.Errorf("of 20 seeds %d differ from another, and plan %d kills that are not aimed", different, anyTime)
	}
}

// TestCheck: a plan that no run can carry out is refused, however large its numbers are.
func TestCheck(t *testing.T) {
	effects := effectsOf(2, 1) // five
	for _, tt := range []struct {
		kills, freezes int
		fits           bool
	}{
		{0, 0, true},
		{5, 0, true},
		{0, 5, true},
		{3, 2, true},
		{3, 3, false},
		{6, 0, false},
		{0, 6, false},
		{math.MaxInt, 1, false},
		{1, math.MaxInt, false},
		{math.MaxInt, math.MaxInt, false},
	} {
		if err := effects.Check(tt.kills, tt.freezes); (err == nil) != tt.fits {
			t.Errorf("%d kills and %d freezes: %v", tt.kills, tt.freezes, err)
		}
	}
}
