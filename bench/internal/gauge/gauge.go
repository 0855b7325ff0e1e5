// Package gauge measures rates and CPU, and reduces repeated readings to figures that
// can be shown. It serves the benchmarks, stands on the standard library alone, and
// knows nothing of what is measured. Start at Watch.
package gauge

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
)

// Reading is what one round gave.
type Reading struct {
	Value  float64 // in the benchmark's unit
	CPU    float64 // µs of the process's CPU for each operation
	Server float64 // µs of the server's; 0 without one
}

// Watch measures wall time, and the CPU of the whole process and of a server.
type Watch struct {
	began       time.Time
	cpu, served time.Duration
	server      func() (time.Duration, error)
}

// Start starts a watch. It asks server what the server has used so far; nil: there is
// none.
func Start(server func() (time.Duration, error)) (Watch, error) {
	if server == nil {
		server = func() (time.Duration, error) { return 0, nil }
	}
	served, err := server()
	if err != nil {
		return Watch{}, err
	}
	used, err := cpu()
	return Watch{time.Now(), used, served, server}, err
}

// Rate is how many operations each second had since the watch was started.
func (w Watch) Rate(operations int64) (Reading, error) {
	took := time.Since(w.began)
	used, err := cpu()
	if err != nil {
		return Reading{}, err
	}
	served, err := w.server()
	n := float64(max(operations, 1))
	return Reading{
		Value:  n / took.Seconds(),
		CPU:    (used - w.cpu).Seconds() * 1e6 / n,
		Server: (served - w.served).Seconds() * 1e6 / n,
	}, err
}

// cpu is what the process has used so far, in user and system mode.
func cpu() (time.Duration, error) {
	var usage syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), err
}

// Figure is the median of readings, with the least and the greatest.
type Figure struct{ Median, Least, Most float64 }

// Values reduces the values of readings.
func Values(of []Reading) Figure {
	return reduce(of, func(r Reading) float64 { return r.Value })
}

// CPUs reduces the CPU of readings.
func CPUs(of []Reading) Figure {
	return reduce(of, func(r Reading) float64 { return r.CPU })
}

// Servers reduces the CPU of the server of readings.
func Servers(of []Reading) Figure {
	return reduce(of, func(r Reading) float64 { return r.Server })
}

func reduce(of []Reading, pick func(Reading) float64) Figure {
	values := make([]float64, len(of))
	for i, r := range of {
		values[i] = pick(r)
	}
	slices.Sort(values)
	n := len(values)
	return Figure{(values[(n-1)/2] + values[n/2]) / 2, values[0], values[n-1]}
}

// String shows the median and, where readings differ, their range.
func (f Figure) String() string {
	if f.Least == f.Most {
		return Plain(f.Median)
	}
	return fmt.Sprintf("%s [%s-%s]", Plain(f.Median), Plain(f.Least), Plain(f.Most))
}

// Plain shows a figure as people write it.
func Plain(f float64) string {
	if f >= 1000 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

// Short keeps four digits: the rest is noise.
func Short(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(f))))
	return math.Round(f*scale) / scale
}

// Quantile of durations, by the nearest rank.
func Quantile(of []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
