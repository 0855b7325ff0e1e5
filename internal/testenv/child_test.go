package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// orphans names the folder in which a process starts servers and leaves them alone.
const orphans = "NEXJOB_TESTENV_ORPHANS"

// TestServersEndWithTheirProcess kills a process that has started servers: they end too.
func TestServersEndWithTheirProcess(t *testing.T) {
	if dir := os.Getenv(orphans); dir != "" {
		leaveServers(t, dir)
		return
	}
	t.Parallel()
	dir := openFolder(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), orphans+"="+dir)
	out, err := parent.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ProcessState.String() != "signal: killed" {
		t.Fatalf("%v\n%s", err, out)
	}
	servers := strings.Fields(string(out))
	if len(servers) != 3 {
		t.Fatalf("it should tell three servers: %s", out)
	}
	for _, address := range servers {
		awaitEnd(t, address)
	}
}

// leaveServers starts one server of each kind, tells their addresses and dies.
func leaveServers(t *testing.T, dir string) {
	p, err := startPrivate(t.Context(), PostgresOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b, err := StartBouncer(t.Context(), p, BouncerOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	r, err := StartRedis(t.Context(), RedisOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(p.at("").Host, b.at("").Host, r.Addr())
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {}
}

// awaitEnd answers when nobody listens at the address any more. Until then it connects,
// says what ends a session of PostgreSQL, and waits for the connection to break.
func awaitEnd(t *testing.T, address string) {
	t.Helper()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "nobody\r\n")
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
}

// TestLend gives a program to a user who cannot get to it.
func TestLend(t *testing.T) {
	t.Parallel()
	user, err := accountOf("postgres", "postgresql")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "home")
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "bin", "postgres"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	open := openFolder(t)

	got, err := lend(t.Context(), home, filepath.Join(open, "home"), user)
	if err != nil {
		t.Fatal(err)
	}
	want := home
	if user != nil {
		want = filepath.Join(open, "home")
	}
	if got != want {
		t.Errorf("it lends %s, want %s", got, want)
	}
	err = run(t.Context(), program{path: filepath.Join(got, "bin", "postgres"), dir: open, user: user})
	if err != nil {
		t.Error(err)
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
	defer r.Close()
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
	for _, text := range []string{strings.Repeat("x", 2*tailSize), "it is", " re"} {
		fmt.Fprint(j, text)
		select {
		case <-j.seen:
			t.Errorf("seen after %q", text)
		default:
		}
	}
	fmt.Fprint(j, "ady, is ready")
	select {
	case <-j.seen:
	default:
		t.Error("not seen")
	}
	if tail := j.tail(); len(tail) > tailSize || !strings.HasSuffix(tail, "is ready, is ready") {
		t.Errorf("it keeps %d bytes", len(tail))
	}
}
