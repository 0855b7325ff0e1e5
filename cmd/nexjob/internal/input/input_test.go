package input

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// read is all of a text, a line as number:text or number!error.
func read(t *testing.T, from io.Reader, limit int) ([]string, error) {
	t.Helper()
	lines := NewLines(from, limit)
	got := []string{}
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return got, nil
		case err != nil:
			return got, err
		case line.Err != nil:
			got = append(got, string(rune('0'+line.Number))+"!"+line.Err.Error())
		default:
			got = append(got, string(rune('0'+line.Number))+":"+string(line.Text))
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 200_000) // longer than the reader's buffer
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{}},
		{"blank lines only", "\n \r\n\t\n", []string{}},
		{"a last line without its end", "a\nb", []string{"1:a", "2:b"}},
		{"a last line with its end", "a\nb\n", []string{"1:a", "2:b"}},
		{"CRLF", "a\r\n\r\nb\r\n", []string{"1:a", "3:b"}},
		{"a byte order mark", "\uFEFFa\n\uFEFFb", []string{"1:a", "2:\uFEFFb"}},
		{"a byte order mark alone", "\uFEFF\na", []string{"2:a"}},
		{"as long as may be", strings.Repeat("y", 100) + "\r\na", []string{"1:" + strings.Repeat("y", 100), "2:a"}},
		{"outer spaces do not count", "  " + strings.Repeat("y", 100) + " \t\n", []string{"1:" + strings.Repeat("y", 100)}},
		{"one byte too long", strings.Repeat("y", 101) + "\nb", []string{"1!longer than 100 bytes", "2:b"}},
		{"far too long", "a\n" + long + "\nb\n", []string{"1:a", "2!longer than 100 bytes", "3:b"}},
		{"far too long at the end", long, []string{"1!longer than 100 bytes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, from := range map[string]io.Reader{
				"whole":        strings.NewReader(tt.text),
				"byte by byte": iotest.OneByteReader(strings.NewReader(tt.text)),
				"EOF at once":  iotest.DataErrReader(strings.NewReader(tt.text)),
			} {
				got, err := read(t, from, 100)
				if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
					t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
				}
			}
		})
	}
}

// TestLinesCutOff: half of a line must not pass for a whole one.
func TestLinesCutOff(t *testing.T) {
	broken := errors.New("broken pipe")
	got, err := read(t, io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)), 100)
	if diff := cmp.Diff([]string{"1:a"}, got); diff != "" || !errors.Is(err, broken) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestField(t *testing.T) {
	tests := []struct{ field, object, want, wrong string }{
		{"id", `{"id":"a-1"}`, "a-1", ""},
		{"id", `{"id":"\u00e4\n"}`, "ä\n", ""},
		{"id", `{"id":42}`, "42", ""},
		{"id", `{"id": -7 , "x":1}`, "-7", ""},
		{"id", `{"id":123456789012345678901234567890}`, "123456789012345678901234567890", ""},
		{"id", `{"ID":1}`, "", `it has no "id"`},
		{"id", `{"id":1.0}`, "", "want a whole number"},
		{"id", `{"id":1e3}`, "", "want a whole number"},
		{"id", `{"id":-0}`, "", "want a whole number"},
		{"id", `{"id":""}`, "", "is empty"},
		{"id", `{"id":null}`, "", "is null"},
		{"id", `{"id":true}`, "", "is true"},
		{"id", `{"id":{"a":1}}`, "", "is an object"},
		{"id", `{"id":[1]}`, "", "is an array"},
		{"id", `[1]`, "", "the line is no JSON object"},
		{"customer.id", `{"customer":{"id":"c"}}`, "c", ""},
		{"customer.id", `{"customer.id":"no"}`, "", `it has no "customer.id"`},
		{"customer.id", `{"customer":5}`, "", `"customer" is no JSON object`},
		{"/customer.id", `{"customer.id":"c"}`, "c", ""},
		{"/a~1b/~0", `{"a/b":{"~":"c"}}`, "c", ""},
	}
	for _, tt := range tests {
		field, err := ParseField(tt.field)
		if err != nil {
			t.Fatal(err)
		}
		got, err := field.Text([]byte(tt.object))
		if got != tt.want || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s of %s: %q, %v; want %q, %q", tt.field, tt.object, got, err, tt.want, tt.wrong)
		}
	}
	for _, text := range []string{"", ".", "a.", "/", "//a"} {
		if _, err := ParseField(text); err == nil {
			t.Errorf("%q is taken for a field", text)
		}
	}
}

func TestPlace(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:             "",
		`{"a":x}`:             "at byte 6",
		"{\n  \"a\": 1,\n x}": "at line 3, byte 2",
		``:                    "at byte 1",
	} {
		if got := Place([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	_, missing := os.Open(t.TempDir() + "/none")
	for want, err := range map[string]error{
		"--at: 5: want a time":         Wrong("--at", "%d: want %s", 5, "a time"),
		"a.jsonl:7: no JSON":           &Error{Name: "a.jsonl", Line: 7, Why: "no JSON"},
		"a: file does not exist":       Unreadable("a", os.ErrNotExist),
		"b: no such file or directory": Unreadable("b", missing),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

// TestUntil: what comes is passed on whole, and who waits for what never comes hears
// that its time is over.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	text := strings.Repeat("0123456789", 10_000)
	got, err := io.ReadAll(Until(ctx, strings.NewReader(text)))
	if string(got) != text || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	out, in := io.Pipe()
	defer func() { _ = in.Close() }()
	r := Until(ctx, out)
	go cancel()
	for range 2 {
		if _, err := r.Read(make([]byte, 5)); !errors.Is(err, context.Canceled) {
			t.Errorf("a read beyond its time: %v", err)
		}
	}
}
