package harm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
)

// Crew keeps a number of worker processes running: one that was killed is started
// again under a new name. A process that ends in any other way ends the run.
type Crew struct {
	dir     string // where each process writes its log
	command func(ctx context.Context, name string) *exec.Cmd
	say     func(format string, args ...any)

	mu      sync.Mutex
	alive   map[string]*process
	started int
	killed  int
}

// process is one worker process.
type process struct {
	cmd    *exec.Cmd
	killed bool          // by us
	spared bool          // not to be killed now
	ended  chan struct{} // closed when the operating system says that it is gone
}

// NewCrew returns a crew whose processes log into a folder.
func NewCrew(
	dir string, say func(format string, args ...any), command func(ctx context.Context, name string) *exec.Cmd,
) *Crew {
	return &Crew{dir: dir, command: command, say: say, alive: make(map[string]*process)}
}

// Run keeps n processes running until ctx ends, then asks them to stop and waits
// for it. It returns why a process ended by itself, if one did.
func (c *Crew) Run(ctx context.Context, n int) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var seats sync.WaitGroup
	faults := make([]error, n)
	for seat := range n {
		seats.Go(func() {
			defer giveUp() // one that cannot go on stops all
			faults[seat] = c.seat(ctx, seat+1)
		})
	}
	seats.Wait()
	return errors.Join(faults...)
}

// seat runs one process after another.
func (c *Crew) seat(ctx context.Context, seat int) error {
	for life := 1; ctx.Err() == nil; life++ {
		name := fmt.Sprintf("worker-%d.%d", seat, life)
		p, err := c.start(ctx, name)
		switch {
		case err == nil:
		case ctx.Err() != nil: // it was asked to stop before it was there
			continue
		default:
			return fmt.Errorf("demo: start %s: %w", name, err)
		}
		waitErr := p.cmd.Wait()
		c.end(name, p)
		switch {
		case p.killed:
			continue
		case ctx.Err() != nil && p.cmd.ProcessState.Success():
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("demo: %s did not stop in order: %w%s", name, waitErr, c.lastWords(name))
		default:
			return fmt.Errorf("demo: %s ended by itself: %s%s", name, p.cmd.ProcessState, c.lastWords(name))
		}
	}
	return nil
}

// start begins a process. Its standard input is a pipe that we hold: it ends when
// we ask the process to stop, and also when we die, so that no worker is left over.
func (c *Crew) start(ctx context.Context, name string) (*process, error) {
	log, err := os.Create(c.logFile(name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	cmd := c.command(ctx, name)
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = cast.StopTime
	tie(cmd)
	p := &process{cmd: cmd, ended: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.alive[name] = p
	c.started++
	c.say("started %s (process %d)", name, cmd.Process.Pid)
	return p, nil
}

func (c *Crew) end(name string, p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.alive, name)
	close(p.ended)
}

// Kill ends the named process with SIGKILL, or its like where there is none, and
// waits until it is gone. It answers false if the process was dying already, or is spared.
func (c *Crew) Kill(name string) (pid int, killed bool) {
	c.mu.Lock()
	p, ok := c.alive[name]
	if !ok || p.killed || p.spared || p.cmd.Process.Kill() != nil {
		c.mu.Unlock()
		return 0, false
	}
	p.killed = true
	c.killed++
	c.mu.Unlock()
	<-p.ended
	return p.cmd.Process.Pid, true
}

// Freeze stops the named process, and spares it. It answers false if the process was
// dying already.
func (c *Crew) Freeze(name string) (pid int, frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.alive[name]
	if !ok || p.killed || suspend(p.cmd.Process) != nil {
		return 0, false
	}
	p.spared = true
	return p.cmd.Process.Pid, true
}

// Thaw lets a frozen process go on.
func (c *Crew) Thaw(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.alive[name]; ok {
		_ = resume(p.cmd.Process) // it is ours and has not ended
	}
}

// Spare keeps the named process from being killed, or no longer.
func (c *Crew) Spare(name string, spare bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.alive[name]; ok {
		p.spared = spare
	}
}

// Alive returns the processes that may be killed, in no order.
func (c *Crew) Alive() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, p := range c.alive {
		if !p.killed && !p.spared {
			names = append(names, name)
		}
	}
	return names
}

// Counts returns how many processes were started and how many of them were killed.
func (c *Crew) Counts() (started, killed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started, c.killed
}

func (c *Crew) logFile(name string) string { return filepath.Join(c.dir, name+".log") }

// lastWords is the end of a process's log, for the message about its end.
func (c *Crew) lastWords(name string) string {
	log, err := os.Open(c.logFile(name))
	if err != nil {
		return ""
	}
	defer func() { _ = log.Close() }() // it was only read
	const enough = 2000
	if size, err := log.Seek(0, io.SeekEnd); err == nil {
		_, _ = log.Seek(max(0, size-enough), io.SeekStart)
	}
	text, _ := io.ReadAll(log)
	return "\nits last words:\n" + string(text)
}
