package nexjob

import (
	"fmt"
	"strings"
)

// The enumerations are read and written in one way: String gives the word, ParseX
// reads exactly that word and names the known ones if it is none, MarshalText and
// UnmarshalText make both happen in JSON, flags and URLs.

// word is an enumeration's type.
type word interface {
	~uint8
	fmt.Stringer
}

// wordsFrom returns the values from first to last.
func wordsFrom[T word](first, last T) []T {
	var all []T
	for w := first; w <= last; w++ {
		all = append(all, w)
	}
	return all
}

// parseWord finds the value that String writes as text. what says with its article
// what the words are.
func parseWord[T word](what, text string, known []T) (T, error) {
	names := make([]string, len(known))
	for i, w := range known {
		if names[i] = w.String(); names[i] == text {
			return w, nil
		}
	}
	return 0, fmt.Errorf("nexjob: %q is not %s: want one of %s", text, what, strings.Join(names, ", "))
}

// readWord is UnmarshalText: what is refused leaves the old value.
func readWord[T word](into *T, text []byte, parse func(string) (T, error)) error {
	parsed, err := parse(string(text))
	if err != nil {
		return err
	}
	*into = parsed
	return nil
}
