package houserules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxModules bounds the main module's graph: all that a user's program loads,
// and whoever audits it reads.
const maxModules = 50

func TestMainModuleStaysSmall(t *testing.T) {
	lines := strings.Fields(goCommand(t, root(t), "list", "-m", "-f", "{{.Path}}", "all"))
	if len(lines) >= maxModules {
		t.Errorf("go list -m all names %d modules, and a user's program loads them all; stay under %d. "+
			"Find who asks with `GOWORK=off go mod graph`, and put what needs them into a module of its own:\n%s",
			len(lines), maxModules, strings.Join(lines, "\n"))
	}
}

// TestWorkspaceNamesEveryModule keeps a new module from being built by nobody.
// The tools are no part of the workspace: go.work says why.
func TestWorkspaceNamesEveryModule(t *testing.T) {
	var work struct{ Use []struct{ DiskPath string } }
	out := goCommand(t, root(t), "work", "edit", "-json", "go.work")
	if err := json.Unmarshal([]byte(out), &work); err != nil {
		t.Fatal(err)
	}
	used := []string{"tools"}
	for _, u := range work.Use {
		used = append(used, filepath.Clean(u.DiskPath))
	}
	slices.Sort(used)
	if found := modules(t); !slices.Equal(found, used) {
		t.Errorf("go.work and tools name the modules %q, and the tree has %q", used, found)
	}
}

// modules are the folders with a go.mod, relative to the root, in order.
func modules(t *testing.T) []string {
	t.Helper()
	var found []string
	walk(t, func(rel string) {
		if filepath.Base(rel) == "go.mod" {
			found = append(found, filepath.Dir(rel))
		}
	})
	slices.Sort(found)
	return found
}

// goList lists the packages of one module as its users see them, on its own
// go.mod.
func goList(t *testing.T, module string) []listed {
	t.Helper()
	out := goCommand(t, filepath.Join(root(t), module),
		"list", "-json=ImportPath,Name,Dir,Imports,IgnoredGoFiles", "./...")
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// goCommand runs the go command outside the workspace and answers its output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "PWD="+dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, &stderr)
	}
	return string(out)
}

// root is the folder of go.work.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.work above this test")
		}
		dir = parent
	}
}

// walk visits every file of the repository, by its path relative to the root,
// but not what Go itself would pass over: testdata and names with a leading dot.
func walk(t *testing.T, visit func(rel string)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && name != top
		if entry.IsDir() && (hidden || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if entry.Type().IsRegular() && !hidden {
			rel, err := filepath.Rel(top, name)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
