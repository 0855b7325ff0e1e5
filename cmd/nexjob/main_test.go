package main

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
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
