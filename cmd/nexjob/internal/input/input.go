// Package input is what a user gives to a command: names what is wrong with it, and
// reads it line by line in constant memory. It knows no jobs and no storage. Start at
// Error.
package input

import (
	"errors"
	"fmt"
	"os"
)

// Error is a mistake in what the user gave: a flag, an argument, a file. Nothing was
// done, and the exit code is 2.
type Error struct {
	Name string // of the flag, argument or file
	Line int    // 0: the mistake is not in one line
	Why  string // what is wrong, and what is right
}

// Error names the place and what is wrong there.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Name, e.Why)
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Why)
}

// Wrong makes an *Error for a flag, an argument or a file as a whole.
func Wrong(name, format string, args ...any) error {
	return &Error{Name: name, Why: fmt.Sprintf(format, args...)}
}

// Unreadable makes an *Error for a file that cannot be opened or read.
func Unreadable(name string, err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err // the message has the name
	}
	return &Error{Name: name, Why: err.Error()}
}
