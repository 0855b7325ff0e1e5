package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
)

// TestMain lets this test binary be the command: under the name nexjob it is main, so
// that scripts and tests run it as a process of its own without building it again.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nexjob": main})
}

// TestScripts runs testdata/script: what a user types, and what comes back. Each script
// has an empty folder for itself, and NEXJOB_STORE is not set.
func TestScripts(t *testing.T) {
	scripts(t, testscript.Params{Dir: filepath.Join("testdata", "script")}, func(*testscript.Env) error { return nil })
}

// TestScriptsOnPostgres runs those that do not speak of files on a server, each in a
// schema for itself, which NEXJOB_STORE names.
func TestScriptsOnPostgres(t *testing.T) {
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	ofFiles := []string{"enqueue.txt", "enqueue_invalid.txt", "given.txt", "migrate.txt", "version.txt"}
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(path string) bool { return slices.Contains(ofFiles, filepath.Base(path)) })
	onServer, err := filepath.Glob(filepath.Join("testdata", "postgres", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var schemas atomic.Int64
	scripts(t, testscript.Params{Files: append(files, onServer...)}, func(env *testscript.Env) error {
		at, err := url.Parse(server.URL(""))
		if err != nil {
			return err
		}
		name := fmt.Sprintf("script%d", schemas.Add(1))
		env.Setenv("SERVER", "postgres://"+at.Host)
		env.Setenv("HOSTPORT", at.Host)
		env.Setenv("SCHEMA", name)
		q := at.Query()
		q.Set("schema", name)
		at.RawQuery = q.Encode()
		env.Setenv(storeEnv, at.String())
		place, err := parseStore(at.String())
		if err != nil {
			return err
		}
		_, err = postgres.MigrateTo(t.Context(), place.url, place.options, 1)
		return err
	})
}

func scripts(t *testing.T, params testscript.Params, setup func(env *testscript.Env) error) {
	params.RequireExplicitExec = true
	params.Setup = func(env *testscript.Env) error {
		env.Setenv(storeEnv, "")
		env.Setenv("ODD", "a\x1b[2Jb\u202e")
		return setup(env)
	}
	params.UpdateScripts = os.Getenv("NEXJOB_UPDATE") != ""
	params.Condition = func(name string) (bool, error) {
		if name != "postgres" {
			return false, fmt.Errorf("unknown condition %q", name)
		}
		return params.Dir == "", nil
	}
	params.Cmds = map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exits": exits,
		"id":    setID,
		"text":  setText,
		"work":  work,
	}
	testscript.Run(t, params)
}

// exits runs a command that must end with an exit code, as in: exits 2 nexjob enqueue.
// Standard output and error are compared as after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = exitCodeOf(err)
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// exitCodeOf reads the exit code out of what an ended command answers.
func exitCodeOf(err error) string {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err.Error()
	}
	return strconv.Itoa(exit.ExitCode())
}
