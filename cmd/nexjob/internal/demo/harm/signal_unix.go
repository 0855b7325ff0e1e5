//go:build unix

package harm

import (
	"os"
	"syscall"
)

// CanFreeze says whether processes can be stopped and continued here.
const CanFreeze = true

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
