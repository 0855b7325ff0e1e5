package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDocumentsNameWhatThereIs: every command line that a document, or the help of a
// command, shows names a command and flags that there are.
func TestDocumentsNameWhatThereIs(t *testing.T) {
	texts := make(map[string]string)
	for _, pattern := range []string{"*.md", "docs/guide/*.md", "docs/adr/*.md"} {
		paths, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pattern)))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(path)] = string(text)
		}
	}
	help := func(cmd *cobra.Command) { texts[cmd.CommandPath()+" --help"] = cmd.Long + "\n" + cmd.Example }
	walk(newRoot(), help)
	shown := 0
	for where, text := range texts {
		for _, line := range commandLines(text) {
			shown++
			if err := known(line); err != nil {
				t.Errorf("%s shows %q: %v", where, line, err)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d command lines found", shown)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "script", "guide.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range texts {
		for _, line := range blockLines(text) {
			if !strings.Contains(string(script), "\nexec "+line+"\n") {
				t.Errorf("%s shows %q in a block: run it in guide.txt", where, line)
			}
		}
	}
}

// TestWrongCommandLinesAreFound: what the test of the documents would say of mistakes.
func TestWrongCommandLinesAreFound(t *testing.T) {
	const document = "Run `nexjob key explian KEY`, and\nthen `nexjob\nmigrate --prnt`.\n" +
		"```sh\n$ nexjob jobs clear-key --key a --yes | tee log\nNEXJOB_STORE=sqlite:a.db nexjob quues\nnexjob jobs -x\n```\n" +
		"nexjob is no command here, nor is `nexjob` alone, or `nexjob_jobs`.\n"
	want := []string{
		`nexjob key explian KEY: unknown command "explian"`, `nexjob migrate --prnt: unknown flag --prnt`,
		`nexjob jobs clear-key --key a --yes: <nil>`, `nexjob quues: unknown command "quues"`, `nexjob jobs -x: unknown flag -x`,
	}
	got := make(map[string]bool)
	for _, line := range commandLines(document) {
		got[fmt.Sprint(line, ": ", known(line))] = true
	}
	for _, w := range want {
		if !got[w] {
			t.Errorf("not found: %s", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found %v", got)
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

var (
	lineThatGoesOn = regexp.MustCompile(`\\\n\s*`)
	fenced         = regexp.MustCompile("(?s)```.*?```")
	inSentence     = regexp.MustCompile("`(nexjob\\s[^`]+)`")
	inExample      = regexp.MustCompile(`(?m)^  (nexjob .*)$`)
	inBlock        = regexp.MustCompile(`(?m)^\s*(?:\$ |[A-Z_]+=\S+ )?(nexjob .*)$`)
	afterwards     = regexp.MustCompile(` [|>#] .*`)
)

// commandLines are the command lines that a text shows: as code within its sentences, at
// the start of lines that are indented as in an example, and in blocks.
func commandLines(text string) []string {
	text = lineThatGoesOn.ReplaceAllString(text, " ")
	outside := fenced.ReplaceAllString(text, "")
	return slices.Concat(matches(inSentence, outside), matches(inExample, outside), blockLines(text))
}

// blockLines are those in blocks.
func blockLines(text string) []string {
	return matches(inBlock, strings.Join(fenced.FindAllString(text, -1), "\n"))
}

func matches(pattern *regexp.Regexp, text string) []string {
	var lines []string
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Join(strings.Fields(afterwards.ReplaceAllString(m[1], "")), " "))
	}
	return lines
}

// known finds the command of a line and its flags in the tree.
func known(line string) error {
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'|[][]`)
	words := strings.Fields(quoted.ReplaceAllString(line, " "))[1:]
	cmd := newRoot()
	for len(words) > 0 && cmd.HasSubCommands() && !strings.HasPrefix(words[0], "-") {
		next, _, err := cmd.Find(words[:1])
		if err != nil || next == cmd {
			return fmt.Errorf("unknown command %q", words[0])
		}
		cmd, words = next, words[1:]
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		long, isLong := strings.CutPrefix(name, "--")
		short, isShort := strings.CutPrefix(name, "-")
		switch {
		case isLong && cmd.Flag(long) == nil && cmd.InheritedFlags().Lookup(long) == nil,
			!isLong && isShort && len(short) == 1 && cmd.Flags().ShorthandLookup(short) == nil:
			return fmt.Errorf("unknown flag %s", name)
		}
	}
	return nil
}
