package view

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"payment-42":             "payment-42",
		"naïve Öl 東京 ✓":          "naïve Öl 東京 ✓",
		`C:\jobs`:                `C:\jobs`,
		"\x1b[2Jgone":            `\x1b[2Jgone`,
		"two\nlines\tand\rmore":  `two\nlines\tand\rmore`,
		"\u009b31mred":           `\u009b31mred`,
		"\u202egnp.exe":          `\u202egnp.exe`,
		"zero\u200bwidth\u00a0!": `zero\u200bwidth\u00a0!`,
		"\xff\x00\x7f":           `\xff\x00\x7f`,
		"kept \ufffd":            "kept \ufffd",
	} {
		if got := Safe(text); got != want {
			t.Errorf("Safe(%q) is %q, want %q", text, got, want)
		}
	}
	if got := SafeLines("one\x1b\ntwo"); got != `one\x1b`+"\ntwo" {
		t.Errorf("SafeLines: %q", got)
	}
}

// TestKey: what is written names one key, and Go's own reader gives it back.
func TestKey(t *testing.T) {
	for key, want := range map[string]string{
		"payment-42":  "payment-42",
		"":            `""`,
		"a b":         `"a b"`,
		`say "no"`:    `"say \"no\""`,
		`\x1b`:        `"\\x1b"`,
		"\x1b":        `"\x1b"`,
		"\x00derived": `"\x00derived"`,
	} {
		got := Key(key)
		if got != want {
			t.Errorf("Key(%q) is %s, want %s", key, got, want)
		}
		if back, err := strconv.Unquote(got); got != key && (err != nil || back != key) {
			t.Errorf("%s is read as %q, %v", got, back, err)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	value := map[string]any{
		"text": "<b>&\x1b\u009b\u202e\x7f\U000e0001é",
		"args": json.RawMessage("{\"big\": 12345678901234567890, \"c1\": \"\u0085\"}"),
	}
	var b strings.Builder
	if err := WriteJSON(&b, value); err != nil {
		t.Fatal(err)
	}
	want := `{"args":{"big":12345678901234567890,"c1":"\u0085"},` +
		`"text":"<b>&\u001b\u009b\u202e\u007f\udb40\udc01é"}` + "\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back map[string]any
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back["text"] != value["text"] {
		t.Errorf("read back: %v, %q", err, back["text"])
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.FixedZone("", 3600))
	p := Printer{Out: &b}
	if err := p.Value(nil, func(w io.Writer) error {
		table := NewTable(w, "ID", "STATE", "DUE")
		table.Row("a\tb", 7, at)
		table.Row("longer than", "x", time.Time{})
		return table.Flush()
	}); err != nil {
		t.Fatal(err)
	}
	want := "ID           STATE  DUE\n" +
		`a\tb         7      2026-03-04T04:06:07.000008Z` + "\n" +
		"longer than  x      -\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.Reset()
	p.JSON = true
	if err := p.Value(at, nil); err != nil || b.String() != `"2026-03-04T05:06:07.000008+01:00"`+"\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestShellKey: what is printed for a shell is one word of the shell, and gives the key.
func TestShellKey(t *testing.T) {
	for key, want := range map[string]string{
		"payment-42":  "payment-42",
		"":            `'""' --quoted`,
		"-x":          `'"-x"' --quoted`,
		"a b":         `'"a b"' --quoted`,
		"it's":        `'"it\x27s"' --quoted`,
		"$(reboot);":  `'"$(reboot);"' --quoted`,
		"\x00derived": `'"\x00derived"' --quoted`,
		"\u202eé":     `'"\u202e\u00e9"' --quoted`,
	} {
		got := ShellKey(key)
		if got != want {
			t.Errorf("ShellKey(%q) is %s, want %s", key, got, want)
		}
		word, quoted := strings.CutSuffix(got, "' --quoted")
		if !quoted {
			continue
		}
		if back, err := strconv.Unquote(strings.TrimPrefix(word, "'")); err != nil || back != key {
			t.Errorf("%s is read as %q, %v", got, back, err)
		}
	}
}
