package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/internal/testenv"
)

// ran is what a run of the binary left behind.
type ran struct {
	code           int
	stdout, stderr string
}

// built builds the command as users do, and answers a function that runs it with a
// folder for temporary files that must be empty afterwards.
func built(t *testing.T) func(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "nexjob.exe")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return func(t *testing.T, stdin string, args ...string) ran {
		t.Helper()
		temporary := t.TempDir()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "TMP="+temporary)
		var stdout bytes.Buffer
		stderr := &interrupter{at: interruptAt, process: func() *os.Process { return cmd.Process }}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, errUnread) {
			t.Fatal(err)
		}
		left, err := os.ReadDir(temporary)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.text.String()}
	}
}

// unreadAt is the seed of a run whose standard error nobody reads any further.
const unreadAt = "seed 8086:"

var errUnread = errors.New("the reader has gone")

// interruptAt is where a run is interrupted: when the last of sixteen workers, which
// no other run has, is started.
const interruptAt = "started worker-16.1"

// report is the part of the JSON report that these tests look at.
type report struct {
	OK              bool     `json:"ok"`
	Orders          int      `json:"orders"`
	Customers       int      `json:"customers"`
	Enqueues        int      `json:"enqueues"`
	Duplicates      int      `json:"duplicates"`
	Existing        int      `json:"existing"`
	Rejected        int      `json:"rejected"`
	Kills           int      `json:"kills"`
	KillsInCharge   int      `json:"kills_in_charge"`
	KillsInMail     int      `json:"kills_in_mail"`
	KillsInWebhook  int      `json:"kills_in_webhook"`
	Freezes         int      `json:"freezes"`
	ServerRestarts  int      `json:"server_restarts,omitempty"`
	FreezesInEffect int      `json:"freezes_in_effect"`
	Charges         int      `json:"charges"`
	DoubleCharges   int      `json:"double_charges"`
	MissingCharges  int      `json:"missing_charges"`
	Emails          int      `json:"emails"`
	DoubleEmails    int      `json:"double_emails"`
	Webhooks        int      `json:"webhooks"`
	DoubleWebhooks  int      `json:"double_webhooks"`
	Replayed        int      `json:"replayed_answers"`
	Invoices        int      `json:"invoices"`
	DoubleInvoices  int      `json:"double_invoices"`
	MissingInvoices int      `json:"missing_invoices"`
	Uncertain       int      `json:"uncertain"`
	Lost            int      `json:"lost"`
	StaleRefused    int      `json:"stale_writes_refused"`
	StaleAccepted   int      `json:"stale_writes_accepted"`
	Seed            uint64   `json:"seed"`
	Findings        []string `json:"findings"`
}

func (r ran) report(t *testing.T) report {
	t.Helper()
	var got report
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("standard output is no JSON object: %v\n%s\n%s", err, r.stdout, r.stderr)
	}
	return got
}

