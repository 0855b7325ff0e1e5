package ground

import (
	"fmt"
	"syscall"
)

// tmpfs is the kernel's number for a file system in memory.
const tmpfs = 0x01021994

// OnDisk refuses a folder whose files are kept in memory: there a flush costs nothing,
// and the figures would say nothing about durable commits.
func OnDisk(dir string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("the folder %s: %w", dir, err)
	}
	if stat.Type == tmpfs {
		return fmt.Errorf("%s keeps files in memory, where a flush costs nothing: name a folder on a disk with -dir", dir)
	}
	return nil
}
