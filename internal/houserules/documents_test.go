package houserules

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
)

// guide is the folder of the users' guide.
const guide = "docs/guide"

// sources are the Go files that a document's code is taken from, by the document's
// folder. All of them are compiled and run by go test.
var sources = map[string][]string{
	".":   {"readme_test.go", "example_test.go"},
	guide: {guide + "/*_test.go", guide + "/testdata/*/*.go", "examples/*/*.go"},
}

// TestDocumentsShowCodeThatRuns keeps what a document shows from rotting: its Go code is
// code of its sources, and its text blocks are what examples there print.
func TestDocumentsShowCodeThatRuns(t *testing.T) {
	code := make(map[string][]string)
	for folder, patterns := range sources {
		for _, pattern := range patterns {
			names, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(pattern)))
			if err != nil || len(names) == 0 {
				t.Fatalf("%s: %d files, %v", pattern, len(names), err)
			}
			for _, name := range names {
				code[folder] = append(code[folder], readFile(t, name))
			}
		}
	}
	shown := 0
	for _, name := range documents(t) {
		if texts, ok := code[path.Dir(name)]; ok {
			for _, b := range blocks(readFile(t, filepath.Join(root(t), name))) {
				shown++
				if missing := b.missing(texts); missing != "" {
					t.Errorf("%s: nothing compiles or prints this part of a %s block; it must stand, as it is but for "+
						"indentation, in one of %v:\n%s", name, b.language, sources[path.Dir(name)], missing)
				}
			}
		}
	}
	if shown < 2 {
		t.Errorf("only %d blocks found", shown)
	}
}

// block is the text within a fence.
type block struct {
	language, text string
}

// blocks are the fenced blocks of a document, but for those that hold neither Go nor
// output.
func blocks(document string) []block {
	var all []block
	var b *block
	inList := "" // the fence's own indentation
	for line := range strings.Lines(document) {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && b == nil:
			b = &block{language: fence}
			inList, _, _ = strings.Cut(line, "`")
		case isFence:
			if b.language == "go" || b.language == "text" {
				all = append(all, *b)
			}
			b = nil
		case b != nil:
			b.text += strings.TrimPrefix(line, inList)
		}
	}
	return all
}

// missing answers the first part of a block that none of the texts holds. A part goes to
// an empty line, so that a block may show some parts of a file and leave out others; a
// whole program must be shown whole. Output is found where an example declares it.
func (b block) missing(texts []string) string {
	if strings.HasPrefix(b.text, "package ") && !slices.Contains(texts, b.text) {
		return b.text
	}
	for _, part := range parts(b.text) {
		if b.language == "text" {
			for i := range part {
				part[i] = "// " + part[i]
			}
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return holds(text, part) }) {
			return strings.Join(part, "\n")
		}
	}
	return ""
}

// parts cuts a text at its empty lines.
func parts(text string) [][]string {
	var all [][]string
	for part := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		all = append(all, strings.Split(strings.Trim(part, "\n"), "\n"))
	}
	return all
}

// holds reports whether the lines stand in text one after the other, all indented by as
// much more.
func holds(text string, lines []string) bool {
	lines = dedent(lines)
	in := strings.Split(text, "\n")
	for i := range len(in) - len(lines) + 1 {
		if strings.TrimSpace(in[i]) == strings.TrimSpace(lines[0]) &&
			slices.Equal(dedent(in[i:i+len(lines)]), lines) {
			return true
		}
	}
	return false
}

// dedent takes away the indentation that all lines share.
func dedent(lines []string) []string {
	shared := -1
	for _, line := range lines {
		if n := len(line) - len(strings.TrimLeft(line, "\t")); line != "" && (shared < 0 || n < shared) {
			shared = n
		}
	}
	cut := make([]string, len(lines))
	for i, line := range lines {
		cut[i] = strings.TrimPrefix(line, strings.Repeat("\t", max(shared, 0)))
	}
	return cut
}

