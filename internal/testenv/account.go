package testenv

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is a user of this machine.
type account struct {
	uid, gid uint32
}

// accountOf answers whom a server runs as. Unless we are root, which PostgreSQL and
// pgbouncer refuse to be, that is ourselves: nil.
func accountOf(name, debian string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, missing("the user "+name, debian)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user %s: %w", name, err)
	}
	return &account{uid: uint32(uid), gid: uint32(gid)}, nil
}

// makeFolder makes a new folder that is the account's alone.
func makeFolder(ctx context.Context, parent, prefix string, owner *account) (string, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil || owner == nil {
		return dir, err
	}
	if err := owner.give(dir); err != nil {
		return dir, err
	}
	if err := run(ctx, program{path: "/bin/sh", args: []string{"-c", ":"}, dir: dir, user: owner}); err != nil {
		return dir, fmt.Errorf("user %d cannot get to %s, nor run a server there: "+
			"name another folder in Dir, or in the environment as TMPDIR: %w", owner.uid, filepath.Dir(dir), err)
	}
	return dir, nil
}

// give makes a file or link the account's.
func (a *account) give(name string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(name, int(a.uid), int(a.gid))
}
