package main

import (
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

const jsonFlag = "json"

// addJSONFlag declares --json on the root, for every command below it.
func addJSONFlag(root *cobra.Command) {
	root.PersistentFlags().Bool(jsonFlag, false, "print JSON instead of a table: one object, or one per line for lists")
}

// printer writes a command's answer in the form that the command line asks for.
func printer(cmd *cobra.Command) view.Printer {
	flag := cmd.Flag(jsonFlag)
	return view.Printer{Out: cmd.OutOrStdout(), JSON: flag != nil && flag.Value.String() == "true"}
}

// terminal reports whether a stream of the command is one, with a person before it.
func terminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
