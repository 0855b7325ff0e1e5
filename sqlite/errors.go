package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/nexjob/nexjob"
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
