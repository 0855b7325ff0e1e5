package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// line is one comparison. The ratio is always "higher is better for us".
type line struct {
	Name   string     `json:"name"`
	Of     string     `json:"of,omitempty"` // the quantile, of latency
	Ours   float64    `json:"ours"`
	Peer   string     `json:"peer"`
	Theirs float64    `json:"theirs"`
	Ratio  float64    `json:"ratio"`
	Equal  bool       `json:"equal,omitempty"` // too near to tell apart: the ratio is 1
	Unit   string     `json:"unit"`
	Runs   int        `json:"runs"`                   // of each side; ours and theirs are their medians
	Our    *[2]float64 `json:"ours_range,omitempty"`   // the least and the greatest
	Their  *[2]float64 `json:"theirs_range,omitempty"` // likewise
}

// compare emits a line for every peer, and those of compareCPU. Higher values are
// better.
func (b *bench) compare(name, unit string, all readings, peers []string) error {
	for _, peer := range peers {
		l := line{Name: name, Peer: peer, Unit: unit, Runs: len(all[ours])}
		rate := func(r reading) float64 { return r.value }
		l.Our, l.Their = new([2]float64), new([2]float64)
		l.Ours, l.Our[0], l.Our[1] = median(all[ours], rate)
		l.Theirs, l.Their[0], l.Their[1] = median(all[peer], rate)
		l.Ratio = l.Ours / l.Theirs
		if err := b.emit(l); err != nil {
			return err
		}
	}
	return b.compareCPU(name, all, peers)
}

// compareCPU emits a line for every peer, for information, about the CPU that an
// operation took.
func (b *bench) compareCPU(name string, all readings, peers []string) error {
	for _, peer := range peers {
		l := line{Name: "info-cpu-" + strings.TrimPrefix(name, "info-"), Peer: peer, Unit: "µs", Runs: len(all[ours])}
		spent := func(r reading) float64 { return r.cpu }
		l.Ours, _, _ = median(all[ours], spent)
		l.Theirs, _, _ = median(all[peer], spent)
		l.Ratio = l.Theirs / l.Ours
		if err := b.emit(l); err != nil {
			return err
		}
	}
	return nil
}

// inLines writes each line as one JSON object.
func inLines(w io.Writer) func(line) error {
	encoder := json.NewEncoder(w)
	return func(l line) error {
		for _, f := range []*float64{&l.Ours, &l.Theirs, &l.Ratio} {
			*f = short(*f)
		}
		for _, pair := range []*[2]float64{l.Our, l.Their} {
			if pair != nil {
				pair[0], pair[1] = short(pair[0]), short(pair[1])
			}
		}
		return encoder.Encode(l)
	}
}

// short keeps four digits: the rest is noise.
func short(f float64) float64 {
	if f == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(f))))
	return math.Round(f*scale) / scale
}

// inTable gathers lines into a table, which flush writes.
func inTable(w io.Writer) (emit func(line) error, flush func() error) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "bench\tof\tours\tpeer\ttheirs\tratio\tunit\truns")
	emit = func(l line) error {
		note := ""
		if l.Equal {
			note = " (equal)"
		}
		_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.2f%s\t%s\t%d\n",
			l.Name, l.Of, figure(l.Ours, l.Our), l.Peer, figure(l.Theirs, l.Their), l.Ratio, note, l.Unit, l.Runs)
		return err
	}
	return emit, table.Flush
}

func figure(value float64, between *[2]float64) string {
	if between == nil || between[0] == between[1] {
		return plain(value)
	}
	return fmt.Sprintf("%s [%s-%s]", plain(value), plain(between[0]), plain(between[1]))
}

func plain(f float64) string {
	if f >= 1000 {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}
