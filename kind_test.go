package nexjob_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
)

func TestKindFillsWhatAnEnqueueDoesNotChoose(t *testing.T) {
	t.Parallel()
	kind := nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{
		Queue: "money", Priority: nexjob.High, MaxAttempts: 8, Timeout: time.Minute, DeadlineAfter: time.Hour,
		DuplicatePolicy: nexjob.RejectIfFailed, KeepKeyFor: 24 * time.Hour, Aliases: []string{"charge"},
	})
	job := kind.New(Charge{OrderID: 42}, nexjob.Options{IdempotencyKey: "k"})
	if job.Queue != "money" || job.Priority != nexjob.High || job.MaxAttempts != 8 || job.Timeout != time.Minute ||
		job.DeadlineAfter != time.Hour || job.DuplicatePolicy != nexjob.RejectIfFailed || job.KeepKeyFor != 24*time.Hour ||
		!job.SameKind("charge") || !job.SameKind("charge-card") || job.SameKind("other") {
		t.Errorf("defaults give %+v", job)
	}
	chosen := nexjob.Options{
		Queue: "slow", Priority: nexjob.Low, MaxAttempts: 1, Timeout: time.Second,
		Deadline: time.Now(), DuplicatePolicy: nexjob.RejectAlways,
	}
	job = kind.New(Charge{}, chosen)
	if job.Queue != "slow" || job.Priority != nexjob.Low || job.MaxAttempts != 1 || job.Timeout != time.Second ||
		job.DeadlineAfter != 0 || job.DuplicatePolicy != nexjob.RejectAlways || job.KeepKeyFor != 0 {
		t.Errorf("choices give %+v", job)
	}
}

func TestKindOwnsItsAliases(t *testing.T) {
	t.Parallel()
	aliases := []string{"charge"}
	kind := nexjob.KindOf[Charge]("charge-card", nexjob.Defaults{Aliases: aliases})
	aliases[0] = "refund"
	if job := kind.New(Charge{}, nexjob.Options{}); job.SameKind("refund") {
		t.Error("a caller's slice renames a kind")
	}
}

func TestKindOfPanicsOnABadName(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{""}, {"a\n"}, {"good", " bad"}} {
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, nexjob.ErrInvalid) {
					t.Errorf("KindOf(%q) panics with %v", names, err)
				}
			}()
			nexjob.KindOf[Charge](names[0], nexjob.Defaults{Aliases: names[1:]})
		}()
	}
}

func TestArgsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	type args struct {
		Small, Large uint64
		Text         string
		Bytes        []byte
		Raw          json.RawMessage
		Map          map[string]any
	}
	kind := nexjob.KindOf[args]("args", nexjob.Defaults{})
	in := args{
		Small: 9007199254740993, Large: math.MaxUint64, Text: "NUL \x00, <html>, \uFFFD and 😀", Bytes: []byte("\xff\x00"),
		Raw: json.RawMessage(`{"replacement":"\ufffd","id":18446744073709551615}`), Map: map[string]any{"\x00": "\x00"},
	}
	job := kind.New(in, nexjob.Options{})
	if job.Err != nil {
		t.Fatal(job.Err)
	}
	out, err := kind.Decode(job.Args)
	if err != nil || out.Small != in.Small || out.Large != in.Large || out.Text != in.Text ||
		string(out.Bytes) != string(in.Bytes) || string(out.Raw) != string(in.Raw) || out.Map["\x00"] != "\x00" {
		t.Errorf("%+v came back as %+v, %v", in, out, err)
	}
}

func TestArgsThatCannotBeStoredAreRefused(t *testing.T) {
	t.Parallel()
	for name, job := range map[string]nexjob.NewJob{
		"a channel":        nexjob.KindOf[chan int]("a", nexjob.Defaults{}).New(nil, nexjob.Options{}),
		"NaN":              nexjob.KindOf[float64]("a", nexjob.Defaults{}).New(math.NaN(), nexjob.Options{}),
		"a byte not UTF-8": nexjob.KindOf[[]string]("a", nexjob.Defaults{}).New([]string{"\uFFFD", "a\xff"}, nexjob.Options{}),
		"a name not UTF-8": nexjob.KindOf[map[string]int]("a", nexjob.Defaults{}).New(map[string]int{"\xff": 1}, nexjob.Options{}),
		"a name twice": nexjob.KindOf[json.RawMessage]("a", nexjob.Defaults{}).
			New(json.RawMessage(`{"a":1,"a":2}`), nexjob.Options{}),
		"too large": nexjob.KindOf[string]("a", nexjob.Defaults{}).
			New(strings.Repeat("x", nexjob.MaxArgs), nexjob.Options{}),
		"too deep": nexjob.RawJob("a", []byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)), nexjob.Options{}),
	} {
		if !errors.Is(job.Err, nexjob.ErrInvalid) {
			t.Errorf("%s: %v, args %.40q", name, job.Err, job.Args)
		}
	}
	// A channel that is nil encodes as null, and an encoder's own replacement is no loss.
	kept := nexjob.KindOf[string]("a", nexjob.Defaults{}).New(`\ufffd as text, and `+"\uFFFD", nexjob.Options{})
	if kept.Err != nil {
		t.Errorf("a genuine U+FFFD is refused: %v", kept.Err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	kind := ChargeCard
	if c, err := kind.Decode([]byte(`{"order_id":1,"from_a_newer_producer":true} `)); err != nil || c.OrderID != 1 {
		t.Errorf("decoded %+v, %v", c, err)
	}
	for _, args := range []string{"", "{", `{"order_id":"x"}`, `{} {}`, `{} x`} {
		if c, err := kind.Decode([]byte(args)); err == nil {
			t.Errorf("%q decoded as %+v", args, c)
		}
	}
}

func TestDueAndExpires(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 1999, time.FixedZone("", 3600))
	whole := now.UTC().Truncate(time.Microsecond)
	for name, tt := range map[string]struct {
		options      nexjob.Options
		due, expires time.Time
	}{
		"at once":        {nexjob.Options{}, whole, time.Time{}},
		"in the past":    {nexjob.Options{DueAt: now.Add(-time.Hour)}, whole, time.Time{}},
		"later":          {nexjob.Options{DueAt: now.Add(time.Hour), Delay: time.Minute}, whole.Add(time.Hour), time.Time{}},
		"delayed":        {nexjob.Options{Delay: time.Hour, DueAt: now.Add(time.Minute)}, whole.Add(time.Hour), time.Time{}},
		"deadline":       {nexjob.Options{Deadline: now.Add(time.Hour)}, whole, whole.Add(time.Hour)},
		"deadline after": {nexjob.Options{DeadlineAfter: time.Hour, Deadline: now}, whole, whole.Add(time.Hour)},
	} {
		if due, expires := tt.options.Due(now), tt.options.Expires(now); due != tt.due || expires != tt.expires {
			t.Errorf("%s: due %v, expires %v; want %v and %v", name, due, expires, tt.due, tt.expires)
		}
	}
}
