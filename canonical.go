package nexjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// CanonicalFingerprint hashes the canonical form of a JSON text.
func CanonicalFingerprint(text []byte) (Fingerprint, error) {
	canonical, err := CanonicalJSON(text)
	if err != nil {
		return Fingerprint{}, err
	}
	return FingerprintOf(canonical), nil
}

// CanonicalJSON returns the one text of a JSON value: members sorted by name, no
// spaces, one way of escaping, numbers with the text they had (1, 1.0 and 1e0
// differ, and no digit of a large integer is lost). The order of arrays counts. It
// refuses, with *InvalidError, what could mean two things: a name given twice in
// one object, bytes that are not UTF-8, half of a surrogate pair, text after the
// value.
func CanonicalJSON(text []byte) ([]byte, error) {
	refuse := func(why, remedy string) ([]byte, error) { return nil, invalid("JSON", why, remedy) }
	if !utf8.Valid(text) {
		return refuse("it is not valid UTF-8", "encode bytes as base64 or hexadecimal")
	}
	if hasLoneSurrogate(text) {
		return refuse("it holds half of a surrogate pair", "write whole characters")
	}
	c := canonicalizer{decoder: json.NewDecoder(bytes.NewReader(text))}
	c.decoder.UseNumber()
	if err := c.value(); err != nil {
		var already *InvalidError
		if errors.As(err, &already) {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return refuse(err.Error(), "write one JSON value")
	}
	if _, err := c.decoder.Token(); err != io.EOF { //nolint:errorlint // Token returns io.EOF itself
		return refuse("it goes on after its value", "write one JSON value")
	}
	return c.out.Bytes(), nil
}

// canonicalizer copies one JSON value from its decoder to out. Nesting is bounded
// by the decoder itself (10,000 levels).
type canonicalizer struct {
	decoder *json.Decoder
	out     bytes.Buffer
	depth   int
}

// maxDepth bounds the recursion; Go's own decoder allows as many levels.
const maxDepth = 10_000

func (c *canonicalizer) value() error {
	token, err := c.decoder.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		c.depth++
		defer func() { c.depth-- }()
		if c.depth > maxDepth {
			return invalid("JSON", "it is nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		}
		if t == '{' {
			return c.object()
		}
		return c.array()
	case string:
		return c.text(t)
	case json.Number:
		c.out.WriteString(t.String())
	case bool:
		fmt.Fprint(&c.out, t)
	case nil:
		c.out.WriteString("null")
	}
	return nil
}

func (c *canonicalizer) array() error {
	c.out.WriteByte('[')
	for first := true; c.decoder.More(); first = false {
		if !first {
			c.out.WriteByte(',')
		}
		if err := c.value(); err != nil {
			return err
		}
	}
	c.out.WriteByte(']')
	_, err := c.decoder.Token()
	return err
}

func (c *canonicalizer) object() error {
	outer := c.out
	defer func() { c.out = outer }()
	members := make(map[string][]byte)
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string) // the decoder has checked that names are strings
		if _, twice := members[name]; twice {
			return invalid("JSON", fmt.Sprintf("the name %q stands twice in one object", name), "name it once")
		}
		c.out = bytes.Buffer{}
		if err := c.value(); err != nil {
			return err
		}
		members[name] = c.out.Bytes()
	}
	if _, err := c.decoder.Token(); err != nil {
		return err
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	c.out = outer
	c.out.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			c.out.WriteByte(',')
		}
		if err := c.text(name); err != nil {
			return err
		}
		c.out.WriteByte(':')
		c.out.Write(members[name])
	}
	c.out.WriteByte('}')
	outer = c.out
	return nil
}

func (c *canonicalizer) text(s string) error {
	quoted, err := json.Marshal(s)
	if err != nil {
		return err
	}
	c.out.Write(quoted)
	return nil
}

// hasLoneSurrogate reports a \uD800–\uDFFF escape that is not half of a pair: the
// decoder would turn each into the same replacement character.
func hasLoneSurrogate(text []byte) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if text[i+1] != 'u' {
			i++ // whatever is escaped is no escape itself
			continue
		}
		switch {
		case isSurrogate(text[i:], "89ab") && isSurrogate(text[min(i+6, len(text)):], "cdef"):
			i += 11
		case isSurrogate(text[i:], "89abcdef"):
			return true
		}
	}
	return false
}

// isSurrogate reports whether text begins with \uDx.., x being one of digits.
func isSurrogate(text []byte, digits string) bool {
	return len(text) >= 6 && text[0] == '\\' && text[1] == 'u' &&
		(text[2] == 'd' || text[2] == 'D') &&
		strings.IndexByte(digits, text[3]|0x20) >= 0 || len(text) >= 6 && text[0] == '\\' &&
		text[1] == 'u' && (text[2] == 'd' || text[2] == 'D') && strings.IndexByte(digits, text[3]) >= 0
}
