package postgres

import (
	"crypto/sha256"
	_ "embed" // the statements
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/sqlstore"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

//go:embed statements.sql
var statementText string

// names are what the engine's tables are called.
type names struct {
	schema string // "": what the connection's search path begins with
	prefix string
}

// check refuses names that would have to be quoted in more than one way.
func (n names) check() error {
	plain := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	for field, name := range map[string]string{"schema": n.schema, "prefix": n.prefix} {
		if name == "" {
			continue
		}
		if !plain.MatchString(name) || len(name) > 40 {
			return &nexjob.InvalidError{
				Field: field, Why: name, Remedy: "at most 40 letters, digits and underscores, no digit first",
			}
		}
	}
	return nil
}

// in puts the names into a text of SQL: "nexjob." begins what stands in the schema, and
// "nexjob_" what has the prefix. It goes over a text once, since every store that is opened
// brings some eighty.
func (n names) in(text string) string {
	const stem = "nexjob"
	var out strings.Builder
	out.Grow(len(text) + len(text)/4)
	done := 0
	for at := 0; ; {
		next := strings.Index(text[at:], stem)
		if next < 0 || at+next+len(stem) == len(text) {
			out.WriteString(text[done:])
			return out.String()
		}
		begin := at + next
		at = begin + len(stem)
		mark, end := text[at], at+1
		for end < len(text) && inName(text[end]) {
			end++
		}
		if begin > 0 && inName(text[begin-1]) || mark != '.' && mark != '_' || end == at+1 {
			continue
		}
		out.WriteString(text[done:begin])
		if mark == '.' {
			out.WriteString(`"` + n.schema + `".`)
		}
		out.WriteString(`"` + n.prefix + `_` + text[at+1:end] + `"`)
		at, done = end, end
	}
}

// inName is whether a name of SQL may hold a byte, as ours do: in small letters.
func inName(c byte) bool { return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' }

// sheet holds the statements by name.
type sheet map[string]wire.Statement

func (n names) sheet() (sheet, error) {
	texts, err := sqlstore.ParseSheet(statementText)
	if err != nil {
		return nil, err
	}
	all := make(sheet, len(texts))
	for name, text := range texts {
		all[name] = n.statement(name, text)
	}
	for _, table := range []string{"jobs", "keys", "parents"} { // for statements that are put together
		all["table "+table] = wire.Statement{Text: n.in("nexjob." + table)}
	}
	return all, nil
}

// statement is a text with the names in it. What it is prepared as tells its text, for one
// connection may serve stores with other names, and code of another version.
func (n names) statement(name, text string) wire.Statement {
	text = n.in(text)
	sum := sha256.Sum256([]byte(text))
	return wire.Statement{Name: "nexjob " + strings.TrimSpace(name) + " " + hex.EncodeToString(sum[:6]), Text: text}
}
