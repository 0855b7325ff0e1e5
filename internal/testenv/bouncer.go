package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// BouncerOptions say how a pgbouncer pools. The zero value is for tests.
type BouncerOptions struct {
	// MaxPreparedStatements is how many prepared statements it keeps per connection, from
	// version 1.21 on; 0 (default) is none, so that a client must not prepare any.
	MaxPreparedStatements int
	PoolSize              int    // connections to the server per database; default 20
	Dir                   string // holds its folder; default os.TempDir, and user postgres must reach it
}

// Bouncer is a pgbouncer in transaction mode: a connection of the server is a client's
// for one transaction, so sessions keep nothing.
type Bouncer struct {
	postgres *Postgres
	port     int
	dir      string
	server   *child
}

// StartBouncer answers a pgbouncer in front of the server. The context bounds the start
// alone: it lives until Close, and through restarts of the server.
func StartBouncer(ctx context.Context, postgres *Postgres, options BouncerOptions) (*Bouncer, error) {
	b := &Bouncer{postgres: postgres}
	if err := b.start(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: start pgbouncer: %w", err), b.Close())
	}
	return b, nil
}

func (b *Bouncer) start(ctx context.Context, options BouncerOptions) error {
	path, err := find("pgbouncer", "pgbouncer")
	if err != nil {
		return err
	}
	keeps, err := keepsStatements(ctx, path)
	if err != nil {
		return err
	}
	if options.MaxPreparedStatements > 0 && !keeps {
		return fmt.Errorf("%s is older than 1.21 and keeps no prepared statements", path)
	}
	user, err := accountOf("postgres", "postgresql")
	if err != nil {
		return err
	}
	if b.dir, err = makeFolder(ctx, options.Dir, "nexjob-pgbouncer-", user); err != nil {
		return err
	}
	return onFreePort(func(port int) error {
		b.port = port
		file := filepath.Join(b.dir, "pgbouncer.ini")
		if err := os.WriteFile(file, []byte(b.config(options, keeps)), 0o600); err != nil {
			return err
		}
		if err := user.give(file); err != nil {
			return err
		}
		b.server, err = startChild(ctx, program{
			path: path, args: []string{file}, dir: b.dir, user: user,
			ready: "process up", orphan: syscall.SIGKILL,
		})
		return err
	})
}

// keepsStatements tells whether this pgbouncer knows max_prepared_statements.
func keepsStatements(ctx context.Context, path string) (bool, error) {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	version := regexp.MustCompile(`(\d+)\.(\d+)`).FindStringSubmatch(string(out))
	if err == nil && version == nil {
		err = errors.New("that tells no version")
	}
	if err != nil {
		return false, fmt.Errorf("%s --version: %q: %w", path, out, err)
	}
	major, majorErr := strconv.Atoi(version[1])
	minor, minorErr := strconv.Atoi(version[2])
	return major > 1 || minor >= 21, errors.Join(majorErr, minorErr)
}

// config is the file that pgbouncer reads. Whoever comes is the server's own user.
func (b *Bouncer) config(options BouncerOptions, keeps bool) string {
	if options.PoolSize == 0 {
		options.PoolSize = 20
	}
	to := b.postgres.address
	port := to.Port()
	if port == "" {
		port = "5432"
	}
	server := "host=" + to.Hostname() + " port=" + port + " user=" + value(to.User.Username())
	if password, ok := to.User.Password(); ok {
		server += " password=" + value(password)
	}
	lines := []string{
		"[databases]",
		"* = " + server,
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", b.port),
		"unix_socket_dir =",
		"auth_type = any",
		"admin_users = " + to.User.Username(),
		"pool_mode = transaction",
		fmt.Sprintf("default_pool_size = %d", options.PoolSize),
		"max_client_conn = 1000",
		"ignore_startup_parameters = extra_float_digits",
		"server_login_retry = 0.2", // a restart of the server is over soon
	}
	if mode := to.Query().Get("sslmode"); mode != "" {
		lines = append(lines, "server_tls_sslmode = "+mode)
	}
	if keeps {
		lines = append(lines, fmt.Sprintf("max_prepared_statements = %d", options.MaxPreparedStatements))
	}
	return strings.Join(lines, "\n") + "\n"
}

// value quotes a value of a connection string.
func value(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// URL is where to connect to a database of the server behind, as Postgres.URL has it.
func (b *Bouncer) URL(database string) string {
	return b.at(database).String()
}

func (b *Bouncer) at(database string) *url.URL {
	return local(strings.TrimPrefix(b.postgres.at(database).Path, "/"), b.port)
}

// Close ends pgbouncer, not the server behind it, and removes its folder. A second call
// does nothing.
func (b *Bouncer) Close() error {
	err := b.server.stop(syscall.SIGKILL, crashLimit)
	if b.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
