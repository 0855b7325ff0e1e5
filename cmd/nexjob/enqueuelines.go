package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/bulk"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
)

// enqueueLines adds a job per line of a file.
func enqueueLines(cmd *cobra.Command, kind string, o *enqueueOptions) (err error) {
	from, size, err := openLines(cmd, o.from)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	how := bulk.Options{Kind: kind, Job: o.job, Key: o.field, Prefix: o.keyPrefix}
	var invalid *invalidFile
	if o.invalidTo != "" {
		if invalid, err = openInvalid(cmd, o.invalidTo, from); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, invalid.close()) }()
		how.Invalid = invalid
	}
	client, done, err := openForJobs(cmd)
	if err != nil {
		return err
	}
	if invalid != nil {
		if err := invalid.begin(); err != nil {
			return errors.Join(err, done())
		}
	}
	bar := newProgress(cmd.ErrOrStderr(), size)
	how.Progress = bar.show
	began := time.Now()
	summary, err := bulk.Run(cmd.Context(), client, bar.reader(from), how)
	err = errors.Join(err, done())
	bar.clear()
	summary.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	summary.Complete = err == nil
	return errors.Join(printer(cmd).Value(summary, summary.WriteTable), ending(summary, o, err))
}

// ending is the error that a run ends with, and what to do next.
func ending(s *bulk.Summary, o *enqueueOptions, err error) error {
	again := "run it again: lines that are in are answered existing"
	if o.noKeys {
		perhaps := ""
		if errors.Is(err, nexjob.ErrOutcomeUnknown) {
			perhaps = ", perhaps also some after them"
		}
		again = fmt.Sprintf("%d lines are in%s, and without keys a repeat adds them again", s.Created, perhaps)
	}
	bad := s.Invalid + s.Mismatched
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("enqueue: interrupted after %d lines; %s", s.Lines, again)
	case err != nil:
		return fmt.Errorf("enqueue: cut short after %d lines: %w; %s", s.Lines, err, again)
	case bad > 0:
		return fmt.Errorf("enqueue: %d of %d lines are not in; mend them and run it again", bad, s.Lines)
	}
	return nil
}

// openLines opens the input, and tells its size where it has one. A named pipe opens once
// somebody writes to it, which may be never.
func openLines(cmd *cobra.Command, name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), 0, nil
	}
	file, err := input.Await(cmd.Context(), func() (*os.File, error) { return os.Open(name) })
	switch {
	case cmd.Context().Err() != nil:
		return nil, 0, errInterrupted
	case err != nil:
		return nil, 0, input.Unreadable(name, err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a folder: want a file")
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, input.Unreadable(name, err)
	}
	size := int64(0)
	if info.Mode().IsRegular() {
		size = info.Size()
	}
	return file, size, nil
}

// invalidFile is the file for bad lines. Until the run begins nothing of it is changed, so
// that a command which did nothing has not emptied it either.
type invalidFile struct {
	*os.File
	made, begun bool
}

// openInvalid opens the file for bad lines, and makes it if it is not there. It refuses
// the input, which would be emptied before it is read, and the storage.
func openInvalid(cmd *cobra.Command, name string, from io.Reader) (*invalidFile, error) {
	if name == "-" {
		return nil, input.Wrong("--invalid-to", "-: want a file; --json prints lines that are not in as well")
	}
	at, err := storeLocation(cmd)
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(name)
	made := errors.Is(err, fs.ErrNotExist)
	file, err := input.Await(cmd.Context(), func() (*os.File, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) //nolint:gosec // the umask decides, as for any output
	})
	switch {
	case cmd.Context().Err() != nil:
		return nil, errInterrupted
	case err != nil:
		return nil, input.Unreadable("--invalid-to "+name, err)
	}
	f := &invalidFile{File: file, made: made}
	if what := f.sameAs(cmd, at, from); what != "" {
		return nil, errors.Join(input.Wrong("--invalid-to", "%s is %s", name, what), f.close())
	}
	return f, nil
}

// sameAs says what else the file is, under whatever name.
func (f *invalidFile) sameAs(cmd *cobra.Command, at *location, from io.Reader) string {
	is, err := f.Stat()
	if err != nil {
		return ""
	}
	same := func(other os.FileInfo, err error) bool {
		return err == nil && is.Mode().IsRegular() && os.SameFile(is, other)
	}
	source, isFile := from.(*os.File)
	if !isFile {
		source, isFile = fileOf(cmd.InOrStdin())
	}
	if isFile && same(source.Stat()) {
		return "the input itself"
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if !at.onPostgres() && same(os.Stat(at.path+suffix)) {
			return "the storage's"
		}
	}
	return ""
}

// begin empties the file.
func (f *invalidFile) begin() error {
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err != nil {
		return input.Unreadable("--invalid-to "+f.Name(), err)
	}
	f.begun = true
	return nil
}

// close closes the file, and removes it if it was made for a run that did not begin.
func (f *invalidFile) close() error {
	err := f.Close()
	if f.made && !f.begun {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
