package harm

import (
	"os/exec"
	"syscall"
)

// tie has the system end a process when this one dies. The end of its standard input
// tells it too, but a frozen one cannot hear it, and nobody would be left to thaw it.
//
// Linux ties it to the thread that starts it. Go ends no thread but those that a
// goroutine was locked to, and nothing here locks any.
func tie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
