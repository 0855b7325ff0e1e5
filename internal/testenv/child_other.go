//go:build !linux

package testenv

import "syscall"

// attributes has nothing to offer here: a server stays as who we are, and outlives a
// process that was killed.
func attributes(*account, syscall.Signal) *syscall.SysProcAttr { return nil }
