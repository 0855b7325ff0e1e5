package houserules

import (
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRecordsAreIndexed keeps a decision from being written where nobody finds
// it, and its number from being given twice.
func TestRecordsAreIndexed(t *testing.T) {
	const dir = "docs/adr"
	index := readFile(t, filepath.Join(root(t), dir, "README.md"))
	named := regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	byNumber := make(map[string]string)
	walk(t, func(rel string) {
		name := path.Base(rel)
		if path.Dir(rel) != dir || name == "README.md" {
			return
		}
		parts := named.FindStringSubmatch(name)
		if parts == nil {
			t.Errorf("%s: a record is named NNNN-title.md", rel)
			return
		}
		if first, taken := byNumber[parts[1]]; taken {
			t.Errorf("%s and %s have one number", first, name)
		}
		byNumber[parts[1]] = name
		if !strings.Contains(index, "]("+name+")") {
			t.Errorf("%s is not linked in %s/README.md", name, dir)
		}
	})
	if len(byNumber) == 0 {
		t.Error("no record found")
	}
}
