package storagetest

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

// Harness is what the suite needs from an engine. Open alone is required.
type Harness struct {
	// Open returns a fresh, migrated storage whose clock, and whose guard against
	// a wrong now, follow the given clock. It closes the storage by t.Cleanup;
	// the suite may have closed it before.
	Open func(t testing.TB, clock func() time.Time) nexjob.Storage
	// Second returns another handle on the data of first: a second pool, better
	// another process (see Child). Nil: the engine lives in one handle.
	Second func(t testing.TB, first nexjob.Storage, clock func() time.Time) nexjob.Storage
	// Begin opens a caller's transaction on the storage's own database. Nil: the
	// engine offers none; Run then reports and counts the checks that it left out.
	Begin func(t testing.TB, s nexjob.Storage) Transaction
	// Overtaken says that others may write while a caller's transaction is open, so that it
	// may stand on what was true before. Otherwise an open one keeps others out.
	Overtaken bool
	// PassesBy says that a claim passes by the row of a job that another call holds at the
	// moment, instead of waiting for it.
	PassesBy bool
	// Throttles says that the engine has named limits. Otherwise a claim that
	// names one must be answered with ErrUnsupported.
	Throttles bool
}

// Transaction is a caller's open transaction in the engine's own database.
type Transaction interface {
	Tx() nexjob.Tx
	Commit() error
	Rollback() error
}

// check is one named rule and the function that tries it on a fresh storage.
type check struct {
	name string
	try  func(b *bench)
}

// part is a group of checks: a role of the contract or a page of the rules.
type part struct {
	name   string
	checks []check
	// inTx says that the checks need a caller's transaction.
	inTx bool
	// overtaken says that others write while it is open.
	overtaken bool
}

func parts() []part {
	return []part{
		{name: "policy", checks: policyChecks()},
		{name: "policy on the path of the requeue", checks: requeuePathChecks()},
		{name: "policy in a caller's transaction", checks: policyTxChecks(), inTx: true},
		{name: "key", checks: keyChecks()},
		{name: "key life", checks: keyLifeChecks()},
		{name: "operation", checks: operationChecks()},
		{name: "replace", checks: replaceChecks()},
		{name: "enqueue", checks: enqueueChecks()},
		{name: "claim", checks: claimChecks()},
		{name: "forecast", checks: forecastChecks()},
		{name: "recovery", checks: recoveryChecks()},
		{name: "renew", checks: renewChecks()},
		{name: "settle", checks: settleChecks()},
		{name: "fence", checks: fenceChecks()},
		{name: "followers", checks: followerChecks()},
		{name: "parents", checks: parentChecks()},
		{name: "deadline", checks: deadlineChecks()},
		{name: "stop", checks: stopChecks()},
		{name: "ledger", checks: ledgerChecks()},
		{name: "effects", checks: effectChecks()},
		{name: "verdicts", checks: verdictChecks()},
		{name: "amend", checks: amendChecks()},
		{name: "requeue", checks: requeueChecks()},
		{name: "find", checks: findChecks()},
		{name: "bytes", checks: byteChecks()},
		{name: "registry", checks: registryChecks()},
		{name: "repeat", checks: repeatChecks()},
		{name: "joined", checks: joinedChecks(), inTx: true},
		{name: "life", checks: lifeChecks()},
		{name: "rules", checks: ruleChecks()},
		{name: "hostile", checks: hostileChecks()},
		{name: "rules in a caller's transaction", checks: ruleTxChecks(), inTx: true},
		{name: "overtaken", checks: overtakenChecks(), inTx: true, overtaken: true},
		{name: "races", checks: raceChecks()},
		{name: "races in a caller's transaction", checks: txRaceChecks(), inTx: true},
	}
}

// Run tries the whole contract on an engine. Every check has a storage of its own
// and ends with the assertion that no key has two active jobs.
func Run(t *testing.T, h Harness) {
	t.Helper()
	run(t, h, parts())
}

// Races tries the races of the contract alone: for a harness whose Second handle is
// another process, which is too slow to open for every check of Run.
func Races(t *testing.T, h Harness) {
	t.Helper()
	run(t, h, []part{
		{name: "races", checks: raceChecks()},
		{name: "races in a caller's transaction", checks: txRaceChecks(), inTx: true},
	})
}

// InTransactions tries what the contract says of callers' transactions, and no more: for
// a harness that differs from another one of the engine in them alone.
func InTransactions(t *testing.T, h Harness) {
	t.Helper()
	run(t, h, slices.DeleteFunc(parts(), func(p part) bool { return !p.inTx }))
}

func run(t *testing.T, h Harness, parts []part) {
	t.Helper()
	if h.Open == nil {
		t.Fatal("storagetest: Harness.Open is required")
	}
	left := 0
	for _, p := range parts {
		if p.inTx && h.Begin == nil {
			left += len(p.checks)
			continue
		}
		if p.overtaken && !h.Overtaken {
			continue // a check of it would wait for itself
		}
		t.Run(p.name, func(t *testing.T) {
			for _, c := range p.checks {
				t.Run(c.name, func(t *testing.T) { c.try(open(t, h)) })
			}
		})
	}
	if left > 0 {
		t.Logf("NOT OFFERED: the engine has no caller's transactions (Harness.Begin is nil): "+
			"%d checks of client.In were left out", left)
	}
	if h.Second == nil {
		t.Log("NOT OFFERED: the engine has no second handle (Harness.Second is nil): races ran on one handle")
	}
}

// historiesVariable is the environment variable that says how many histories run.
const historiesVariable = "NEXJOB_HISTORIES"

// defaultHistories is how many random histories run when nobody says otherwise.
const defaultHistories = 120

// histories resolves a number of histories: as given, else from the environment
// variable NEXJOB_HISTORIES, else 120.
func histories(t testing.TB, n int) int {
	t.Helper()
	if n > 0 {
		return n
	}
	text := os.Getenv(historiesVariable)
	if text == "" {
		return defaultHistories
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("storagetest: NEXJOB_HISTORIES=%q is not a positive number", text)
	}
	return n
}
