// Package ground is where the sides of a benchmark are opened: files in a folder, fresh
// databases on a server of PostgreSQL, a Redis. It starts the servers, and tells what CPU
// they take. It must not know what is kept there. Start at Ground.
package ground

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// Ground gives each side of each round a place of its own.
type Ground interface {
	// Fresh names a place where nothing is yet, and what was written elsewhere has
	// reached the disk. What it holds is gone after remove.
	Fresh(ctx context.Context) (at string, remove func() error, err error)
	// CPU is what the server has used so far, in user and system mode; 0 without one.
	CPU() (time.Duration, error)
	// Close ends the servers that were started.
	Close() error
}

// Files are files in folders of their own, within one folder.
type Files string

var _ Ground = Files("")

// Fresh names a file that is not there, in a folder that remove removes.
func (f Files) Fresh(context.Context) (file string, remove func() error, err error) {
	dir, err := os.MkdirTemp(string(f), "nexjob-bench-")
	return filepath.Join(dir, "bench.db"), func() error { return os.RemoveAll(dir) }, err
}

// CPU is none: a file has no server.
func (Files) CPU() (time.Duration, error) { return 0, nil }

// Close does nothing.
func (Files) Close() error { return nil }
