package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this test binary be the command: under the name nexjob it is main, so
// that scripts and tests run it as a process of its own without building it again.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nexjob": main})
}

// TestScripts runs testdata/script: what a user types, and what comes back. Each script
// has an empty folder for itself, and NEXJOB_STORE is not set.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("NEXJOB_STORE", "")
			env.Setenv("ODD", "a\x1b[2Jb\u202e")
			return nil
		},
		UpdateScripts: os.Getenv("NEXJOB_UPDATE") != "",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits,
			"id":    setID,
			"text":  setText,
			"work":  work,
		},
	})
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
