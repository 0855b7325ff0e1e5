package main

import (
	"io"
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

// stream is where answers go. It remembers an answer that could not be written, for
// those who write without a look.
type stream struct {
	io.Writer
	err error
}

// Write writes, and remembers.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Writer.Write(b)
	if err != nil && s.err == nil {
		s.err = err
	}
	return n, err
}

// fileOf returns the file that a stream of the command is, if it is one.
func fileOf(from any) (*os.File, bool) {
	if s, ok := from.(*stream); ok {
		from = s.Writer
	}
	file, ok := from.(*os.File)
	return file, ok
}

// terminal reports whether a stream of the command is one, with a person before it.
func terminal(from any) bool {
	file, ok := fileOf(from)
	return ok && isatty.IsTerminal(file.Fd())
}
