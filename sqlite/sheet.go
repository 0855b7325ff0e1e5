package sqlite

import (
	_ "embed" // the statements
	"strconv"
	"strings"

	"github.com/nexjob/nexjob/internal/sqlstore"
)

//go:embed statements.sql
var statementText string

// sheet holds the statements of statements.sql by name.
type sheet = sqlstore.Sheet

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
	all, err := sqlstore.ParseSheet(statementText)
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
