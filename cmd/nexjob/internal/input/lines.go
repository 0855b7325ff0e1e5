package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Line is one line that is not blank.
type Line struct {
	Number int    // from 1, blank lines counted
	Text   []byte // without its end and outer spaces; its own memory
	Err    error  // why it cannot be used; Text is then nil
}

// Lines reads text line by line and holds no more than one line of the limit. A line
// that is longer costs only itself. Lines end with LF or CRLF, the last one with
// either or none; a byte order mark before the first is no part of it.
type Lines struct {
	from   *bufio.Reader
	limit  int
	number int
	whole  []byte // of the line that is read: scratch
}

// NewLines reads lines of at most limit bytes.
func NewLines(from io.Reader, limit int) *Lines {
	return &Lines{from: bufio.NewReaderSize(from, 64<<10), limit: limit}
}

// Next returns the next line that is not blank. The error is io.EOF at the end, or what
// the reader met; a line that it cut off is not returned, for it may be half of one.
func (l *Lines) Next() (Line, error) {
	for {
		text, long, err := l.read()
		if err != nil {
			return Line{}, err
		}
		l.number++
		if l.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\uFEFF"))
		}
		text = bytes.Trim(text, " \t\r\n")
		switch {
		case long || len(text) > l.limit:
			return Line{Number: l.number, Err: fmt.Errorf("longer than %d bytes", l.limit)}, nil
		case len(text) > 0:
			return Line{Number: l.number, Text: bytes.Clone(text)}, nil
		}
	}
}

// read returns one line with its end; long says that it is cut short. The text is valid
// until the next call.
func (l *Lines) read() (text []byte, long bool, err error) {
	l.whole = l.whole[:0]
	room := l.limit + 64 // for the line's end, a mark, and a few spaces
	for {
		part, err := l.from.ReadSlice('\n')
		if kept := min(len(part), room-len(l.whole)); kept < len(part) {
			part, long = part[:kept], true
		}
		l.whole = append(l.whole, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(l.whole) > 0:
			return l.whole, long, nil
		}
		return l.whole, long, err
	}
}
