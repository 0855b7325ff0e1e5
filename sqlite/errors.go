package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// codeOf returns SQLite's extended result code of an error, 0 when it has none.
func codeOf(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

// primary is the sort of trouble, without what it is about.
func primary(extended int) int { return extended & 0xff }

func isBusy(err error) bool {
	p := primary(codeOf(err))
	return p == code.SQLITE_BUSY || p == code.SQLITE_LOCKED
}

// isStale reports that a transaction has read a state of the file that others have
// changed since, so that it can never write.
func isStale(err error) bool { return codeOf(err) == code.SQLITE_BUSY_SNAPSHOT }

// notOpened names the file that Open could not make ready, and what helps.
func notOpened(path string, err error) error {
	remedy := ""
	switch primary(codeOf(err)) {
	case code.SQLITE_CANTOPEN:
		remedy = "; this user must be able to read and write the file, its folder, and what lies beside it"
		if at, statErr := os.Stat(path); statErr == nil && at.IsDir() {
			remedy = "; it is a folder: name a file in it"
		}
		if _, statErr := os.Stat(filepath.Dir(path)); errors.Is(statErr, fs.ErrNotExist) {
			remedy = "; its folder does not exist: make it first"
		}
	case code.SQLITE_READONLY, code.SQLITE_PERM:
		remedy = "; this user must be able to write the file and its folder, also to read jobs"
	case code.SQLITE_NOTADB:
		remedy = "; it holds something else than a SQLite database: name another file"
	}
	return fmt.Errorf("file %q: %w%s", path, err, remedy)
}

// wrap says which step of this package failed, and marks trouble that may pass.
func wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	switch primary(codeOf(err)) {
	case code.SQLITE_BUSY, code.SQLITE_LOCKED, code.SQLITE_IOERR, code.SQLITE_FULL, code.SQLITE_PROTOCOL,
		code.SQLITE_NOMEM, code.SQLITE_CANTOPEN, code.SQLITE_READONLY:
		if !isStale(err) {
			err = &nexjob.TransientError{Err: err}
		}
	}
	return fmt.Errorf("sqlite: %s: %w", verb, err)
}

// holder is who was last seen to hold the file while writers of this process wait. It
// only serves to tell a caller whose patience has ended what to look for. A nil holder
// is that of somebody who takes no turns with a store: it notes nothing.
type holder struct {
	elsewhere atomic.Bool // a writer that takes no turns with this process's
	inTx      atomic.Bool // a transaction of InTx in this process
}

// begins notes that the holder of this process's turn now waits for SQLite's lock, and
// began what came of a try to take it.
func (h *holder) begins() {
	if h != nil {
		h.elsewhere.Store(true)
	}
}

func (h *holder) began(err error) {
	if h != nil {
		h.elsewhere.Store(err != nil && isBusy(err))
	}
}

// enter notes a transaction of InTx that has the file, until leave.
func (h *holder) enter() (leave func()) {
	if h == nil {
		return func() {}
	}
	h.inTx.Store(true)
	return func() { h.inTx.Store(false) }
}

// late says what a caller has waited for who could not wait any longer. Nothing of the
// call happened, so it may be made again.
func (h *holder) late(waited time.Duration, err error) error {
	why := "the writes before it took as long; write less at once, or wait longer"
	switch {
	case h == nil || h.elsewhere.Load():
		why = "another writer holds it, such as another process, an open sqlite3 shell, or a transaction begun " +
			"on DB or on a pool of your own; end that sooner, or wait longer"
	case h.inTx.Load():
		why = "a transaction of InTx in this process holds it; keep slow work out of that, or wait longer"
	}
	if waited >= time.Second {
		waited = waited.Round(10 * time.Millisecond)
	}
	return &nexjob.TransientError{
		Err: fmt.Errorf("waited %s for the file: %s: %w", waited.Round(time.Millisecond), why, err),
	}
}

// outOfTime reports whether an error is a caller's patience at its end, before anything
// of the call was done.
func outOfTime(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nexjob.ErrOutcomeUnknown)
}

// wait is the wait of a transaction of InTx for the file.
type wait struct {
	on    *holder
	since onewriter.Wait
}

// ended says why the wait is over without the transaction.
func (w wait) ended(open context.Context, err error) error {
	cause := context.Cause(open)
	if !outOfTime(cause) {
		return ended(open, err)
	}
	return w.on.late(w.since.Add(time.Time{}).Sub(time.Time{}), cause)
}
