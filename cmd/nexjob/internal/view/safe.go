package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Safe writes what a terminal could obey, or show as something else than it is, as Go
// escapes it: control characters, line ends, invisible and reordering characters, and
// bytes that are no text. All else stays as it is, so that most texts do.
func Safe(text string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if !strings.ContainsFunc(text, odd) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// SafeLines is Safe for text of several lines, which stay lines.
func SafeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Safe(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Reason is an error's text without the library's name, to stand after that of the
// program, of a flag or of a job.
func Reason(err error) string { return strings.TrimPrefix(err.Error(), "nexjob: ") }

// Key writes an idempotency key so that it can be told from every other and given back:
// as it is, or in Go's quotes when it holds a space, a quote, a backslash, or anything
// that Safe escapes.
func Key(key string) string {
	if key == "" || Safe(key) != key || strings.ContainsAny(key, " \"'`\\") {
		return strconv.Quote(key)
	}
	return key
}

// ShellKey writes a key so that it can be copied into a shell, whatever it holds: as it is,
// or for --quoted, in Go's quotes inside the shell's.
func ShellKey(key string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:/@+,=-", r)
	}
	if key != "" && key[0] != '-' && !strings.ContainsFunc(key, odd) {
		return key
	}
	return "'" + strings.ReplaceAll(strconv.QuoteToASCII(key), "'", `\x27`) + "' --quoted"
}

// WriteJSON writes a value as one line of JSON. Characters that a terminal could obey
// are escaped inside its strings: the same JSON, and safe to look at.
func WriteJSON(w io.Writer, value any) error {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(append(SafeJSON(bytes.TrimSuffix(line.Bytes(), []byte("\n"))), '\n'))
	return err
}

// SafeJSON escapes in a JSON text what Safe escapes in any other, as JSON does it.
// Line ends and tabs between values stay.
func SafeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case unicode.IsPrint(r), r == '\n', r == '\r', r == '\t':
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}
