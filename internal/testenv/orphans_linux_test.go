package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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
