package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDrivers runs every work on every driver for a moment.
func TestDrivers(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-rounds", "1", "-for", "1ms", "-depth", "1000", "-dir", t.TempDir()}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if lines := strings.Count(stdout.String(), "\n"); lines != 1+len(works(1))*2*len(drivers()) {
		t.Errorf("%d lines:\n%s", lines, &stdout)
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-for", "-1s"}, {"-depth", "100"}, {"modernc"}, {"-nope"}} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: code %d, %s", args, code, &stderr)
		}
	}
}
