package nexjob_test

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nexjob/nexjob"
)

// TestPolicyTable compares with the table of the design, written down once more.
func TestPolicyTable(t *testing.T) {
	t.Parallel()
	want := map[nexjob.State]string{
		nexjob.Enqueued:             "existing existing existing",
		nexjob.Scheduled:            "existing existing existing",
		nexjob.Processing:           "existing existing existing",
		nexjob.AwaitingContinuation: "existing existing existing",
		nexjob.Uncertain:            "existing existing existing",
		nexjob.Succeeded:            "create create reject",
		nexjob.Failed:               "create reject reject",
		nexjob.Expired:              "create create reject",
		nexjob.Cancelled:            "create create reject",
		0:                           "create create create",
	}
	for state, rulings := range want {
		var got []string
		for _, p := range nexjob.Policies() {
			got = append(got, p.Rule(state).String())
		}
		if strings.Join(got, " ") != rulings {
			t.Errorf("after %v: %v, want %s", state, got, rulings)
		}
	}
	seen := make(map[nexjob.State]bool)
	for _, row := range nexjob.PolicyTable() {
		states := row.States
		if len(states) == 0 {
			states = []nexjob.State{0}
		}
		for _, state := range states {
			if seen[state] {
				t.Errorf("the table speaks of %v twice", state)
			}
			seen[state] = true
			for _, p := range nexjob.Policies() {
				if row.Rulings[p] != p.Rule(state) {
					t.Errorf("the table says %v of %v after %v, Rule %v", row.Rulings[p], p, state, p.Rule(state))
				}
			}
		}
	}
	if len(seen) != len(want) {
		t.Errorf("the table speaks of %d states, want %d", len(seen), len(want))
	}
	if nexjob.DuplicatePolicy(9).Rule(0) != nexjob.RuleReject || nexjob.AllowAfterFailed.Rule(99) != nexjob.RuleReject {
		t.Error("what is no policy or no state must be rejected")
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	if len(nexjob.States()) != 9 {
		t.Errorf("%d states, want 9", len(nexjob.States()))
	}
	for _, s := range nexjob.States() {
		if s.Active() == s.Terminal() {
			t.Errorf("%v is active: %v, terminal: %v", s, s.Active(), s.Terminal())
		}
	}
	if zero := nexjob.State(0); zero.Active() || zero.Terminal() {
		t.Error("the zero state is none")
	}
}

// texts are all words that are written and read as text.
func texts() []encoding.TextMarshaler {
	var all []encoding.TextMarshaler
	for _, s := range nexjob.States() {
		all = append(all, s)
	}
	for _, p := range nexjob.Policies() {
		all = append(all, p)
	}
	for _, p := range nexjob.Priorities() {
		all = append(all, p)
	}
	return append(all,
		nexjob.ReturnExisting, nexjob.Reject, nexjob.Replace,
		nexjob.RuleCreate, nexjob.RuleExisting, nexjob.RuleReject,
		nexjob.Created, nexjob.Existing, nexjob.Replaced, nexjob.Rejected, nexjob.Mismatched,
		nexjob.Intended, nexjob.Confirmed, nexjob.Refused, nexjob.Disproved, nexjob.Compensated,
		nexjob.StillUnknown, nexjob.Applied, nexjob.NotApplied, nexjob.Compensate,
		nexjob.OnSuccess, nexjob.OnFailure, nexjob.OnAnyEnd,
		nexjob.ActCancel, nexjob.ActRequeue, nexjob.ActDelete, nexjob.ActPurge, nexjob.ActClearKey, nexjob.ActResolve,
		nexjob.ActExpire, nexjob.ActReschedule, nexjob.ActPrioritise, nexjob.ActMove,
		nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndRetry, nexjob.EndSnoozed, nexjob.EndInterrupted,
		nexjob.EndUncertain, nexjob.EndCancelled, nexjob.EndCrashed,
		nexjob.NewID(), nexjob.FingerprintOf([]byte("x")), nexjob.Fingerprint{},
	)
}

func TestWordsComeBackFromText(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, word := range texts() {
		text, err := word.MarshalText()
		if err != nil || string(text) != fmt.Sprint(word) {
			t.Errorf("%v is written as %q, %v", word, text, err)
		}
		name := fmt.Sprintf("%T %s", word, text)
		if seen[name] {
			t.Errorf("two are written as %s", name)
		}
		seen[name] = true
		back := reflect.New(reflect.TypeOf(word))
		reader, ok := reflect.TypeAssert[encoding.TextUnmarshaler](back)
		if !ok {
			t.Fatalf("%T is not read from text", word)
		}
		if err := reader.UnmarshalText(text); err != nil || back.Elem().Interface() != word {
			t.Errorf("%s came back as %v, %v", name, back.Elem(), err)
		}
		for _, wrong := range []string{"", "nonsense", string(text) + " ", strings.Repeat("0", 66), strings.Repeat("g", 64)} {
			if err := reader.UnmarshalText([]byte(wrong)); err == nil {
				t.Errorf("%T reads %q", word, wrong)
			}
			if back.Elem().Interface() != word {
				t.Errorf("%T was changed by %q, which it refused", word, wrong)
			}
		}
	}
}

// TestARefusedWordIsAnsweredWithTheKnownOnes is what a command line and an HTTP
// answer show to somebody who mistyped.
func TestARefusedWordIsAnsweredWithTheKnownOnes(t *testing.T) {
	t.Parallel()
	for want, parse := range map[string]func() error{
		`"x" is not a state: want one of Enqueued, Scheduled`: func() error { _, err := nexjob.ParseState("x"); return err },
		`is not a duplicate policy: want one of AllowAfterFailed`: func() error {
			_, err := nexjob.ParseDuplicatePolicy("x")
			return err
		},
		`is not a setting for a live holder: want one of ReturnExisting, Reject, Replace`: func() error {
			_, err := nexjob.ParseWhileActive("x")
			return err
		},
		`is not a priority: want one of Critical, High, Normal, Low`: func() error {
			_, err := nexjob.ParsePriority("x")
			return err
		},
		`is not an act: want one of cancel, requeue, delete`: func() error { _, err := nexjob.ParseAct("x"); return err },
		`is not a verdict: want one of still unknown, applied, not applied, compensate`: func() error {
			_, err := nexjob.ParseVerdict("x")
			return err
		},
		`is not an outcome: want one of created`: func() error { _, err := nexjob.ParseOutcome("x"); return err },
		`is not a ruling: want one of create, existing, reject`: func() error {
			_, err := nexjob.ParseRuling("x")
			return err
		},
		`is not an effect's state: want one of intended`: func() error {
			_, err := nexjob.ParseEffectState("x")
			return err
		},
		`is not an ending: want one of succeeded`: func() error { _, err := nexjob.ParseEnding("x"); return err },
		`is not a rule: want one of on success, on failure, on any end`: func() error {
			_, err := nexjob.ParseRule("x")
			return err
		},
	} {
		if err := parse(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWhatIsNoWordHasAName(t *testing.T) {
	t.Parallel()
	for _, word := range []fmt.Stringer{
		nexjob.State(99), nexjob.State(0), nexjob.DuplicatePolicy(9), nexjob.WhileActive(9), nexjob.Ruling(0),
		nexjob.Priority(0), nexjob.Outcome(0), nexjob.EffectState(0), nexjob.Verdict(9), nexjob.Ending(99),
		nexjob.Rule(9), nexjob.Act(99),
	} {
		if word.String() == "" {
			t.Errorf("%T has no name", word)
		}
	}
}

func TestIDsIncrease(t *testing.T) {
	t.Parallel()
	ids := make([]nexjob.ID, 1000)
	for i := range ids {
		ids[i] = nexjob.NewID()
	}
	if !slices.IsSortedFunc(ids, nexjob.ID.Compare) {
		t.Error("IDs of one process do not increase")
	}
	for _, text := range []string{"", "urn:uuid:" + ids[0].String(), "{" + ids[0].String() + "}", strings.Repeat("g", 36)} {
		if id, err := nexjob.ParseID(text); err == nil {
			t.Errorf("ParseID(%q) = %v", text, id)
		}
	}
	if (nexjob.ID{}).IsZero() == ids[0].IsZero() {
		t.Error("IsZero tells no difference")
	}
}

func TestOutsideKeys(t *testing.T) {
	t.Parallel()
	operation, other := nexjob.NewID(), nexjob.NewID()
	seen := make(map[string]bool)
	for _, key := range []string{
		nexjob.OutsideKey(operation, "charge", "", 0),
		nexjob.OutsideKey(operation, "charge", "", 1),
		nexjob.OutsideKey(operation, "charge", "1", 0),
		nexjob.OutsideKey(operation, "charge1", "", 0),
		nexjob.OutsideKey(operation, "", "charge", 0),
		nexjob.OutsideKey(other, "charge", "", 0),
	} {
		strange := strings.ContainsFunc(key, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r)
		})
		if seen[key] || len(key) > 64 || strange {
			t.Errorf("outside key %q", key)
		}
		seen[key] = true
	}
	if !seen[nexjob.OutsideKey(operation, "charge", "", 0)] {
		t.Error("an outside key is not stable")
	}
}

func TestErrorsMatchTheirFacts(t *testing.T) {
	t.Parallel()
	facts := []error{
		nexjob.ErrDuplicateJob, nexjob.ErrKeyMismatch, nexjob.ErrIDReused, nexjob.ErrInvalid, nexjob.ErrEffectMismatch,
	}
	for i, err := range []error{
		&nexjob.DuplicateJobError{ExistingState: nexjob.Failed, RecordGone: true}, &nexjob.KeyMismatchError{Kind: "a"},
		&nexjob.IDReusedError{}, &nexjob.InvalidError{}, &nexjob.EffectMismatchError{Item: "a"},
	} {
		for j, fact := range facts {
			if errors.Is(fmt.Errorf("wrapped: %w", err), fact) != (i == j) {
				t.Errorf("%T matches %v: %v", err, fact, i != j)
			}
		}
		if !strings.HasPrefix(err.Error(), "nexjob: ") {
			t.Errorf("%T says %q", err, err)
		}
	}
}
