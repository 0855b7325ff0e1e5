package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/nexjob/nexjob/sqlite"
)

func TestRun(t *testing.T) {
	tests := []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // a part of it; "" wants it empty
	}{
		{"no command teaches", nil, 0, "Available Commands:", ""},
		{"version", []string{"version"}, 0, runtime.Version(), ""},
		{"version as a flag", []string{"--version"}, 0, runtime.Version(), ""},
		{"help says whose defaults count", []string{"enqueue", "--help"}, 0, "The Defaults of a kind, such as its policy", ""},
		{"unknown flag", []string{"demo", "--nope"}, 2, "", "unknown flag: --nope; see nexjob demo --help"},
		{"unknown command", []string{"foo"}, 2, "", `unknown command "foo" for "nexjob"; see nexjob --help`},
		{"mistyped command", []string{"vers"}, 2, "", `unknown command "vers" for "nexjob"; did you mean nexjob version?`},
		{"mistyped subcommand", []string{"jobs", "lst"}, 2, "", "did you mean nexjob jobs list?"},
		{"command of a group", []string{"requeue", "--state", "failed"}, 2, "", "did you mean nexjob jobs requeue?"},
		{"command of another group", []string{"key", "clear"}, 2, "", "did you mean nexjob jobs clear-key?"},
		{"hidden command", []string{"demo-work"}, 2, "", `unknown command "demo-work" for "nexjob"; see nexjob --help`},
		{"argument too many", []string{"version", "all"}, 2, "", `"all" is too much: nexjob version takes no arguments`},
		{"argument missing", []string{"key", "explain"}, 2, "", "the KEY is missing; see nexjob key explain --help"},
		{"two for one", []string{"jobs", "show", "a", "b"}, 2, "", "2 arguments: want one ID"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), tt.args, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for stream, got := range map[string]struct{ text, want string }{
				"stdout": {stdout.String(), tt.stdout},
				"stderr": {stderr.String(), tt.stderr},
			} {
				if !strings.Contains(got.text, got.want) || (got.want == "" && got.text != "") {
					t.Errorf("%s is %q, want %q in it", stream, got.text, got.want)
				}
			}
		})
	}
}

func TestVersionLine(t *testing.T) {
	build := func(settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{
			GoVersion: "go1.26.8",
			Main:      debug.Module{Version: "v0.1.0"},
			Settings: append([]debug.BuildSetting{
				{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "amd64"},
			}, settings...),
		}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "7991427"}
	tests := []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"no build info", nil, "nexjob (unknown build)"},
		{"installed by version", build(), "nexjob v0.1.0 go1.26.8 linux/amd64"},
		{
			"clean tree", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}),
			"nexjob v0.1.0 7991427 go1.26.8 linux/amd64",
		},
		{
			"changed tree", build(revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
			"nexjob v0.1.0 7991427+changes go1.26.8 linux/amd64",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := versionLine(tt.info); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// The version of SQLite is that which the engine runs, and that of its driver comes out of
// the build, from the module that stands in its place if there is one.
func TestVersionNamesEngines(t *testing.T) {
	driver := debug.Module{Path: "modernc.org/sqlite", Version: "v1.62.0"}
	forked := driver
	forked.Replace = &debug.Module{Path: "example.com/sqlite", Version: "v9.0.0"}
	for want, info := range map[string]*debug.BuildInfo{
		" by modernc.org/sqlite":         nil,
		" by modernc.org/sqlite v1.62.0": {Deps: []*debug.Module{{Path: "modernc.org/libc"}, &driver}},
		" by example.com/sqlite v9.0.0":  {Deps: []*debug.Module{&forked}},
	} {
		engines := buildOf(info).Engines
		if len(engines) != 2 || engines[1].Name != "postgres" || engines[0].line() != "sqlite "+sqlite.Version+want {
			t.Errorf("%+v, want %s", engines, want)
		}
	}
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var running string
	if err := store.DB().QueryRowContext(t.Context(), `SELECT sqlite_version()`).Scan(&running); err != nil || running != sqlite.Version {
		t.Errorf("SQLite runs as %s, and is called %s: %v", running, sqlite.Version, err)
	}
}

// TestUnwritten: an answer that could not be written is a failure, whoever writes it.
func TestUnwritten(t *testing.T) {
	full := errors.New("no space left on device")
	for _, args := range [][]string{{"version"}, {"--version"}, {"--help"}, {"jobs"}, {"help", "jobs"}, {"migrate", "--print"}} {
		var stderr bytes.Buffer
		code := run(t.Context(), args, io.Discard, &stderr)
		if code != 0 || stderr.Len() > 0 { // a writer that takes everything
			t.Errorf("%v: exit code %d, %s", args, code, &stderr)
		}
		code = run(t.Context(), args, failing{full}, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), full.Error()) {
			t.Errorf("%v on a full disk: exit code %d, %q", args, code, &stderr)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