func TestDemo(t *testing.T) {
	run := built(t)

	t.Run("the defaults", func(t *testing.T) {
		r := run(t, "", "demo", "--seed", "4711", "--json")
		got := r.report(t)
		if r.code != 0 || !got.OK || len(got.Findings) > 0 {
			t.Fatalf("exit code %d, findings %q\n%s", r.code, got.Findings, r.stderr)
		}
		want := report{
			OK: true, Orders: 12, Customers: 9, Kills: 3, KillsInCharge: 1, KillsInMail: 1, KillsInWebhook: 1,
			Freezes: 1, FreezesInEffect: 1, Charges: 12, Emails: 9, Webhooks: 12, Invoices: 12, Seed: 4711,
		}
		// Twenty lines, four of them late, and four repeats after a blow: each a charge and
		// a mail, the late ones a webhook too. A stale worker is refused twice per blow, and
		// what a thawed one tried by itself.
		if got.Enqueues != 2*24+4 || got.Duplicates != got.Enqueues-12-9 || got.StaleRefused < 8 || got.Replayed < 2 {
			t.Errorf("%d enqueues, %d duplicates, %d stale writes refused, %d repeats recognised",
				got.Enqueues, got.Duplicates, got.StaleRefused, got.Replayed)
		}
		if got.Existing+got.Rejected > got.Duplicates {
			t.Errorf("of %d duplicates %d were answered with the active job and %d rejected",
				got.Duplicates, got.Existing, got.Rejected)
		}
		got.Enqueues, got.Duplicates, got.Existing, got.Rejected = 0, 0, 0, 0
		got.StaleRefused, got.Replayed, got.Findings = 0, 0, nil
		if g, w := mustJSON(t, got), mustJSON(t, want); g != w {
			t.Errorf("got  %s\nwant %s", g, w)
		}
		for _, part := range []string{
			"seed 4711: 12 orders from orders.jsonl; to be killed: 3 workers, frozen: 1", "inside the mail of", "froze worker-", "thawed worker-",
			"after it was applied, before it was recorded",
		} {
			if !strings.Contains(r.stderr, part) {
				t.Errorf("progress has no %q:\n%s", part, r.stderr)
			}
		}
	})

	t.Run("own orders from standard input, kept", func(t *testing.T) {
		orders := `{"order_id":7,"cents":500,"currency":"EUR"}
{"order_id":8,"cents":900,"currency":"CHF"}
{"order_id":7,"cents":500,"currency":"EUR","after_success":true}
`
		keep := filepath.Join(t.TempDir(), "kept")
		r := run(t, orders, "demo", "--input", "-", "--kills", "2", "--freezes", "0", "--keep", keep)
		if r.code != 0 || !strings.Contains(r.stdout, "Each order was charged and invoiced exactly once, each customer mailed once, each event delivered once.") {
			t.Fatalf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
		for _, name := range []string{"demo.db", "payments.json", "mails.json", "webhooks.json", "kills.json", "report.json", "worker-1.1.log"} {
			if _, err := os.Stat(filepath.Join(keep, name)); err != nil {
				t.Error(err)
			}
		}
		if r := run(t, orders, "demo", "--input", "-", "--keep", keep); r.code != 2 || !strings.Contains(r.stderr, "not empty") {
			t.Errorf("a used folder: exit code %d, %s", r.code, r.stderr)
		}
	})

	t.Run("a time limit names who waits and why", func(t *testing.T) {
		r := run(t, "", "demo", "--timeout", "1s", "--json") // a lease alone is longer
		got := r.report(t)
		all := strings.Join(got.Findings, "\n")
		if r.code != 1 || got.OK || !strings.Contains(all, "not done after 1s") || !strings.Contains(all, " waits: ") {
			t.Errorf("exit code %d, findings %s", r.code, all)
		}
	})

	t.Run("an interrupt", func(t *testing.T) {
		r := run(t, "", "demo", "--workers", "16")
		if r.code != 1 || !strings.Contains(r.stderr, "demo: broken off") || r.stdout != "" {
			t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	})

	t.Run("nobody reads its progress", func(t *testing.T) {
		// A process that the system ended would have no exit code, and would leave its folder.
		r := run(t, "", "demo", "--seed", "8086")
		if r.code != 1 || r.stdout != "" {
			t.Errorf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
		}
	})

	t.Run("a name that a terminal would obey", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "a\x1b[2Jb\u009b.jsonl")
		if err := os.WriteFile(file, []byte("{\"order_id\":1,\"cents\":5,\"currency\":\"EUR\"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--json"}, nil} {
			r := run(t, "", append([]string{"demo", "--input", file, "--kills", "0", "--freezes", "0"}, args...)...)
			if all := r.stdout + r.stderr; r.code != 0 || !strings.Contains(all, "[2Jb") || strings.ContainsAny(all, "\x1b\u009b") {
				t.Errorf("%v: exit code %d, %q", args, r.code, all)
			}
		}
	})

	t.Run("mistakes", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(file, []byte("{\"order_id\":1,\"cents\":5,\"currency\":\"EUR\"}\n{\"order_id\":2}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			args []string
			want string
		}{
			{[]string{"--input", file}, file + ":2: cents is 0 or missing"},
			{[]string{"--input", file + ".none"}, "no such file"},
			{[]string{"--input", "-"}, "stdin: there is no order in it"},
			{[]string{"--order", "10"}, "unknown flag: --order"},
			{[]string{"--orders", "ten"}, "invalid argument"},
			{[]string{"--orders", "0"}, "--orders: 0: want 1"},
			{[]string{"--orders", "-1"}, "--orders: -1: want 1"},
			{[]string{"--kills", "-1"}, "--kills: -1"},
			{[]string{"--kills", "34", "--freezes", "0"}, "--kills: 34 kills and 0 freezes, and the orders lead to 33 effects"},
			{[]string{"--workers", "0"}, "--workers: 0"},
			{[]string{"--freezes", "-2"}, "--freezes: -2: want 0"},
			{[]string{"--freeze-for", "-1s"}, "--freeze-for: -1s: want 0s to 15s"},
			{[]string{"--freezes", "1", "--workers", "1"}, "--freezes: 1 with --workers 1: another worker"},
			{[]string{"--kills", "9223372036854775807", "--freezes", "1"}, "--kills: 9223372036854775807 kills and 1 freezes, and"},
			{[]string{"--kills", "1", "--freezes", "9223372036854775807"}, "--kills: 1 kills and 9223372036854775807 freezes, and"},
			{[]string{"--timeout", "-1s"}, "--timeout: -1s"},
			{[]string{"--timeout", "0"}, "--timeout: 0s: want a time above zero"},
			{[]string{"--input", ""}, "--input: it is empty"},
			{[]string{"--keep", ""}, "--keep: it is empty"},
			{[]string{"now"}, "takes no arguments"},
		} {
			r := run(t, "", append([]string{"demo"}, tt.args...)...)
			if r.code != 2 || r.stdout != "" || !strings.Contains(r.stderr, tt.want) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%v: exit code %d, stdout %q, stderr %q; want 2 and one line with %q", tt.args, r.code, r.stdout, r.stderr, tt.want)
			}
		}
	})
}

