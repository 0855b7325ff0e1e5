package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

func processing() *nexjob.Job {
	job := rules.NewRecord(&nexjob.NewJob{ID: nexjob.NewID(), Kind: "k"}, nexjob.NewID(), start)
	rules.Claim(&job, start, 7, &nexjob.ClaimRequest{Worker: "w", Lease: time.Minute})
	return &job
}

func openEffect(lookup bool) []nexjob.Receipt {
	return []nexjob.Receipt{{
		Sort: nexjob.EffectReceipt, State: nexjob.Intended, Lookup: lookup,
		SendBefore: at(10 * time.Second), LookupAfter: time.Minute,
	}}
}

func TestNothingEndsAJobWhileAnEffectHasNoOutcome(t *testing.T) {
	settle := func(as nexjob.Ending) func(*nexjob.Job, []nexjob.Receipt) {
		return func(j *nexjob.Job, open []nexjob.Receipt) {
			rules.Settle(j, &nexjob.Settlement{Lease: j.Lease(), As: as}, open, start)
		}
	}
	for _, c := range []struct {
		name   string
		end    func(*nexjob.Job, []nexjob.Receipt)
		wished nexjob.State
	}{
		{"success", settle(nexjob.EndSucceeded), nexjob.Succeeded},
		{"failure", settle(nexjob.EndFailed), nexjob.Failed},
		{"cancel", settle(nexjob.EndCancelled), nexjob.Cancelled},
		{"last try", func(j *nexjob.Job, open []nexjob.Receipt) {
			j.Tries = j.MaxAttempts - 1
			settle(nexjob.EndRetry)(j, open)
		}, nexjob.Failed},
		{"stopped", func(j *nexjob.Job, open []nexjob.Receipt) {
			j.Stop = true
			settle(nexjob.EndRetry)(j, open)
		}, nexjob.Cancelled},
		{"crash limit", func(j *nexjob.Job, open []nexjob.Receipt) { rules.Recover(j, open, 1, start) }, nexjob.Failed},
		{"deadline", func(j *nexjob.Job, open []nexjob.Receipt) { rules.Expire(j, open, start) }, nexjob.Expired},
	} {
		for _, lookup := range []bool{false, true} {
			j := processing()
			c.end(j, openEffect(lookup))
			if j.State != nexjob.Uncertain || j.Wished != c.wished {
				t.Errorf("%s: state %s, wished %s, want Uncertain and %s", c.name, j.State, j.Wished, c.wished)
			}
			if lookup != !j.DueAt.IsZero() {
				t.Errorf("%s: with look-up %v it is due at %s", c.name, lookup, j.DueAt)
			}
			if lookup && (!j.DueAt.Equal(at(time.Second)) || j.Lookups != 0) {
				t.Errorf("%s: looked up at %s, after %d", c.name, j.DueAt, j.Lookups)
			}
			j = processing()
			c.end(j, nil)
			if j.State != c.wished {
				t.Errorf("%s without an open effect: %s, want %s", c.name, j.State, c.wished)
			}
		}
	}
}

func TestOneThingIsCountedPerEnding(t *testing.T) {
	type counts struct{ tries, crashes, interruptions, snoozes, lookups int }
	for as, want := range map[nexjob.Ending]counts{
		nexjob.EndSucceeded:   {},
		nexjob.EndFailed:      {tries: 1},
		nexjob.EndRetry:       {tries: 1},
		nexjob.EndSnoozed:     {snoozes: 1},
		nexjob.EndInterrupted: {interruptions: 1},
		nexjob.EndUncertain:   {lookups: 1},
		nexjob.EndCancelled:   {},
		nexjob.EndCrashed:     {crashes: 1},
	} {
		j := processing()
		if as == nexjob.EndCrashed {
			rules.Recover(j, nil, 5, start)
		} else {
			rules.Settle(j, &nexjob.Settlement{Lease: j.Lease(), As: as}, openEffect(false), at(time.Hour))
		}
		got := counts{j.Tries, j.Crashes, j.Interruptions, j.Snoozes, j.Lookups}
		if got != want {
			t.Errorf("%s: %+v, want %+v", as, got, want)
		}
		if len(j.Attempts) != 1 || j.Attempts[0].Ending != as || j.Attempts[0].Fence != 7 {
			t.Errorf("%s: attempts %+v", as, j.Attempts)
		}
	}
}

