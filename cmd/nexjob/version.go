package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/sqlite"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from, and its engines",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return printer(cmd).Value(buildOf(info), func(w io.Writer) error {
				lines := []string{versionLine(info)}
				for _, e := range buildOf(info).Engines {
					lines = append(lines, e.line())
				}
				_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
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

	Engines []engine `json:"engines"`
}

// engine is a storage engine that is built in, and by what it is reached.
type engine struct {
	Name          string `json:"name"`
	Version       string `json:"version"`
	Driver        string `json:"driver"`
	DriverVersion string `json:"driver_version,omitempty"` // where the build knew it
}

func (e engine) line() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s by %s %s", e.Name, e.Version, e.Driver, e.DriverVersion))
}

// enginesOf are all engines, with the drivers' versions out of the build.
func enginesOf(info *debug.BuildInfo) []engine {
	lite := engine{Name: "sqlite", Version: sqlite.Version}
	lite.Driver, lite.DriverVersion = moduleOf(info, "modernc.org/sqlite")
	server := engine{Name: "postgres", Version: "14+"} // of the servers that it works on
	server.Driver, server.DriverVersion = moduleOf(info, "github.com/jackc/pgx/v5")
	return []engine{lite, server}
}

// moduleOf finds the module that a build has under a path, or what stands in its place.
func moduleOf(info *debug.BuildInfo, path string) (name, version string) {
	if info == nil {
		return path, ""
	}
	for _, module := range info.Deps {
		switch {
		case module.Path != path:
		case module.Replace != nil:
			return module.Replace.Path, module.Replace.Version
		default:
			return module.Path, module.Version
		}
	}
	return path, ""
}

// buildOf reads it; info is nil in a binary built without module support.
func buildOf(info *debug.BuildInfo) build {
	if info == nil {
		return build{Version: "(unknown build)", Engines: enginesOf(nil)}
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
		Engines:  enginesOf(info),
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
