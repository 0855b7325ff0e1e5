package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// order is a line of about a kilobyte: a pipe holds 64 of them, so what a process has
// read is known from what could be written.
func order(id int) string {
	return fmt.Sprintf(`{"id":%d,"note":"%s"}`+"\n", id, strings.Repeat("x", 1000))
}

// enqueueProcess starts nexjob enqueue on lines from a pipe.
func enqueueProcess(t *testing.T, path string) (*exec.Cmd, io.WriteCloser) {
	t.Helper()
	cmd := nexjobProcess(t, "enqueue", "charge", "--from", "-", "--key-from", "id", "--store", "sqlite:"+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, in
}

// nexjobProcess is the command as a process of its own: this binary, under its name.
func nexjobProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = append([]string{"nexjob"}, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestEnqueueKilled: 5,000 lines with a fifth of duplicates and fifty bad ones, killed in
// the middle, three times at random lines, and repeated. No job is there twice, none is
// missing, and the last run's counts are exact.
func TestEnqueueKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const total, doubles, broken = 5000, 1000, 50
	lines := make([]string, 0, total)
	for i := range total - doubles - broken {
		lines = append(lines, order(i))
	}
	for range doubles {
		lines = append(lines, order(random.IntN(total-doubles-broken)))
	}
	for range broken {
		lines = append(lines, "{\"id\":1,\"id\":2}\n")
	}
	random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })

	path := filepath.Join(t.TempDir(), "jobs.db")
	for range 3 {
		cmd, in := enqueueProcess(t, path)
		for _, line := range lines[:1500+random.IntN(3000)] {
			if _, err := io.WriteString(in, line); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if cmd.ProcessState.Success() {
			t.Error("the process ended before it was killed")
		}
	}
	before := storedKeys(t, path)
	if len(before) == 0 {
		t.Error("no batch was in before a kill")
	}

	cmd := nexjobProcess(t, "enqueue", "charge", "--from", "-", "--key-from", "id", "--store", "sqlite:"+path, "--json")
	cmd.Stdin = strings.NewReader(strings.Join(lines, ""))
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v, want exit code 1 for the bad lines", err)
	}
	distinct := total - doubles - broken
	want := fmt.Sprintf(`{"lines":%d,"created":%d,"existing":%d,"replaced":0,"rejected":0,"mismatched":0,"invalid":%d,"args_differ":0,"complete":true,`,
		total, distinct-len(before), doubles+len(before), broken)
	if !strings.HasPrefix(string(out), want) || strings.Count(string(out), `{"line":`) != broken {
		t.Errorf("the summary is %.300s, want %s", out, want)
	}
	var wantKeys []string
	for i := range distinct {
		wantKeys = append(wantKeys, fmt.Sprint(i))
	}
	slices.Sort(wantKeys)
	if diff := cmp.Diff(wantKeys, storedKeys(t, path)); diff != "" {
		t.Errorf("stored keys (-want +got):\n%s", diff)
	}
}

// storedKeys are the keys of all jobs of a file, sorted: a key with two jobs is there
// twice.
func storedKeys(t *testing.T, path string) []string {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	var keys []string
	q := nexjob.Query{Limit: nexjob.MaxPage}
	for {
		page, err := client.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			keys = append(keys, page.Jobs[i].Key)
		}
		if page.Next == "" {
			slices.Sort(keys)
			return keys
		}
		q.After = page.Next
	}
}

// TestEnqueueInterrupted: an interrupt, or the end of the terminal, ends a run that waits
// for its next line, with what is in and what to do.
func TestEnqueueInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) { interruptLines(t, sig) })
	}
}

func interruptLines(t *testing.T, sig os.Signal) {
	t.Helper()
	// Under nohup a process passes on that hangups are ignored, unless it hears them itself.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, sig)
	defer signal.Stop(heard)
	path := filepath.Join(t.TempDir(), "jobs.db")
	cmd := nexjobProcess(t, "enqueue", "charge", "--from", "-", "--key-from", "id", "--store", "sqlite:"+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, text strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const lines = 2500
	for i := range lines {
		if _, err := io.WriteString(in, order(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait() // the pipe is still open
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("%v, want exit code 1", err)
	}
	stored := len(storedKeys(t, path))
	if !strings.Contains(text.String(), fmt.Sprintf("interrupted after %d lines; run it again: lines that are in are answered existing", stored)) {
		t.Errorf("%d jobs are stored, and the message is %q", stored, text.String())
	}
	if !strings.Contains(out.String(), fmt.Sprintf("Created     %d\n", stored)) || stored == 0 {
		t.Errorf("%d jobs are stored, and the summary is\n%s", stored, out.String())
	}
}

// TestInterruptedWhileReading: who waits for standard input hears an interrupt too.
func TestInterruptedWhileReading(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"enqueue charge -", "nexjob: enqueue: interrupted, nothing was done\n"},
		{"demo --input -", "nexjob: demo: broken off: interrupt signal received\n"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			cmd := nexjobProcess(t, strings.Fields(tt.args)...)
			cmd.Dir = t.TempDir()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			cmd.Stderr = &text
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// More than a pipe holds: when it is written, the process reads.
			if _, err := io.WriteString(in, strings.Repeat(" \n", 100_000)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait() // the pipe is still open
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || text.String() != tt.want {
				t.Errorf("%v, %q; want exit code 1, %q", err, text.String(), tt.want)
			}
			left, err := os.ReadDir(cmd.Dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestInvalidToIsNotStandardInput: a file that comes through a redirection is the input as
// well.
func TestInvalidToIsNotStandardInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(path, []byte(order(1)), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd := nexjobProcess(t, "enqueue", "charge", "--from", "-", "--key-from", "id", "--invalid-to", path)
	var text strings.Builder
	cmd.Dir, cmd.Stdin, cmd.Stderr = t.TempDir(), file, &text
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 || !strings.Contains(text.String(), "the input itself") {
		t.Errorf("%v, %q", err, text.String())
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != order(1) {
		t.Errorf("the input is now %q, %v", kept, err)
	}
}

func TestProgress(t *testing.T) {
	var b strings.Builder
	p := newProgress(&b, 1000)
	p.show(10)
	p.clear()
	if b.Len() > 0 {
		t.Errorf("on no terminal: %q", b.String())
	}
	if _, err := io.ReadAll(p.reader(strings.NewReader(strings.Repeat("x", 500)))); err != nil {
		t.Fatal(err)
	}
	at := p.began.Add(2 * time.Second)
	want := "[===============               ]  50%  1000 lines, 500/s"
	if got := p.text(1000, at); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.total = 0
	if got := p.text(1000, at); got != "1000 lines, 500/s" {
		t.Errorf("without a size: %q", got)
	}
	p.to = &b
	p.draw("longer text")
	p.draw("short")
	p.clear()
	if got := b.String(); got != "\rlonger text\rshort      \r     \r" {
		t.Errorf("drawn: %q", got)
	}
}
