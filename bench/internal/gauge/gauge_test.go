package gauge

import (
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	var of []Reading
	for _, v := range []float64{5, 1, 3, 2} {
		of = append(of, Reading{Value: v, CPU: 10 * v})
	}
	if got := Values(of); got != (Figure{2.5, 1, 5}) || got.String() != "2.5 [1-5]" {
		t.Errorf("values %+v, shown as %s", got, got)
	}
	if got := CPUs(of[:1]); got != (Figure{50, 50, 50}) || got.String() != "50" {
		t.Errorf("CPU %+v, shown as %s", got, got)
	}
	for f, want := range map[float64]float64{123_456: 123_500, 0.0123456: 0.01235, 0: 0} {
		if got := Short(f); got != want {
			t.Errorf("Short(%v) = %v, want %v", f, got, want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var waits []time.Duration
	for i := range 100 {
		waits = append(waits, time.Duration(100-i))
	}
	if p50, p99 := Quantile(waits, 0.5), Quantile(waits, 0.99); p50 != 50 || p99 != 99 {
		t.Errorf("p50 %d, p99 %d", p50, p99)
	}
}

// TestWatch burns CPU until the kernel has counted some.
func TestWatch(t *testing.T) {
	w, err := Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := w.Rate(1000)
		if err != nil {
			t.Fatal(err)
		}
		if r.Value <= 0 || r.CPU < 0 {
			t.Fatalf("reading %+v", r)
		}
		if r.CPU > 0 {
			return
		}
	}
}
