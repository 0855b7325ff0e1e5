package nexjob

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth is how many levels deep the arrays and objects of a job's args may nest.
const MaxDepth = 1000

// CanonicalFingerprint hashes the canonical form of a JSON text.
func CanonicalFingerprint(text []byte) (Fingerprint, error) {
	canonical, err := CanonicalJSON(text)
	if err != nil {
		return Fingerprint{}, err
	}
	return FingerprintOf(canonical), nil
}

// CanonicalJSON returns the one text of a JSON value: members sorted by name, no
// spaces, strings escaped as RFC 8785 (section 3.2.2.2) does, numbers with the text
// they had (1, 1.0 and 1e0 differ, and no digit of a large integer is lost). The
// order of arrays counts. It refuses, with *InvalidError, what could mean two
// things: a name given twice in one object, bytes that are not UTF-8, half of a
// surrogate pair, text after the value; and a value nested deeper than MaxDepth.
func CanonicalJSON(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, invalid("JSON", "it is not valid UTF-8", "encode bytes as base64 or hexadecimal")
	}
	if !json.Valid(text) {
		var raw json.RawMessage
		why := json.Unmarshal(text, &raw)
		return nil, invalid("JSON", fmt.Sprint(why), "write one JSON value")
	}
	c := canonicalizer{text: text, out: make([]byte, 0, len(text)), members: make([]member, 0, 8)}
	if err := c.value(0); err != nil {
		return nil, err
	}
	return c.out, nil
}

// canonicalizer copies one JSON value, already known to be valid, from text to out.
// The canonical form is never longer than what it stands for, so out never grows.
type canonicalizer struct {
	text    []byte // what is still to be read
	out     []byte
	members []member // of the objects that are open, the innermost last
	scratch []byte
}

// member is where one member of an object stands in out: its name between the
// quotes, and the whole of it up to end.
type member struct{ name, nameEnd, end int }

// next skips spaces and returns the byte that follows.
func (c *canonicalizer) next() byte {
	c.text = bytes.TrimLeft(c.text, " \t\r\n")
	return c.text[0]
}

// skip passes over the byte that next returned.
func (c *canonicalizer) skip() { c.text = c.text[1:] }

// put copies the byte that next returned.
func (c *canonicalizer) put() {
	c.out = append(c.out, c.text[0])
	c.skip()
}

func (c *canonicalizer) value(depth int) error {
	switch c.next() {
	case '{':
		return c.object(depth + 1)
	case '[':
		return c.array(depth + 1)
	case '"':
		return c.str()
	}
	end := bytes.IndexAny(c.text, " \t\r\n,]}")
	if end < 0 {
		end = len(c.text)
	}
	c.out = append(c.out, c.text[:end]...)
	c.text = c.text[end:]
	return nil
}

func (c *canonicalizer) array(depth int) error {
	if depth > MaxDepth {
		return tooDeep()
	}
	c.put()
	for c.next() != ']' {
		if err := c.value(depth); err != nil {
			return err
		}
		if c.next() == ',' {
			c.put()
		}
	}
	c.put()
	return nil
}

func (c *canonicalizer) object(depth int) error {
	if depth > MaxDepth {
		return tooDeep()
	}
	first := len(c.members)
	c.put()
	begin := len(c.out)
	for c.next() != '}' {
		m := member{name: len(c.out) + 1}
		if err := c.str(); err != nil {
			return err
		}
		m.nameEnd = len(c.out) - 1
		c.next()
		c.put() // the colon
		if err := c.value(depth); err != nil {
			return err
		}
		m.end = len(c.out)
		c.members = append(c.members, m)
		if c.next() == ',' {
			c.put()
		}
	}
	err := c.sort(begin, c.members[first:])
	c.members = c.members[:first]
	c.put()
	return err
}

// sort orders the members of an object, which fill out from begin on with a comma
// between two of them.
func (c *canonicalizer) sort(begin int, members []member) error {
	byName := func(a, b member) int {
		return bytes.Compare(c.out[a.name:a.nameEnd], c.out[b.name:b.nameEnd])
	}
	sorted := slices.IsSortedFunc(members, byName)
	if !sorted {
		slices.SortFunc(members, byName)
	}
	for i := 1; i < len(members); i++ {
		if byName(members[i-1], members[i]) == 0 {
			name := c.out[members[i].name-1 : members[i].nameEnd+1]
			return invalid("JSON", fmt.Sprintf("the name %s stands twice in one object", name), "name it once")
		}
	}
	if sorted {
		return nil
	}
	c.scratch = append(c.scratch[:0], c.out[begin:]...)
	c.out = c.out[:begin]
	for i, m := range members {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, c.scratch[m.name-1-begin:m.end-begin]...)
	}
	return nil
}

// str copies a string, with each character escaped only where JSON demands it.
func (c *canonicalizer) str() error {
	c.put()
	for {
		plain := bytes.IndexAny(c.text, `"\`)
		c.out = append(c.out, c.text[:plain]...)
		c.text = c.text[plain:]
		if c.text[0] == '"' {
			c.put()
			return nil
		}
		if err := c.escape(); err != nil {
			return err
		}
	}
}

// escape copies one escaped character.
func (c *canonicalizer) escape() error {
	if c.text[1] != 'u' {
		if c.text[1] == '/' {
			c.skip()
			c.put()
			return nil
		}
		c.put()
		c.put()
		return nil
	}
	r := c.codeUnit()
	if utf16.IsSurrogate(r) {
		pair := rune(utf8.RuneError)
		if len(c.text) > 1 && c.text[0] == '\\' && c.text[1] == 'u' {
			pair = utf16.DecodeRune(r, c.codeUnit())
		}
		if pair == utf8.RuneError {
			return invalid("JSON", "it holds half of a surrogate pair", "write whole characters")
		}
		r = pair
	}
	c.out = appendEscaped(c.out, r)
	return nil
}

// codeUnit reads \uXXXX.
func (c *canonicalizer) codeUnit() rune {
	unit, _ := strconv.ParseUint(string(c.text[2:6]), 16, 16) // four hexadecimal digits: json.Valid has looked
	c.text = c.text[6:]
	return rune(unit)
}

func appendEscaped(out []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(out, '\\', byte(r))
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	if r < ' ' {
		return fmt.Appendf(out, `\u%04x`, r)
	}
	return utf8.AppendRune(out, r)
}

func tooDeep() error {
	return invalid("JSON", "it is nested too deeply", fmt.Sprintf("at most %d levels", MaxDepth))
}
