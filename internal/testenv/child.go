package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = time.Minute      // of a start, on a busy machine
	stopLimit  = 10 * time.Second // of an end in good order
	crashLimit = time.Second      // of any other end
	tailSize   = 4 << 10          // bytes of a log that errors show
)

// errPortTaken is the end of a server that somebody else's port was given to.
var errPortTaken = errors.New("the port is taken")

// program is what a process is started from.
type program struct {
	path   string
	args   []string
	dir    string         // it works there, since its user may not be able to enter our folder
	user   *account       // nil is whoever we are
	ready  string         // what a server logs once it takes connections
	orphan syscall.Signal // what the kernel sends a server when we die
}

func (p program) name() string { return filepath.Base(p.path) }

// command is the process to be, which writes to log.
func (p program) command(log *journal) *exec.Cmd {
	cmd := exec.Command(p.path, p.args...)
	cmd.Dir, cmd.Env = p.dir, environment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes(p.user, p.orphan)
	cmd.WaitDelay = stopLimit
	return cmd
}

// child is a server that we started.
type child struct {
	name    string
	pid     int
	process *os.Process
	ended   chan struct{} // closed when it is gone, and all of its own children with it
}

// startChild answers a server that takes connections.
func startChild(ctx context.Context, p program) (*child, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	log := &journal{awaited: p.ready, seen: make(chan struct{})}
	cmd := p.command(log)
	c := &child{name: p.name(), ended: make(chan struct{})}
	started := make(chan error)
	var end error // read after ended is closed
	go func() {
		// The kernel takes the end of the thread that started a child for the end of
		// its parent, so this thread is kept for as long as the child lives.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			end = cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.process, c.pid = cmd.Process, cmd.Process.Pid
	select {
	case <-log.seen:
		return c, nil
	case <-c.ended:
		err := end
		if strings.Contains(log.tail(), "Address already in use") {
			err = errPortTaken
		}
		return nil, fmt.Errorf("%s ended: %w\n%s", c.name, err, log.tail())
	case <-ctx.Done():
		err := c.stop(syscall.SIGKILL, crashLimit)
		return nil, errors.Join(fmt.Errorf("%s does not take connections: %w\n%s", c.name, ctx.Err(), log.tail()), err)
	}
}

// running tells whether the server, or a process that it left, is still there.
func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// stop sends the signal and answers when the server is gone. One that is not after the
// limit gets SIGKILL: PostgreSQL waits a minute for a client that connected while it was
// going down and says nothing.
func (c *child) stop(how syscall.Signal, limit time.Duration) error {
	if !c.running() {
		return nil
	}
	// It cannot reach a stranger who got the same number: once the process is waited
	// for, the signal is refused.
	if err := c.process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("testenv: %s %s: %w", how, c.name, err)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-timer.C:
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("testenv: kill %s: %w", c.name, err)
	}
	<-c.ended
	return nil
}

// run runs a program to its end.
func run(ctx context.Context, p program) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	log := &journal{}
	cmd := p.command(log)
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w\n%s", p.name(), err, log.tail()), ctx.Err())
	}
	return nil
}

// environment is env without what would change how servers and psql behave: their own
// variables, and languages, as we read what they log.
func environment(env []string) []string {
	var kept []string
	for _, pair := range env {
		if !strings.HasPrefix(pair, "PG") && !strings.HasPrefix(pair, "LC_") && !strings.HasPrefix(pair, "LANG") {
			kept = append(kept, pair)
		}
	}
	return append(kept, "LC_ALL=C")
}

// journal is the end of a log, and tells when a text was logged.
type journal struct {
	awaited string
	seen    chan struct{} // closed then

	mu   sync.Mutex
	text []byte
	told bool
}

// Write never fails: a server must not end because nobody listens.
func (j *journal) Write(text []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text = append(j.text, text...)
	if j.awaited != "" && !j.told && bytes.Contains(j.text, []byte(j.awaited)) {
		j.told = true
		close(j.seen)
	}
	j.text = j.text[max(0, len(j.text)-tailSize):]
	return len(text), nil
}

func (j *journal) tail() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.TrimSpace(string(j.text))
}
