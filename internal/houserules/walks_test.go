package houserules

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is where a walk through the code enters a file, such as `sqlite/lane.go` `turn`.
var step = regexp.MustCompile("`([a-z_0-9/]+\\.go)` `(?:\\w+\\.)?(\\w+)`")

// TestWalksLeadSomewhere holds the two walks of CONTRIBUTING.md against the code: each
// file that they enter declares the function that they enter it by. A file without its
// folder is in one that was named before.
func TestWalksLeadSomewhere(t *testing.T) {
	_, walks, found := strings.Cut(readFile(t, filepath.Join(root(t), "CONTRIBUTING.md")), "\n## Two walks\n")
	walks, _, ended := strings.Cut(walks, "\n## ")
	if !found || !ended {
		t.Fatal("CONTRIBUTING.md has no section \"Two walks\"")
	}
	steps := step.FindAllStringSubmatch(walks, -1)
	if len(steps) < 10 {
		t.Errorf("only %d steps found", len(steps))
	}
	folders := []string{"."}
	for _, s := range steps {
		file, function := s[1], s[2]
		declares := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + function + `\b`)
		leads := false
		for _, folder := range folders {
			text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(path.Join(folder, file))))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			leads = leads || declares.Match(text)
		}
		if !leads {
			t.Errorf("CONTRIBUTING.md leads to %s of %s, which is not there", function, file)
		}
		folders = append(folders, path.Dir(file))
	}
}
