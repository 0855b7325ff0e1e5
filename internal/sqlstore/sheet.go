package sqlstore

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Sheet holds statements by name.
type Sheet map[string]string

// ParseSheet reads a sheet: statements under "-- name:", and pieces under "-- part:"
// that they take in by {name}. Other comment lines are left out.
func ParseSheet(text string) (Sheet, error) {
	parts, statements := make(Sheet), make(Sheet)
	var into Sheet
	var name string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n\t ")
		heading, title, found := strings.Cut(line, ":")
		switch {
		case found && heading == "-- part":
			into, name = parts, strings.TrimSpace(title)
		case found && heading == "-- name":
			into, name = statements, strings.TrimSpace(title)
		case line == "" || strings.HasPrefix(line, "--"):
			continue
		case into == nil:
			return nil, fmt.Errorf("sheet: %q stands under no name", line)
		default:
			into[name] = strings.TrimPrefix(into[name]+"\n"+line, "\n")
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("sheet: %q names nothing", line)
		}
		if _, twice := into[name]; twice {
			return nil, fmt.Errorf("sheet: %q is there twice", name)
		}
		into[name] = ""
	}
	hole := regexp.MustCompile(`\{[a-z ]+\}`)
	for name, statement := range statements {
		filled, err := fill(statement, hole, parts)
		if err != nil {
			return nil, fmt.Errorf("sheet: %s: %w", name, err)
		}
		statements[name] = filled
	}
	return statements, nil
}

// fill puts parts into a statement.
func fill(statement string, hole *regexp.Regexp, parts Sheet) (string, error) {
	if statement == "" {
		return "", errors.New("it is empty")
	}
	var missing string
	filled := hole.ReplaceAllStringFunc(statement, func(name string) string {
		part, ok := parts[name[1:len(name)-1]]
		if !ok {
			missing = name
		}
		return part
	})
	if missing != "" {
		return "", fmt.Errorf("there is no part %s", missing)
	}
	return filled, nil
}
