package view

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Printer writes one command's answer.
type Printer struct {
	Out  io.Writer
	JSON bool // JSON Lines, a value each, instead of tables
}

// Value writes one value as a line of JSON, or, for people, what table makes of it.
// Call it once per value of a list: then a reader of the JSON can begin with the first
// before the last is there.
func (p Printer) Value(value any, table func(w io.Writer) error) error {
	if p.JSON {
		return WriteJSON(p.Out, value)
	}
	return table(p.Out)
}

// Table lines up rows of cells below their heads. Nothing is written before Flush.
type Table struct {
	columns *tabwriter.Writer
}

// NewTable begins a table on w. Without heads it is a list of names and values.
func NewTable(w io.Writer, heads ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		t.line(heads)
	}
	return t
}

// Row adds a row. Texts are made safe, times are written as Time does, everything else
// as fmt does.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		if at, ok := cell.(time.Time); ok {
			texts[i] = Time(at)
			continue
		}
		texts[i] = Safe(fmt.Sprint(cell))
	}
	t.line(texts)
}

// line writes cells between tabs; the last one ends no column, so that a long one
// does not widen all others.
func (t *Table) line(cells []string) {
	fmt.Fprintln(t.columns, strings.Join(cells, "\t"))
}

// Flush writes the table.
func (t *Table) Flush() error { return t.columns.Flush() }

// Time writes a time in RFC 3339 and UTC, to the microsecond where it has them; "-"
// stands for none.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339Nano)
}
