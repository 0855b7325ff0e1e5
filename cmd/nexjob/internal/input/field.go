package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Field is where in a JSON object a value stands.
type Field struct {
	text  string
	names []string // from the outermost object inward
}

// ParseField reads the name of a member, or names joined by dots for one in an inner
// object: customer.id. One that begins with a slash is a JSON Pointer (RFC 6901), for
// names that hold dots themselves: /http.request/id.
func ParseField(text string) (Field, error) {
	names := strings.Split(text, ".")
	if pointer, ok := strings.CutPrefix(text, "/"); ok {
		names = strings.Split(pointer, "/")
		for i, name := range names {
			names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		}
	}
	if slices.Contains(names, "") {
		return Field{}, fmt.Errorf("%q holds an empty name: want NAME, NAME.NAME or /NAME/NAME", text)
	}
	return Field{text, names}, nil
}

// String returns the field as it was given.
func (f Field) String() string { return f.text }

// Text returns the field's value in an object: a text, or a whole number digit by
// digit, so that none of a long one is lost. Anything else is an error, for it would
// have no text, or more than one.
func (f Field) Text(object []byte) (string, error) {
	value := json.RawMessage(object)
	for i, name := range f.names {
		if len(value) == 0 || value[0] != '{' {
			where := "the line"
			if i > 0 {
				where = fmt.Sprintf("%q", strings.Join(f.names[:i], "."))
			}
			return "", fmt.Errorf("%s is no JSON object, in which %q could stand", where, name)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(value, &members); err != nil {
			return "", err
		}
		inner, ok := members[name]
		if !ok {
			return "", fmt.Errorf("it has no %q", f.text)
		}
		value = inner
	}
	switch {
	case value[0] == '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return "", err
		}
		if text == "" {
			return "", fmt.Errorf("%q is empty", f.text)
		}
		return text, nil
	case isWhole(value):
		return string(value), nil
	case value[0] == '-' || value[0] >= '0' && value[0] <= '9':
		return "", fmt.Errorf("%q is %s: want a whole number without fraction or exponent, or a text", f.text, clip(value))
	}
	return "", fmt.Errorf("%q is %s: want a text or a whole number", f.text, sortOf(value))
}

// isWhole tells whether a JSON number is the one text of a whole number, so that equal
// numbers make equal keys.
func isWhole(number []byte) bool {
	digits := bytes.TrimPrefix(number, []byte("-"))
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(digits) > 0 && (digits[0] != '0' || len(number) == 1)
}

func clip(value []byte) string {
	if len(value) > 40 {
		return string(value[:40]) + "…"
	}
	return string(value)
}

func sortOf(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return string(value) // true, false, null
}

// Place words where in a text JSON goes wrong; "" when it does not, or nobody can say.
func Place(text []byte) string {
	var value json.RawMessage
	wrong, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &value))
	if !ok {
		return ""
	}
	before := string(text[:min(max(int(wrong.Offset)-1, 0), len(text))])
	line := strings.Count(before, "\n") + 1
	column := len(before) - strings.LastIndex(before, "\n")
	if !strings.Contains(string(text), "\n") {
		return fmt.Sprintf("at byte %d", column)
	}
	return fmt.Sprintf("at line %d, byte %d", line, column)
}
