package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

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
	if o.invalidTo != "" {
		invalid, err := makeInvalid(o.invalidTo, from)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, invalid.Close()) }()
		how.Invalid = invalid
	}
	client, done, err := openForJobs(cmd)
	if err != nil {
		return err
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
		again = fmt.Sprintf("%d lines are in, and without keys a repeat adds them again", s.Created)
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

// openLines opens the input, and tells its size where it has one.
func openLines(cmd *cobra.Command, name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(cmd.InOrStdin()), 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
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

// makeInvalid makes the file for bad lines. The input itself would be emptied before it
// is read.
func makeInvalid(name string, from io.Reader) (*os.File, error) {
	if name == "-" {
		return nil, input.Wrong("--invalid-to", "-: want a file; --json prints lines that are not in as well")
	}
	if source, ok := from.(*os.File); ok {
		is, err := source.Stat()
		to, toErr := os.Stat(name)
		if err == nil && toErr == nil && os.SameFile(is, to) {
			return nil, input.Wrong("--invalid-to", "%s is the input itself", name)
		}
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, input.Unreadable("--invalid-to "+name, err)
	}
	return file, nil
}
