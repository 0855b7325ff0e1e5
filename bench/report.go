package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nexjob/nexjob/bench/internal/gauge"
	"github.com/nexjob/nexjob/bench/internal/queues"
)

// line is one comparison. The ratio is always "higher is better for us".
type line struct {
	Name   string  `json:"name"`
	Of     string  `json:"of,omitempty"` // which of the lines of that name: a quantile, slots
	Ours   float64 `json:"ours"`
	Peer   string  `json:"peer"`
	Theirs float64 `json:"theirs"`
	Ratio  float64 `json:"ratio"`
	Equal  bool    `json:"equal,omitempty"` // too near to tell apart: the ratio is 1
	Unit   string  `json:"unit"`
	Runs   int     `json:"runs"`                   // of each side; ours and theirs are their medians
	Our    *span   `json:"ours_range,omitempty"`   // the least and the greatest
	Their  *span   `json:"theirs_range,omitempty"` // likewise
}

type span [2]float64

// versus fills in both sides.
func (l line) versus(our, their gauge.Figure) line {
	l.Ours, l.Our = our.Median, &span{our.Least, our.Most}
	l.Theirs, l.Their = their.Median, &span{their.Least, their.Most}
	return l
}

// compare emits a line for every peer, and those of compareCPU. Higher values are
// better.
func (b *bench) compare(c contest, all readings) error {
	for _, peer := range names(c.sides[1:]) {
		l := line{Name: lineName(c.name, peer), Of: c.of, Peer: peer, Unit: c.unit, Runs: len(all[queues.Ours])}
		l = l.versus(gauge.Values(all[queues.Ours]), gauge.Values(all[peer]))
		l.Ratio = l.Ours / l.Theirs
		if err := b.emit(l); err != nil {
			return err
		}
	}
	return b.compareCPU(c, all)
}

// lineName marks the lines that are for information.
func lineName(name, peer string) string {
	if peer == asynq {
		return "info-asynq-" + name
	}
	return name
}

func names(sides []queues.Side) []string {
	list := make([]string, len(sides))
	for i, s := range sides {
		list[i] = s.Name
	}
	return list
}

// compareCPU emits lines for every peer, for information, about the CPU that an
// operation took here and at the server.
func (b *bench) compareCPU(c contest, all readings) error {
	type kind struct {
		name string
		of   func([]gauge.Reading) gauge.Figure
	}
	kinds := []kind{{"info-cpu-", gauge.CPUs}}
	if b.server != nil {
		kinds = append(kinds, kind{"info-server-cpu-", gauge.Servers})
	}
	for _, peer := range names(c.sides[1:]) {
		for _, k := range kinds {
			l := line{
				Name: k.name + strings.TrimPrefix(c.name, "info-"), Of: c.of,
				Peer: peer, Unit: "µs", Runs: len(all[queues.Ours]),
			}
			l = l.versus(k.of(all[queues.Ours]), k.of(all[peer]))
			if l.Theirs > 0 && l.Ours > 0 {
				l.Ratio = l.Theirs / l.Ours
			}
			if err := b.emit(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// inLines writes each line as one JSON object.
func inLines(w io.Writer) func(line) error {
	encoder := json.NewEncoder(w)
	return func(l line) error {
		l.Ours, l.Theirs, l.Ratio = gauge.Short(l.Ours), gauge.Short(l.Theirs), gauge.Short(l.Ratio)
		for _, s := range []*span{l.Our, l.Their} {
			if s != nil {
				s[0], s[1] = gauge.Short(s[0]), gauge.Short(s[1])
			}
		}
		return encoder.Encode(l)
	}
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
			l.Name, l.Of, shown(l.Ours, l.Our), l.Peer, shown(l.Theirs, l.Their), l.Ratio, note, l.Unit, l.Runs)
		return err
	}
	return emit, table.Flush
}

func shown(median float64, between *span) string {
	if between == nil {
		return gauge.Plain(median)
	}
	return gauge.Figure{Median: median, Least: between[0], Most: between[1]}.String()
}
