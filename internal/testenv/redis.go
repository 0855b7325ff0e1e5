package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// RedisOptions say what StartRedis starts. The zero value is for tests.
type RedisOptions struct {
	Dir        string // holds its folder; default os.TempDir, and user redis must reach it
	AppendOnly bool   // writes go to a file, which is flushed every second; by default nothing is kept
}

// Redis is a server of Redis.
type Redis struct {
	port   int
	dir    string
	server *child
}

// StartRedis answers a server that takes connections. The context bounds the start
// alone: the server lives until Close.
func StartRedis(ctx context.Context, options RedisOptions) (*Redis, error) {
	r := &Redis{}
	if err := r.start(ctx, options); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: start Redis: %w", err), r.Close())
	}
	return r, nil
}

func (r *Redis) start(ctx context.Context, options RedisOptions) error {
	path, err := find("redis-server", "redis-server")
	if err != nil {
		return err
	}
	user, err := accountOf("redis", "redis-server")
	if err != nil {
		return err
	}
	if r.dir, err = makeFolder(ctx, options.Dir, "nexjob-redis-", user); err != nil {
		return err
	}
	appendOnly := "no"
	if options.AppendOnly {
		appendOnly = "yes"
	}
	return onFreePort(func(port int) error {
		r.port = port
		r.server, err = startChild(ctx, program{
			path: path,
			args: []string{
				"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", r.dir, "--save", "",
				"--appendonly", appendOnly, "--appendfsync", "everysec",
			},
			dir: r.dir, user: user,
			ready: "Ready to accept connections", orphan: syscall.SIGKILL,
		})
		return err
	})
}

// Addr is where to connect, as host:port.
func (r *Redis) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port))
}

// Close ends the server and removes its folder. A second call does nothing.
func (r *Redis) Close() error {
	err := r.server.stop(syscall.SIGKILL, crashLimit)
	if r.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
