package testenv

import "syscall"

// attributes make a process run as user and receive orphan when we die.
func attributes(user *account, orphan syscall.Signal) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: orphan}
	if user != nil {
		attributes.Credential = &syscall.Credential{Uid: user.uid, Gid: user.gid}
	}
	return attributes
}
