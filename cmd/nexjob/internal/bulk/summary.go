package bulk

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

const (
	maxNamed = 10_000 // bad lines that a summary names
	maxShown = 20     // and those that its table shows
)

// Summary is what became of the lines that are not blank.
type Summary struct {
	Lines      int `json:"lines"` // the sum of the six below
	Created    int `json:"created"`
	Existing   int `json:"existing"` // their key's job was there
	Replaced   int `json:"replaced"` // the job that waited took the new args
	Rejected   int `json:"rejected"` // by the duplicate policy
	Mismatched int `json:"mismatched"`
	Invalid    int `json:"invalid"`
	ArgsDiffer int `json:"args_differ"` // of Existing and Replaced: with other args

	Complete bool    `json:"complete"` // the input was read to its end
	Seconds  float64 `json:"seconds"`
	Bad      []Bad   `json:"invalid_lines"`          // Mismatched and Invalid, the first 10,000
	LeftOut  int     `json:"invalid_lines_left_out"` // those after them
}

// Bad is a line that is not in.
type Bad struct {
	Line int    `json:"line"`
	Why  string `json:"why"`
}

// sort puts the bad lines in the order of the input: those that only the storage refuses
// are known later than others.
func (s *Summary) sort() {
	slices.SortFunc(s.Bad, func(a, b Bad) int { return cmp.Compare(a.Line, b.Line) })
}

// WriteTable writes the summary for people.
func (s *Summary) WriteTable(w io.Writer) error {
	t := view.NewTable(w)
	t.Row("Lines", s.Lines)
	t.Row("Created", s.Created)
	t.Row("Existing", s.Existing)
	t.Row("Replaced", s.Replaced)
	t.Row("Rejected", s.Rejected)
	t.Row("Mismatched", s.Mismatched)
	t.Row("Invalid", s.Invalid)
	if s.ArgsDiffer > 0 {
		t.Row("Other args", fmt.Sprintf("%d of those existing and replaced; --strict-args names them", s.ArgsDiffer))
	}
	t.Row("Seconds", fmt.Sprintf("%.1f", s.Seconds))
	if err := t.Flush(); err != nil || len(s.Bad) == 0 {
		return err
	}
	all := len(s.Bad) + s.LeftOut
	if all > maxShown {
		fmt.Fprintf(w, "\nNot in, the first %d of %d lines; --invalid-to FILE names all:\n", maxShown, all)
	} else {
		fmt.Fprintln(w, "\nNot in:")
	}
	t = view.NewTable(w, "LINE", "WHY")
	for _, bad := range s.Bad[:min(len(s.Bad), maxShown)] {
		t.Row(bad.Line, bad.Why)
	}
	return t.Flush()
}
