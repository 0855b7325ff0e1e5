package nexjob_test

import (
	"math"
	"testing"
	"testing/quick"
	"time"

	"github.com/nexjob/nexjob"
)

// retries are back-offs of every shape, the mad ones too.
func retries() map[string]nexjob.Retry {
	return map[string]nexjob.Retry{
		"default":               {},
		"default, small cap":    {Max: 10 * time.Second},
		"default, tiny cap":     {Max: 1},
		"default, huge cap":     {Max: math.MaxInt64},
		"exponential":           {Initial: time.Second},
		"no growth":             {Initial: time.Second, Multiplier: 1},
		"smallest start":        {Initial: 1},
		"greatest start":        {Initial: math.MaxInt64, Max: math.MaxInt64},
		"steep":                 {Initial: time.Second, Multiplier: 1e300, Max: time.Hour},
		"infinite":              {Initial: time.Second, Multiplier: math.Inf(1)},
		"factor is no number":   {Initial: time.Second, Multiplier: math.NaN()},
		"factor is negative":    {Initial: time.Second, Multiplier: -3},
		"jitter is no number":   {Initial: time.Second, Jitter: math.NaN()},
		"jitter is all":         {Initial: time.Second, Jitter: 1},
		"jitter is too much":    {Initial: time.Second, Jitter: 12},
		"no jitter":             {Initial: time.Second, Jitter: -1},
		"cap is negative":       {Max: -5},
		"function that grows":   {Delay: func(tries int) time.Duration { return time.Duration(min(tries, 1<<30)) * time.Second }},
		"function of nothing":   {Delay: func(int) time.Duration { return 0 }},
		"function goes under":   {Delay: func(int) time.Duration { return math.MinInt64 }},
		"function goes through": {Delay: func(int) time.Duration { return math.MaxInt64 }, Max: time.Minute},
	}
}

func limitOf(r nexjob.Retry) time.Duration {
	if r.Max > 0 {
		return r.Max
	}
	return nexjob.MaxRetryDelay
}

func TestRetryStaysInsideItsCapAndNeverShrinks(t *testing.T) {
	t.Parallel()
	for name, r := range retries() {
		for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
			before := time.Duration(0)
			for _, tries := range []int{1, 2, 3, 5, 10, 16, 17, 18, 31, 40, 63, 64, 100, 1000, 1_000_000, math.MaxInt} {
				wait := r.After(tries, random)
				if wait <= 0 || wait > limitOf(r) || wait < before {
					t.Errorf("%s: After(%d, %v) = %v, after %v; cap %v", name, tries, random, wait, before, limitOf(r))
				}
				before = wait
			}
		}
	}
}

func TestRetryWithAnyArguments(t *testing.T) {
	t.Parallel()
	for name, r := range retries() {
		inside := func(tries int, random float64) bool {
			wait := r.After(tries, random)
			return wait > 0 && wait <= limitOf(r)
		}
		if err := quick.Check(inside, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, random := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1, 2} {
			if !inside(3, random) {
				t.Errorf("%s: After(3, %v) = %v", name, random, r.After(3, random))
			}
		}
	}
}

func TestRetryShapes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		retry  nexjob.Retry
		tries  int
		random float64
		want   time.Duration
	}{
		{"first wait, no luck", nexjob.Retry{}, 1, 0, 16 * time.Second},
		{"first wait, all luck", nexjob.Retry{}, 1, 0.5, 46 * time.Second},
		{"tenth wait", nexjob.Retry{}, 10, 0, 10_015 * time.Second},
		{"the jitter goes on at the cap", nexjob.Retry{}, 1000, 0.5, 22*time.Hour + 48*time.Minute},
		{"no try counts as the first", nexjob.Retry{}, 0, 0, 16 * time.Second},
		{"doubles", nexjob.Retry{Initial: time.Second, Jitter: -1}, 5, 0, 16 * time.Second},
		{"jitter below", nexjob.Retry{Initial: 10 * time.Second}, 1, 0, 9 * time.Second},
		{"jitter above", nexjob.Retry{Initial: 10 * time.Second, Jitter: 0.5}, 1, 0.75, 12500 * time.Millisecond},
		{"trebles", nexjob.Retry{Initial: time.Second, Multiplier: 3, Jitter: -1}, 3, 0, 9 * time.Second},
		{"at least a millisecond", nexjob.Retry{Initial: 1, Jitter: -1}, 1, 0, time.Millisecond},
		{
			"a function",
			nexjob.Retry{Delay: func(tries int) time.Duration { return time.Duration(tries) * time.Hour }},
			3, 0.5, 3 * time.Hour,
		},
	} {
		if got := tt.retry.After(tt.tries, tt.random).Round(time.Microsecond); got != tt.want {
			t.Errorf("%s: After(%d, %v) = %v, want %v", tt.name, tt.tries, tt.random, got, tt.want)
		}
	}
}

// Jobs that failed in the same second do not come back in the same second (B042).
func TestRetrySpreads(t *testing.T) {
	t.Parallel()
	for _, r := range []nexjob.Retry{{}, {Initial: time.Minute}} {
		for _, tries := range []int{1, 10, 1000} {
			spread := r.After(tries, 0.99) - r.After(tries, 0)
			if spread < 5*time.Second {
				t.Errorf("%+v: after %d tries the waits differ by %v at most", r, tries, spread)
			}
		}
	}
}
