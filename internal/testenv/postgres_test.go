package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPostgres(t *testing.T) {
	t.Parallel()
	for _, version := range Versions() {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			p := private(t, PostgresOptions{Version: version, Settings: map[string]string{"work_mem": "3MB"}})
			if got := ask(t, p.at(""), "SHOW server_version_num"); !strings.HasPrefix(got, fmt.Sprint(version)) {
				t.Errorf("version %s", got)
			}
			for setting, want := range map[string]string{
				"fsync": "off", "work_mem": "3MB", "max_connections": "300", "server_encoding": "UTF8",
			} {
				if got := ask(t, p.at(""), "SHOW "+setting); got != want {
					t.Errorf("%s is %s, want %s", setting, got, want)
				}
			}
			if err := p.CreateDatabase(t.Context(), `odd "name"`); err != nil {
				t.Fatal(err)
			}
			if err := p.CreateDatabase(t.Context(), `odd "name"`); err == nil {
				t.Error("the same database was created twice")
			}
			shop := p.at(`odd "name"`)
			ask(t, shop, "CREATE TABLE orders AS SELECT 1 AS id")

			first := p.PID()
			if err := p.Start(t.Context()); err == nil {
				t.Error("a running server was started")
			}
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if p.PID() == first || p.PID() == 0 {
				t.Errorf("process %d after a restart, %d before", p.PID(), first)
			}
			ask(t, shop, "INSERT INTO orders VALUES (2)")

			if err := errors.Join(p.Kill(), p.Kill()); err != nil {
				t.Fatal(err)
			}
			if _, err := psql(t.Context(), shop, "SELECT 1"); err == nil || p.PID() != 0 {
				t.Errorf("the server answers after Kill as process %d", p.PID())
			}
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(p.Kill(), p.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			killWithSilentClient(t, p)
			if err := p.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, shop, "SELECT count(*) FROM orders"); got != "2" {
				t.Errorf("%s orders are left of 2", got)
			}
			if err := errors.Join(p.Close(), p.Close()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(p.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

// killWithSilentClient kills a server that finds a new client, who says nothing, when it
// is on its way down: it would wait for that client's minute to be over.
func killWithSilentClient(t *testing.T, p *Postgres) {
	t.Helper()
	signals := []syscall.Signal{syscall.SIGSTOP, syscall.SIGQUIT, syscall.SIGCONT}
	pid := p.PID()
	for _, signal := range signals {
		if signal == syscall.SIGQUIT { // the frozen server's system takes the connection
			var dialer net.Dialer
			client, err := dialer.DialContext(t.Context(), "tcp", p.at("").Host)
			if err != nil {
				t.Fatal(err)
			}
			closing(t, client)
		}
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > stopLimit {
		t.Errorf("Kill took %v", took)
	}
}

// TestPostgresFlushes shows that Fsync leaves the durable defaults as they are.
func TestPostgresFlushes(t *testing.T) {
	got := strings.Join(settings(PostgresOptions{Fsync: true}), " ")
	if strings.Contains(got, "fsync") || strings.Contains(got, "full_page_writes") {
		t.Error(got)
	}
}

// TestPostgresTellsWhy shows the errors that a person has to act on.
func TestPostgresTellsWhy(t *testing.T) {
	const none = "/nowhere"
	tests := map[string]struct {
		options PostgresOptions
		env     map[string]string
		want    string
	}{
		"a version that is none": {
			PostgresOptions{Version: 9}, nil, "the versions are [15 18]",
		},
		"an installation that is not there": {
			PostgresOptions{Version: 18},
			map[string]string{"NEXJOB_POSTGRES18": none, "NEXJOB_TEST_POSTGRES18_URL": ""},
			"NEXJOB_POSTGRES18 is /nowhere, where there is no bin/postgres",
		},
		"a folder that is not there": {
			PostgresOptions{Dir: none, Settings: map[string]string{"fsync": "on"}}, nil, none,
		},
		"a server's URL that is none": {
			PostgresOptions{},
			map[string]string{"NEXJOB_TEST_POSTGRES_URL": "localhost"},
			"NEXJOB_TEST_POSTGRES_URL is no URL of the form postgres://",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			p, err := StartPostgres(t.Context(), tt.options)
			if err == nil {
				t.Fatal("started", p.Close())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v\nwant: %s", err, tt.want)
			}
		})
	}
}

// TestPostgresThatEnds tells what a server said that ended instead of serving, and leaves
// nothing.
func TestPostgresThatEnds(t *testing.T) {
	home := openFolder(t)
	if err := os.Mkdir(home+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"initdb":   "#!/bin/sh\n",
		"postgres": "#!/bin/sh\n[ \"$1\" = --version ] || { echo FATAL: out of sorts >&2; exit 1; }\n",
	} {
		if err := os.WriteFile(home+"/bin/"+name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("NEXJOB_POSTGRES18", home)
	dir := openFolder(t)
	_, err := startPrivate(t.Context(), PostgresOptions{Version: 18, Dir: dir})
	if err == nil || !strings.Contains(err.Error(), "exit status 1\nFATAL: out of sorts") {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestEnvironmentGivesPostgres takes the server that the environment names.
func TestEnvironmentGivesPostgres(t *testing.T) {
	for version, variable := range map[int]string{
		0: "NEXJOB_TEST_POSTGRES_URL", 15: "NEXJOB_TEST_POSTGRES_URL", 18: "NEXJOB_TEST_POSTGRES18_URL",
	} {
		const at = "postgres://me:secret@there:5433/main?sslmode=require"
		t.Setenv(variable, at)
		p, err := StartPostgres(t.Context(), PostgresOptions{Version: version})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.URL(""); got != at {
			t.Errorf("%s leads to %s", variable, got)
		}
		if got := p.at("shop"); got.Host != "there:5433" || !strings.HasSuffix(got.Path, "_shop") {
			t.Errorf("%s leads to %s for a database", variable, got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGivenPostgres uses a server that is not ours, and leaves it as it was.
func TestGivenPostgres(t *testing.T) {
	t.Parallel()
	ours := private(t, PostgresOptions{})
	given, err := usePostgres(15, ours.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	const databases = "SELECT count(*) FROM pg_database"
	before := ask(t, ours.at(""), databases)
	if err := given.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, given.at("shop"), "SELECT current_database()"); got == "shop" || !strings.HasSuffix(got, "_shop") {
		t.Errorf("the database is called %s", got)
	}
	if err := given.CreateDatabase(t.Context(), strings.Repeat("x", maxName)); err == nil {
		t.Error("a name was taken that PostgreSQL cuts off")
	}
	b, err := StartBouncer(t.Context(), given, BouncerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, b.at("shop"), "SELECT current_database()"); !strings.HasSuffix(got, "_shop") {
		t.Errorf("pgbouncer leads to %s", got)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"Kill": given.Kill(), "Start": given.Start(t.Context()), "Restart": given.Restart(t.Context()),
	} {
		if !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s answers %v", name, err)
		}
	}
	if given.PID() != 0 {
		t.Error("it tells a process")
	}
	if err := errors.Join(given.Close(), given.Close()); err != nil {
		t.Error(err)
	}
	if after := ask(t, ours.at(""), databases); after != before {
		t.Errorf("%s databases before, %s after", before, after)
	}
}

// private starts a server of our own that ends with the test.
func private(t *testing.T, options PostgresOptions) *Postgres {
	t.Helper()
	p, err := startPrivate(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, p)
	return p
}

// openFolder is a temporary folder that other users can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// closing ends a server, or a connection, with the test.
func closing(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// ask answers what a server answers.
func ask(t *testing.T, at *url.URL, statement string) string {
	t.Helper()
	answer, err := psql(context.WithoutCancel(t.Context()), at, statement)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return answer
}
