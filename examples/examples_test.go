// Package examples_test runs every example on a server of its own, as its reader would.
package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nexjob/nexjob/internal/testenv"
)

func server(t *testing.T) *testenv.Postgres {
	t.Helper()
	p, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return p
}

func database(t *testing.T, p *testenv.Postgres, name string) string {
	t.Helper()
	if err := p.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return p.URL(name)
}

// TestExamples: each folder is a program, which says the same of each of its libraries.
func TestExamples(t *testing.T) {
	p := server(t)
	programs, err := filepath.Glob("*/main.go")
	if err != nil || len(programs) == 0 {
		t.Fatalf("%d programs: %v", len(programs), err)
	}
	number := regexp.MustCompile(`order \d+`)
	const flow = "order N is refused: 0 jobs\n" +
		"order N is placed: its job is Enqueued\n" +
		"its job is Succeeded, and it is paid: true\n"
	for _, program := range programs {
		name := filepath.Dir(program)
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "go", "run", "./"+name)
			cmd.Env = append(os.Environ(), "GOWORK=off", "DATABASE_URL="+database(t, p, "example_"+name))
			out, err := cmd.CombinedOutput()
			said := number.ReplaceAllString(string(out), "order N")
			if err != nil || said == "" || strings.ReplaceAll(said, flow, "") != "" {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
