package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestLend gives a program to a user who cannot get to it.
func TestLend(t *testing.T) {
	t.Parallel()
	user, err := accountOf("postgres", "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	open := openFolder(t)
	closed := filepath.Join(open, "closed")
	home := filepath.Join(closed, "home")
	if err := errors.Join(os.Mkdir(closed, 0o700), os.MkdirAll(filepath.Join(home, "bin"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "bin", "postgres"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := lend(t.Context(), home, filepath.Join(open, "spare"), user)
	if err != nil {
		t.Fatal(err)
	}
	want := home
	if user != nil {
		want = filepath.Join(open, "spare")
	}
	if got != want {
		t.Errorf("it lends %s, want %s", got, want)
	}
	err = run(t.Context(), program{path: filepath.Join(got, "bin", "postgres"), dir: open, user: user})
	if err != nil {
		t.Error(err)
	}
}

// TestMakeFolder refuses a folder that its owner could not get to.
func TestMakeFolder(t *testing.T) {
	t.Parallel()
	user, err := accountOf("postgres", "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(openFolder(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = makeFolder(t.Context(), closed, "nexjob-", user)
	if user == nil && err != nil {
		t.Error(err)
	}
	if want := "cannot get to " + closed; user != nil && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%v, want: %s", err, want)
	}
}

// TestPortsThatAreTaken tries another port where one turns out to be taken, as happens
// when two look for one at once, and none where a server has another fault.
func TestPortsThatAreTaken(t *testing.T) {
	t.Parallel()
	r, err := StartRedis(t.Context(), RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, r)
	if isFree(r.port) {
		t.Errorf("port %d is taken for free", r.port)
	}
	path, err := find("redis-server", "redis-server")
	if err != nil {
		t.Fatal(err)
	}
	tries := 0
	err = onFreePort(func(int) error {
		tries++
		if tries > 1 {
			return nil
		}
		_, err := startChild(t.Context(), program{
			path: path, args: []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(r.port)},
			dir: os.TempDir(), ready: "Ready to accept connections", orphan: syscall.SIGKILL,
		})
		return err
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries: %v", tries, err)
	}
	fault := errors.New("a fault")
	if err := onFreePort(func(int) error { tries++; return fault }); !errors.Is(err, fault) || tries != 3 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

// TestJournal finds the awaited text across writes, and keeps only the end of a log.
func TestJournal(t *testing.T) {
	j := &journal{awaited: "is ready", seen: make(chan struct{})}
	write := func(text string) {
		if n, err := j.Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("%d, %v", n, err)
		}
	}
	for _, text := range []string{strings.Repeat("x", 2*tailSize), "it is", " re"} {
		write(text)
		select {
		case <-j.seen:
			t.Errorf("seen after %q", text)
		default:
		}
	}
	write("ady, is ready")
	select {
	case <-j.seen:
	default:
		t.Error("not seen")
	}
	if tail := j.tail(); len(tail) > tailSize || !strings.HasSuffix(tail, "is ready, is ready") {
		t.Errorf("it keeps %d bytes", len(tail))
	}
}