// Look-ups that came before "not applied" counts are free; the others, and those that
// died, are counted, so that they do not go on for ever.
func TestEarlyLookupsAreFree(t *testing.T) {
	j := processing()
	uncertain := &nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndUncertain, Delay: time.Second}
	open := openEffect(true)
	from := open[0].NotAppliedFrom()
	for _, tt := range []struct {
		now  time.Time
		want int
	}{{start, 0}, {from.Add(-time.Microsecond), 0}, {from, 1}, {from.Add(time.Hour), 2}} {
		j.State = nexjob.Processing
		rules.Settle(j, uncertain, open, tt.now)
		if j.Lookups != tt.want || !j.DueAt.Equal(tt.now.Add(time.Second)) {
			t.Errorf("at %s: %d look-ups, want %d; due at %s", tt.now, j.Lookups, tt.want, j.DueAt)
		}
	}

	j, now := processing(), start
	rules.Recover(j, open, 1, now) // at the crash limit
	looks := 0
	for ; !j.DueAt.IsZero() && looks < 100; looks++ {
		if now = j.DueAt; looks > 0 && now.Before(from) {
			t.Errorf("look-up %d, after one that died, is due at %s, before %s", looks, now, from)
		}
		rules.Claim(j, now, int64(10+looks), &nexjob.ClaimRequest{Lease: 10 * time.Second})
		rules.Recover(j, open, 1, now.Add(10*time.Second))
	}
	if looks != 22 || j.State != nexjob.Uncertain {
		t.Errorf("%d look-ups that all died, and then %s", looks, j.State)
	}
}

func TestCrashesBackOffWithJitter(t *testing.T) {
	waits := make(map[time.Duration]bool)
	for range 50 {
		j := processing()
		for crash := 1; crash <= 40; crash++ {
			rules.Recover(j, nil, 1000, start)
			wait := j.DueAt.Sub(start)
			switch {
			case crash == 1 && wait != 0:
				t.Fatalf("the first crash waits %s", wait)
			case crash > 1 && (wait < 5*time.Second || wait > 10*time.Minute):
				t.Fatalf("crash %d waits %s", crash, wait)
			}
			if crash == 2 {
				waits[wait] = true
			}
			rules.Claim(j, start, int64(crash), &nexjob.ClaimRequest{Lease: time.Minute})
		}
	}
	if len(waits) < 40 {
		t.Errorf("50 jobs wait only %d different times after their second crash", len(waits))
	}
}

func TestLongAndOddErrorTextsAreKeptWithAMark(t *testing.T) {
	j := processing()
	text := "odd \xff\x00 " + strings.Repeat("é", nexjob.MaxError)
	rules.Settle(j, &nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndFailed, Error: text}, nil, start)
	if len(j.Reason) > nexjob.MaxError || !strings.HasSuffix(j.Reason, "(cut)") ||
		!strings.HasPrefix(j.Reason, "odd \uFFFD\uFFFD é") {
		t.Errorf("reason of %d bytes: %.40q", len(j.Reason), j.Reason)
	}
}

func TestOldAttemptsAreDropped(t *testing.T) {
	j := processing()
	j.MaxAttempts = 1000
	for fence := int64(1); fence <= 200; fence++ {
		rules.Claim(j, start, fence, &nexjob.ClaimRequest{Lease: time.Minute})
		rules.Settle(j, &nexjob.Settlement{Lease: j.Lease(), As: nexjob.EndRetry}, nil, start)
	}
	if n := len(j.Attempts); n != nexjob.MaxAttemptsKept || j.Attempts[n-1].Fence != 200 {
		t.Errorf("%d attempts, the last under fence %d", n, j.Attempts[n-1].Fence)
	}
}

func TestTheNotedEndDependsOnTheVerdict(t *testing.T) {
	for _, c := range []struct {
		wished  nexjob.State
		verdict nexjob.Verdict
		want    nexjob.State
	}{
		{0, nexjob.Applied, nexjob.Enqueued},
		{0, nexjob.NotApplied, nexjob.Enqueued},
		{nexjob.Succeeded, nexjob.Applied, nexjob.Succeeded},
		{nexjob.Succeeded, nexjob.NotApplied, nexjob.Enqueued},
		{nexjob.Failed, nexjob.Applied, nexjob.Failed},
		{nexjob.Failed, nexjob.NotApplied, nexjob.Enqueued},
		{nexjob.Cancelled, nexjob.Applied, nexjob.Cancelled},
		{nexjob.Cancelled, nexjob.NotApplied, nexjob.Cancelled},
		{nexjob.Expired, nexjob.NotApplied, nexjob.Expired},
		{nexjob.Failed, nexjob.Compensate, nexjob.Cancelled},
	} {
		j := processing()
		j.State, j.Wished = nexjob.Uncertain, c.wished
		open := openEffect(false)
		do := &nexjob.Action{Act: nexjob.ActResolve, Verdict: c.verdict, By: "ann", Reason: "asked the bank"}
		r, err := rules.Resolve(j, do, open, at(time.Hour))
		if err != nil || r.Open() || r.By != "ann" {
			t.Fatalf("wished %s, %s: %v, receipt %+v", c.wished, c.verdict, err, r)
		}
		if j.State != c.want || j.Wished != 0 {
			t.Errorf("wished %s, %s: %s (wished %s), want %s", c.wished, c.verdict, j.State, j.Wished, c.want)
		}
	}
	j := processing()
	j.State = nexjob.Uncertain
	early := &nexjob.Action{Act: nexjob.ActResolve, Verdict: nexjob.NotApplied}
	if _, err := rules.Resolve(j, early, openEffect(false), at(time.Minute)); err == nil {
		t.Error("not applied was accepted while the newest send could still arrive")
	}
}
