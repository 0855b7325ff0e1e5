package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// debianHome is where Debian keeps a version of PostgreSQL.
const debianHome = "/usr/lib/postgresql/%d"

// missing is the error about something that Debian's package would bring.
func missing(what, debian string) error {
	return fmt.Errorf("%s is missing: on Debian, run: sudo apt-get update && sudo apt-get install -y --no-install-recommends %s",
		what, debian)
}

// find answers a command's path. Not every user's PATH holds the folders of servers.
func find(command, debian string) (string, error) {
	for _, name := range []string{command, "/usr/sbin/" + command} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", missing(command, debian)
}

// psqlPath prefers the command itself to Debian's wrapper of it, which is slow.
func psqlPath() (string, error) {
	if direct := fmt.Sprintf(debianHome, 15) + "/bin/psql"; isFile(direct) {
		return direct, nil
	}
	return find("psql", "postgresql-client")
}

// postgresHome answers the folder that holds a version's bin.
func postgresHome(version int) (string, error) {
	variable := fmt.Sprintf("NEXJOB_POSTGRES%d", version)
	if home := os.Getenv(variable); home != "" {
		if !isFile(filepath.Join(home, "bin", "postgres")) {
			return "", fmt.Errorf("%s is %s, where there is no bin/postgres", variable, home)
		}
		return filepath.Abs(home)
	}
	if home := fmt.Sprintf(debianHome, version); isFile(home + "/bin/postgres") {
		return home, nil
	}
	if version == Versions()[0] {
		return "", missing(fmt.Sprintf("PostgreSQL %d", version), "postgresql")
	}
	return cachedHome(version)
}

// cachedHome answers what .ci/postgres18 fetched for this repository.
func cachedHome(version int) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		home := filepath.Join(dir, ".cache", fmt.Sprintf("postgres%d", version))
		if isFile(filepath.Join(home, "bin", "postgres")) {
			return home, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir || isFile(filepath.Join(dir, "go.work")) {
			return "", fmt.Errorf("PostgreSQL %d is missing: in the repository, run: .ci/postgres%d", version, version)
		}
		dir = parent
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// lend answers a home that the account can run from: the one given, or a copy of it
// where the account cannot get there, as below a home folder of root.
func lend(ctx context.Context, home, spare string, borrower *account) (string, error) {
	try := program{
		path: filepath.Join(home, "bin", "postgres"), args: []string{"--version"},
		dir: filepath.Dir(spare), user: borrower,
	}
	failure := run(ctx, try)
	if failure == nil || borrower == nil {
		return home, failure
	}
	if err := os.CopyFS(spare, os.DirFS(home)); err != nil {
		return "", errors.Join(failure, err)
	}
	err := filepath.WalkDir(spare, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return borrower.give(name)
	})
	return spare, err
}