// interrupter is a standard error that interrupts the process at a word.
type interrupter struct {
	at      string
	process func() *os.Process
	text    bytes.Buffer
	once    sync.Once
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.text.Write(p)
	if bytes.Contains(i.text.Bytes(), []byte(unreadAt)) {
		return 0, errUnread // the pipe is closed
	}
	if bytes.Contains(i.text.Bytes(), []byte(i.at)) {
		i.once.Do(func() { _ = i.process().Signal(os.Interrupt) })
	}
	return n, err
}

// TestWorkerCommandIsHidden keeps what is not for people out of the help, and a
// worker without a master from working.
func TestWorkerCommandIsHidden(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), nil, &stdout, &stderr); code != 0 || strings.Contains(stdout.String(), "demo-") {
		t.Errorf("exit code %d, help\n%s", code, &stdout)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	t.Setenv(cast.StoreEnv, t.TempDir())
	if code := run(ctx, []string{"demo-worker"}, &stdout, &stderr); code != 1 {
		t.Errorf("a folder for a database: exit code %d\n%s", code, &stderr)
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDemoOnAServer plays on a server that the user names, and leaves nothing there
// unless it is told to; and on one of the demo's own, which is killed in the middle.
func TestDemoOnAServer(t *testing.T) {
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	pool, err := pgxpool.New(t.Context(), server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	schemas := func() (n int) {
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'nexjob%'`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	command, err := exec.LookPath("nexjob") // this binary; see TestMain
	if err != nil {
		t.Fatal(err)
	}
	demo := func(args ...string) report {
		t.Helper()
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), command, append([]string{"demo", "--json", "--kills", "1"}, args...)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		got := ran{stdout: stdout.String(), stderr: stderr.String()}.report(t)
		if err != nil || !got.OK || strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("%v: %v, findings %q\n%s", args, err, got.Findings, &stderr)
		}
		return got
	}
	at, err := url.Parse(server.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(at.User.Username(), "hunter2") // whom the server trusts
	demo("--store", at.String(), "--workers", "3")
	if n := schemas(); n != 0 {
		t.Errorf("%d schemas are left", n)
	}
	demo("--store", at.String(), "--freezes", "0", "--keep", filepath.Join(t.TempDir(), "kept"))
	if n := schemas(); n != 1 {
		t.Errorf("%d schemas were kept", n)
	}
	if got := demo("--store", "postgres", "--server-restarts", "1", "--freezes", "0"); got.ServerRestarts != 1 {
		t.Errorf("the server was restarted %d times", got.ServerRestarts)
	}
}
