package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
)

func TestBouncer(t *testing.T) {
	t.Parallel()
	p := private(t, PostgresOptions{})
	b, err := StartBouncer(t.Context(), p, BouncerOptions{PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	closing(t, b)
	if err := p.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, b.at("shop"), "SELECT current_database()"); got != "shop" {
		t.Errorf("it leads to %q", got)
	}
	config := ask(t, b.at("pgbouncer"), "SHOW CONFIG")
	for _, want := range []string{"\npool_mode|transaction|", "\ndefault_pool_size|3|"} {
		if !strings.Contains(config, want) {
			t.Errorf("no %q in:\n%s", want, config)
		}
	}
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A pooled connection broke with the restart; whoever meets it gets an error first.
	if _, err := psql(t.Context(), b.at("shop"), "SELECT 1"); err != nil {
		ask(t, b.at("shop"), "SELECT 1")
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if got := ask(t, p.at("shop"), "SELECT 1"); got != "1" {
		t.Errorf("the server behind answers %q", got)
	}
}

// TestBouncerKeepsStatements asks for what this machine's pgbouncer has or has not.
func TestBouncerKeepsStatements(t *testing.T) {
	t.Parallel()
	path, err := find("pgbouncer", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	keeps, err := keepsStatements(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	nobody := &Postgres{address: local("postgres", 1)} // it is asked nothing
	b, err := StartBouncer(t.Context(), nobody, BouncerOptions{MaxPreparedStatements: 7})
	if !keeps {
		if err == nil || !strings.Contains(err.Error(), "older than 1.21") {
			t.Errorf("an old pgbouncer started: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	closing(t, b)
	if config := ask(t, b.at("pgbouncer"), "SHOW CONFIG"); !strings.Contains(config, "\nmax_prepared_statements|7|") {
		t.Errorf("it keeps none:\n%s", config)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for _, appendOnly := range []bool{false, true} {
		t.Run(fmt.Sprint(appendOnly), func(t *testing.T) {
			t.Parallel()
			r, err := StartRedis(t.Context(), RedisOptions{AppendOnly: appendOnly})
			if err != nil {
				t.Fatal(err)
			}
			var dialer net.Dialer
			conn, err := dialer.DialContext(t.Context(), "tcp", r.Addr())
			if err != nil {
				t.Fatal(err)
			}
			closing(t, conn)
			answers := bufio.NewScanner(conn)
			if _, err := fmt.Fprint(conn, "PING\r\nSET a b\r\n"); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"+PONG", "+OK"} {
				if !answers.Scan() || answers.Text() != want {
					t.Fatalf("%q, %v, want %q", answers.Text(), answers.Err(), want)
				}
			}
			_, err = os.Stat(r.dir + "/appendonlydir")
			if kept := !errors.Is(err, fs.ErrNotExist); kept != appendOnly {
				t.Errorf("it keeps a file: %t, %v", kept, err)
			}
			if err := errors.Join(r.Close(), r.Close()); err != nil {
				t.Error(err)
			}
			if answers.Scan() {
				t.Errorf("it answers %q after Close", answers.Text())
			}
			if _, err := os.Stat(r.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}
