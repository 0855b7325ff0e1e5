package nexjob

import (
	"math"
	"time"
)

// MaxRetryDelay caps the wait between tries unless Retry.Max says otherwise.
const MaxRetryDelay = 24 * time.Hour

// Retry says how long a job waits between tries. The zero value is the default
// back-off: tries⁴ + 15 seconds and up to 30·(tries+1) seconds of jitter, capped at
// 24 hours. With Initial set it is exponential instead.
type Retry struct {
	Initial    time.Duration // wait after the first failed try
	Multiplier float64       // growth per try, at least 1; default 2
	Max        time.Duration // cap; default 24 h
	Jitter     float64       // share of the wait that is random, ±, at most 1; default 0.1; negative: none
	// Delay, when set, replaces all of the above but Max; it is given the number
	// of tries that have failed, from 1. Its answer is capped to 1 ms … Max.
	Delay func(tries int) time.Duration
}

// After returns the wait after the given number of failed tries, from 1. The
// random number lies in [0, 1). The wait is never zero or negative, never above
// the cap, with the jitter inside it, and for one random number it never shrinks
// as tries grow. It is reckoned in floating point, which has no overflow that
// could turn a long wait into none.
func (r Retry) After(tries int, random float64) time.Duration {
	limit := r.Max
	if limit <= 0 {
		limit = MaxRetryDelay
	}
	if math.IsNaN(random) || random < 0 {
		random = 0
	}
	tries, random = max(tries, 1), min(random, 1)
	var seconds float64
	switch {
	case r.Delay != nil:
		seconds = r.Delay(tries).Seconds()
	case r.Initial > 0:
		seconds = r.exponential(tries, random, limit.Seconds())
	default:
		seconds = quartic(tries, random, limit.Seconds())
	}
	if seconds >= limit.Seconds() {
		return limit
	}
	return max(time.Duration(seconds*float64(time.Second)), min(time.Millisecond, limit))
}

func (r Retry) exponential(tries int, random, limit float64) float64 {
	multiplier := r.Multiplier
	if math.IsNaN(multiplier) || multiplier < 1 {
		multiplier = 2
	}
	jitter := r.Jitter
	if math.IsNaN(jitter) || jitter == 0 {
		jitter = 0.1
	}
	jitter = min(max(jitter, 0), 1)
	wait := min(r.Initial.Seconds()*math.Pow(multiplier, float64(tries-1)), limit/(1+jitter))
	return wait * (1 + jitter*(2*random-1))
}

// quartic keeps a tenth of the cap for the jitter, so that waits that have reached
// the cap are still spread.
func quartic(tries int, random, limit float64) float64 {
	n := float64(tries)
	return min(n*n*n*n+15, 0.9*limit) + random*min(30*(n+1), 0.1*limit)
}
