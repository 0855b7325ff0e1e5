package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(info))
			return err
		},
	}
}

// versionLine is one line that a bug report can quote: version, revision where
// the build knew it ("+changes" when the tree was not clean), Go release and
// platform. info is nil in a binary built without module support.
func versionLine(info *debug.BuildInfo) string {
	if info == nil {
		return "nexjob (unknown build)"
	}
	setting := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	words := []string{"nexjob", info.Main.Version}
	if revision := setting["vcs.revision"]; revision != "" {
		if setting["vcs.modified"] == "true" {
			revision += "+changes"
		}
		words = append(words, revision)
	}
	return strings.Join(append(words, info.GoVersion, setting["GOOS"]+"/"+setting["GOARCH"]), " ")
}
