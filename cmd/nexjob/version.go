package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return printer(cmd).Value(buildOf(info), func(w io.Writer) error {
				_, err := fmt.Fprintln(w, versionLine(info))
				return err
			})
		},
	}
}

// build is what a binary was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // where the build knew it
	Changed  bool   `json:"changed,omitempty"`  // the tree was not clean
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildOf reads it; info is nil in a binary built without module support.
func buildOf(info *debug.BuildInfo) build {
	if info == nil {
		return build{Version: "(unknown build)"}
	}
	setting := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	return build{
		Version:  info.Main.Version,
		Revision: setting["vcs.revision"],
		Changed:  setting["vcs.modified"] == "true",
		Go:       info.GoVersion,
		Platform: setting["GOOS"] + "/" + setting["GOARCH"],
	}
}

// versionLine is one line that a bug report can quote, "+changes" after the revision
// when the tree was not clean.
func versionLine(info *debug.BuildInfo) string {
	b := buildOf(info)
	words := []string{"nexjob", b.Version, b.Revision, b.Go, b.Platform}
	if b.Revision != "" && b.Changed {
		words[2] += "+changes"
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}