// TestDocumentsAreHeld shows what is refused of a document.
func TestDocumentsAreHeld(t *testing.T) {
	const source = "package main\n\nfunc a() {\n\tif x {\n\t\treturn 1\n\t}\n\tb()\n\n\tc()\n\t// Output:\n\t// one\n\t// two\n}\n"
	tests := map[string]struct {
		document string
		want     string // what is missing
	}{
		"a part":                   {"```go\nif x {\n\treturn 1\n}\nb()\n```\n", ""},
		"parts in between":         {"```go\nfunc a() {\n\tif x {\n\t\treturn 1\n\t}\n\tb()\n\n\tc()\n```\n", ""},
		"a part that ends outward": {"```go\n\t\treturn 1\n\t}\n\tb()\n```\n", ""},
		"another word":             {"```go\nif y {\n\treturn 1\n}\n```\n", "if y {\n\treturn 1\n}"},
		"a line left out":          {"```go\nif x {\n}\n```\n", "if x {\n}"},
		"other indentation":        {"```go\nif x {\nreturn 1\n```\n", "if x {\nreturn 1"},
		"no program":               {"```go\npackage main\n\nfunc a() {\n```\n", "package main\n\nfunc a() {\n"},
		"the program":              {"```go\n" + source + "```\n", ""},
		"output":                   {"```text\none\ntwo\n```\n", ""},
		"output in a list":         {"- so:\n\n  ```text\n  one\n  two\n  ```\n", ""},
		"other output":             {"```text\none\nthree\n```\n", "// one\n// three"},
		"another language":         {"```sh\nrm -r x\n```\n", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			missing := ""
			for _, b := range blocks(tt.document) {
				missing += b.missing([]string{"package other\n", source})
			}
			if diff := cmp.Diff(tt.want, missing); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLinksLeadSomewhere follows the links of every document within the repository: to
// files, and to headings.
func TestLinksLeadSomewhere(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?\n```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range documents(t) {
		text := code.ReplaceAllString(readFile(t, filepath.Join(root(t), name)), "")
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(found[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root(t), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, found[1])
				continue
			}
			if heading != "" && !slices.Contains(headings(readFile(t, filepath.Join(root(t), target))), heading) {
				t.Errorf("%s: %s has no heading for the link %s", name, target, found[1])
			}
		}
	}
}

// headings are the names by which a document's headings are linked.
func headings(document string) []string {
	var names []string
	for line := range strings.Lines(document) {
		if title, is := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); is && strings.HasPrefix(line, "#") {
			kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			names = append(names, strings.ReplaceAll(kept, " ", "-"))
		}
	}
	return names
}

// documents are all texts in Markdown but the changelog, which speaks of the past.
func documents(t *testing.T) []string {
	t.Helper()
	var names []string
	walk(t, func(rel string) {
		if path.Ext(rel) == ".md" && rel != "CHANGELOG.md" {
			names = append(names, rel)
		}
	})
	return names
}

// TestGuideIsIndexed keeps a page from being written where nobody finds it.
func TestGuideIsIndexed(t *testing.T) {
	index := readFile(t, filepath.Join(root(t), guide, "README.md"))
	pages := 0
	for _, name := range documents(t) {
		if path.Dir(name) != guide || path.Base(name) == "README.md" {
			continue
		}
		pages++
		if !strings.Contains(index, "]("+path.Base(name)+")") {
			t.Errorf("%s is not linked in %s/README.md", name, guide)
		}
	}
	if pages == 0 {
		t.Error("no page found")
	}
}

// TestGuideShowsThePolicyTable keeps the table that people read equal to the one that
// the code obeys.
func TestGuideShowsThePolicyTable(t *testing.T) {
	const page = guide + "/keys.md"
	if want := policyTable(); !strings.Contains(readFile(t, filepath.Join(root(t), page)), want) {
		t.Errorf("%s should hold this table:\n%s", page, want)
	}
}

func policyTable() string {
	var b strings.Builder
	b.WriteString("| the key's last job is |")
	line := "|---|"
	for _, policy := range nexjob.Policies() {
		fmt.Fprintf(&b, " `%s` |", policy)
		line += "---|"
	}
	b.WriteString("\n" + line + "\n")
	for _, row := range nexjob.PolicyTable() {
		var states []string
		for _, state := range row.States {
			states = append(states, "`"+state.String()+"`")
		}
		if len(states) == 0 {
			states = []string{"none: never used, deleted, or its life over"}
		}
		fmt.Fprintf(&b, "| %s |", strings.Join(states, ", "))
		for _, policy := range nexjob.Policies() {
			fmt.Fprintf(&b, " %s |", row.Rulings[policy])
		}
		b.WriteString("\n")
	}
	return b.String()
}
