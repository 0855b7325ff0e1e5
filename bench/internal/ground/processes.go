package ground

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of the times in /proc, on every machine that Go runs on.
const tick = 10 * time.Millisecond

// process is what /proc tells of a process.
type process struct {
	name   string
	parent int
	own    time.Duration // user and system mode
	ended  time.Duration // that of children which ended and were waited for
}

// groupCPU is what a process used, with its children, those that ended among them.
func groupCPU(leader int) (time.Duration, error) {
	before, err := look(leader)
	for err == nil {
		var alive time.Duration
		if alive, err = childrenCPU(leader); err != nil {
			break
		}
		var p process
		if p, err = look(leader); err == nil && p.ended == before.ended {
			return p.own + p.ended + alive, nil
		}
		before = p // a child ended meanwhile: it may have been counted twice or not at all
	}
	return 0, err
}

func childrenCPU(leader int) (time.Duration, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		child, err := look(pid)
		switch {
		case errors.Is(err, errGone):
		case err != nil:
			return 0, err
		case child.parent == leader:
			sum += child.own + child.ended
		}
	}
	return sum, nil
}

var errGone = errors.New("the process is gone")

// look reads /proc/PID/stat; see proc(5) for the fields.
func look(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			err = fmt.Errorf("%w: %w", errGone, err)
		}
		return process{}, err
	}
	// The name is in brackets, and may hold any character.
	head, rest, found := cutLast(string(text), ") ")
	fields := strings.Fields(rest)
	if _, name, ok := strings.Cut(head, "("); found && ok && len(fields) > 14 {
		p := process{name: name}
		var times [4]int64
		p.parent, err = strconv.Atoi(fields[1])
		for i := range times {
			var wrong error
			times[i], wrong = strconv.ParseInt(fields[11+i], 10, 64)
			err = errors.Join(err, wrong)
		}
		p.own = time.Duration(times[0]+times[1]) * tick
		p.ended = time.Duration(times[2]+times[3]) * tick
		return p, err
	}
	return process{}, fmt.Errorf("/proc/%d/stat has another form: %q", pid, text)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
