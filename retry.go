package nexjob

import (
	"math"
	"time"
)

// Retry says how long a job waits between tries. The zero value is the default
// back-off: tries⁴ + 15 seconds and up to 30·(tries+1) seconds of jitter, capped at
// 24 hours. With Initial set it is exponential instead.
type Retry struct {
	Initial    time.Duration // wait after the first failed try
	Multiplier float64       // growth per try; default 2
	Max        time.Duration // cap; default 24 h
	Jitter     float64       // share of the wait that is random, ± ; default 0.1
	// Delay, when set, replaces all of the above; it is given the number of tries
	// that have failed, from 1. Its answer is capped to 1 ms … Max.
	Delay func(tries int) time.Duration
}

// MaxRetryDelay caps the wait between tries unless Retry.Max says otherwise.
const MaxRetryDelay = 24 * time.Hour

// After returns the wait after the given number of failed tries, from 1. The
// random number lies in [0, 1). The wait is never zero or negative, never above
// the cap with jitter inside it, and grows with tries up to the cap.
func (r Retry) After(tries int, random float64) time.Duration {
	limit := r.Max
	if limit <= 0 {
		limit = MaxRetryDelay
	}
	tries = max(tries, 1)
	var seconds float64
	switch {
	case r.Delay != nil:
		seconds = r.Delay(tries).Seconds()
	case r.Initial > 0:
		multiplier := r.Multiplier
		if multiplier < 1 {
			multiplier = 2
		}
		jitter := r.Jitter
		if jitter <= 0 || jitter > 1 {
			jitter = 0.1
		}
		base := math.Min(r.Initial.Seconds()*math.Pow(multiplier, float64(tries-1)), limit.Seconds()/(1+jitter))
		seconds = base * (1 + jitter*(2*random-1))
	default:
		n := float64(tries)
		seconds = math.Min(n*n*n*n+15, limit.Seconds()/2) + math.Min(random*30*(n+1), limit.Seconds()/2)
	}
	if math.IsNaN(seconds) || seconds < 0.001 {
		return min(time.Millisecond, limit)
	}
	if seconds >= limit.Seconds() {
		return limit
	}
	return time.Duration(seconds * float64(time.Second))
}
