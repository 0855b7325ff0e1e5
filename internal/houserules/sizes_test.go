package houserules

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What we aim at: a file is read in one sitting, a package is known by its list
// of files.
const (
	maxLines     = 400 // of a file
	maxTestLines = 800 // of a test file
	maxFiles     = 16  // of a package, tests not counted
	maxGround    = 40  // of the root package: a file per word, and every word is there
)

// raise is a figure raised for one file or package, and why.
type raise struct {
	to     int
	reason string
}

// raised are all of them. One that is no longer needed must go again, so that it
// cannot be eaten up unseen.
var raised = map[string]raise{
	"cmd/nexjob":  {17, "a file per command, and beside them where the jobs are: what names a storage, and what opens it"},
	"worker":      {19, "beside the lanes: the goroutines of handlers, the stock of jobs claimed ahead, and due times"},
	"sqlite":      {20, "what the hot path needs beside the roles: writes of many jobs, what the lane remembers, the driver without database/sql"},
	"postgres":    {22, "beside the roles and the hot steps: what callers wait by, wake-ups on both sides, poolers, and claims under old snapshots"},
	"storagetest": {53, "a file per role and rule page of the contract, and they share the bench's words"},
}

func TestSizes(t *testing.T) {
	sizes := make(map[string]int)
	walk(t, func(rel string) {
		if path.Ext(rel) != ".go" {
			return
		}
		sizes[rel] = strings.Count(readFile(t, filepath.Join(root(t), rel)), "\n")
		if !strings.HasSuffix(rel, "_test.go") {
			sizes[path.Dir(rel)]++
		}
	})
	for _, broken := range weigh(sizes, raised) {
		t.Error(broken)
	}
}

// TestSizesAreHeld shows what is refused: one more than the figure, and a raise
// that has no reason or no use.
func TestSizesAreHeld(t *testing.T) {
	tests := []struct {
		name   string
		size   int
		raised *raise
		want   string // a part of the complaint; "" means none
	}{
		{"a.go", maxLines, nil, ""},
		{"a.go", maxLines + 1, nil, "has 401 lines, over 400"},
		{"a_test.go", maxTestLines, nil, ""},
		{"a_test.go", maxTestLines + 1, nil, "has 801 lines, over 800"},
		{"memory", maxFiles, nil, ""},
		{"memory", maxFiles + 1, nil, "has 17 files, over 16"},
		{".", maxGround, nil, ""},
		{".", maxGround + 1, nil, "has 41 files, over 40"},
		{"a.go", 450, &raise{450, "a table"}, ""},
		{"a.go", 451, &raise{450, "a table"}, "has 451 lines, over 450"},
		{"a.go", 450, &raise{450, ""}, "raised without a reason"},
		{"a.go", maxLines, &raise{450, "a table"}, "raised in vain"},
		{"a.go", 0, &raise{450, "a table"}, "raised in vain"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s with %d raised %v", tt.name, tt.size, tt.raised), func(t *testing.T) {
			raised := map[string]raise{}
			if tt.raised != nil {
				raised[tt.name] = *tt.raised
			}
			got := weigh(map[string]int{tt.name: tt.size}, raised)
			if tt.want == "" && len(got) > 0 {
				t.Errorf("refused: %q", got)
			}
			if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("got %q, want one complaint with %q", got, tt.want)
			}
		})
	}
}

// weigh answers one sentence for every file (by its lines) and package (by its
// files) that is over its figure, and for every raise without reason or use.
func weigh(sizes map[string]int, raised map[string]raise) []string {
	var broken []string
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		figure, unit := figureFor(name)
		if r, ok := raised[name]; ok {
			figure = r.to
		}
		if sizes[name] > figure {
			say("%s has %d %s, over %d: split it by noun or verb, or raise its figure in "+
				"internal/houserules/sizes_test.go and say why", name, sizes[name], unit, figure)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raised)) {
		if figure, _ := figureFor(name); sizes[name] <= figure {
			say("%s is raised in vain: it has %d and may have %d", name, sizes[name], figure)
		} else if raised[name].reason == "" {
			say("%s is raised without a reason", name)
		}
	}
	return broken
}

// figureFor answers how large a file or package may be unless raised, and in what
// unit.
func figureFor(name string) (figure int, unit string) {
	switch {
	case strings.HasSuffix(name, "_test.go"):
		return maxTestLines, "lines"
	case strings.HasSuffix(name, ".go"):
		return maxLines, "lines"
	case name == ".":
		return maxGround, "files"
	default:
		return maxFiles, "files"
	}
}
