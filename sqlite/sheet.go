package sqlite

import (
	_ "embed" // the statements
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed statements.sql
var statementText string

// sheet holds the statements of statements.sql by name.
type sheet map[string]string

// parseSheet reads a sheet: statements under "-- name:", and pieces under "-- part:"
// that they take in by {name}. Other comment lines are left out.
func parseSheet(text string) (sheet, error) {
	parts, statements := make(sheet), make(sheet)
	var into sheet
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
func fill(statement string, hole *regexp.Regexp, parts sheet) (string, error) {
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

// rowsAtOnce are the numbers of rows that one statement may add, the largest first.
// A statement has its price, and so has each value that is bound: what the rows have in
// common is bound once.
func rowsAtOnce() [4]int { return [4]int{64, 16, 4, 1} }

// adding is a statement that adds one row. Values with a number are common to all rows,
// the others each row's own; "?1 + 0" counts up from row to row. Few have a number, for
// SQLite keeps those in a list that it walks at every binding.
type adding string

const (
	addJob adding = "add job"
	addKey adding = "add key"
)

// own is how many values each row has for itself.
func (a adding) own() int {
	if a == addJob {
		return 4
	}
	return 2
}

// rows names the statement that adds n rows.
func (a adding) rows(n int) string {
	if n == 1 {
		return string(a)
	}
	return string(a) + manyRows + strconv.Itoa(n)
}

const manyRows = ", rows "

// statements returns the sheet with the statements that add several rows at once.
func statements() (sheet, error) {
	all, err := parseSheet(statementText)
	if err != nil {
		return nil, err
	}
	for _, a := range []adding{addJob, addKey} {
		for _, n := range rowsAtOnce() {
			all[a.rows(n)] = repeat(all[string(a)], n)
		}
	}
	return all, nil
}

// repeat writes a statement that adds a row for n rows.
func repeat(text string, n int) string {
	at := strings.LastIndex(text, "(")
	row := text[at:]
	var b strings.Builder
	b.WriteString(text[:at])
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strings.Replace(row, "+ 0", "+ "+strconv.Itoa(i), 1))
	}
	return b.String()
}
