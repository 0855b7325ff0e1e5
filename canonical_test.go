package nexjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCanonicalJSON(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"spaces":                {" {\t\"a\" :\r\n [ 1 , 2 ] } ", `{"a":[1,2]}`},
		"member order":          {`{"b":1,"a":2,"c":{"z":0,"y":0}}`, `{"a":2,"b":1,"c":{"y":0,"z":0}}`},
		"array order counts":    {`[2,1]`, `[2,1]`},
		"escapes":               {`"\u0041\/\u00e9\u0022\u005c\u000a\u0001"`, `"A/é\"\\\n\u0001"`},
		"short escapes":         {`"\b\f\n\r\t"`, `"\b\f\n\r\t"`},
		"long escapes of them":  {`"\u0008\u000C\u000a\u000D\u0009"`, `"\b\f\n\r\t"`},
		"HTML escapes of Go":    {`"\u003ca\u0026b\u003e\u2028"`, "\"<a&b>\u2028\""},
		"surrogate pair":        {`"\uD83D\uDE00"`, `"😀"`},
		"NUL":                   {`{"\u0000":"\u0000"}`, `{"\u0000":"\u0000"}`},
		"escaped names sort":    {`{"b":1,"\u0061":2}`, `{"a":2,"b":1}`},
		"prefix before longer":  {`{"ab":1,"a!":2,"a":3}`, `{"a":3,"a!":2,"ab":1}`},
		"number text is kept":   {`[1,1.0,1e0,1E+0,-0]`, `[1,1.0,1e0,1E+0,-0]`},
		"integers beyond 2^53":  {`[9007199254740993,18446744073709551615]`, `[9007199254740993,18446744073709551615]`},
		"literals":              {`[ true,false ,null ]`, `[true,false,null]`},
		"a literal alone":       {` true `, `true`},
		"empty object":          {`{ }`, `{}`},
		"empty array":           {`[ ]`, `[]`},
		"empty name":            {`{"":{}}`, `{"":{}}`},
		"objects in an array":   {`[{"b":1,"a":2},{"d":3,"c":4}]`, `[{"a":2,"b":1},{"c":4,"d":3}]`},
		"sorted around objects": {`{"z":{"b":[{"y":1,"x":2}],"a":0},"m":1}`, `{"m":1,"z":{"a":0,"b":[{"x":2,"y":1}]}}`},
	} {
		got, err := CanonicalJSON([]byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: CanonicalJSON(%s) = %s, %v; want %s", name, tt.in, got, err, tt.want)
		}
	}
}

func TestCanonicalJSONRefusesWhatMeansTwoThings(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"nothing":                      "",
		"spaces alone":                 " ",
		"cut short":                    `{"a":`,
		"text after the value":         `{} {}`,
		"a name twice":                 `{"a":1,"b":2,"a":1}`,
		"a name twice, escaped":        `{"a":1,"\u0061":1}`,
		"a name twice, deep":           `[{"x":[{"a":{},"a":{}}]}]`,
		"not UTF-8":                    "\"\xff\"",
		"overlong UTF-8":               "\"\xc0\x80\"",
		"first half of a pair":         `"\ud800"`,
		"first half, then a character": `"\ud800A"`,
		"two first halves":             `"\ud800\ud800"`,
		"second half":                  `"\uDC00"`,
		"halves the wrong way round":   `"\udc00\ud800"`,
		"half a pair in a name":        `{"\udfff":1}`,
		"one level too deep":           strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		"objects too deep":             strings.Repeat(`{"a":`, MaxDepth+1) + "0" + strings.Repeat("}", MaxDepth+1),
		"far too deep":                 strings.Repeat("[", 1<<20),
		"leading zero":                 `01`,
		"single quotes":                `{'a':1}`,
		"NaN":                          `NaN`,
	} {
		got, err := CanonicalJSON([]byte(in))
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: CanonicalJSON(%.40s) = %s, %v; want ErrInvalid", name, in, got, err)
		}
	}
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	if got, err := CanonicalJSON([]byte(deep)); err != nil || string(got) != deep {
		t.Errorf("%d levels are refused: %v", MaxDepth, err)
	}
}

// One level of an object that is out of order costs one copy of what is inside it;
// the deepest args of the greatest size must not become a way to burn a processor.
func TestCanonicalJSONOfTheWorstArgs(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("x", MaxArgs-MaxDepth*20)
	text := strings.Repeat(`{"b":`, MaxDepth) + `"` + filler + `"` + strings.Repeat(`,"a":1}`, MaxDepth)
	canonical, err := CanonicalJSON([]byte(text))
	if err != nil || !bytes.HasPrefix(canonical, []byte(`{"a":1,"b":{"a":1,`)) || len(canonical) != len(text) {
		t.Errorf("%d bytes became %d: %v", len(text), len(canonical), err)
	}
}

func TestMapsFingerprintAlike(t *testing.T) {
	t.Parallel()
	kind := KindOf[map[string]any]("maps", Defaults{})
	seen := make(map[Fingerprint]bool)
	for range 200 {
		args := make(map[string]any)
		for _, i := range rand.Perm(20) {
			args[string(rune('a'+i))] = []any{i, map[string]any{"y": i, "x": "<é>"}}
		}
		job := kind.New(args, Options{})
		if job.Err != nil {
			t.Fatal(job.Err)
		}
		seen[job.Fingerprint] = true
	}
	if len(seen) != 1 {
		t.Errorf("equal maps have %d fingerprints", len(seen))
	}
}

// FuzzCanonicalJSON compares with encoding/json: the canonical text means the same,
// is its own canonical text, and does not depend on how the value was written.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,1.0,{"z":null,"a":"\u00e9\ud83d\ude00"}],"a":9007199254740993}`,
		`{"a":1,"a":2}`, `"\ud800"`, `"\u0000\\\"\/"`, "[1,]", ` { } `, "\"\xff\"", `{"":{"":{}}}`, `-0.0e-0`,
		`"\\ud800"`, `{"\\":1,"\"":2,"\u0001":3}`, "\"\u2028\ufffd\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		canonical, err := CanonicalJSON(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("%v is no ErrInvalid", err)
			}
			return
		}
		if !utf8.Valid(canonical) || len(canonical) > len(text) {
			t.Fatalf("%q became %q", text, canonical)
		}
		if again, err := CanonicalJSON(canonical); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%q became %q, and that %q, %v", text, canonical, again, err)
		}
		value := decodeNumbers(t, text)
		if got, want := encode(t, decodeNumbers(t, canonical)), encode(t, value); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q: %s is not %s", text, canonical, got, want)
		}
		// Written anew: members sorted by another order, other escapes, other spaces.
		var indented bytes.Buffer
		if err := json.Indent(&indented, encode(t, value), " ", "\t"); err != nil {
			t.Fatal(err)
		}
		if again, err := CanonicalJSON(indented.Bytes()); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%q, written as %q, became %q, %v; want %q", text, indented.Bytes(), again, err, canonical)
		}
	})
}

func decodeNumbers(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return value
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func BenchmarkCanonicalFingerprint(b *testing.B) {
	text := []byte(`{"order_id":42,"cents":1999,"customer":{"name":"Ada \u003c3","id":"c-17"},"lines":[{"sku":"a","n":1}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CanonicalFingerprint(text); err != nil {
			b.Fatal(err)
		}
	}
}
