package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/input"
	"github.com/nexjob/nexjob/memory"
)

// recorded is a client that notes the size of each batch. before is asked first.
type recorded struct {
	*nexjob.Client
	sizes  []int
	before func(ctx context.Context, batch int) error
}

func (r *recorded) EnqueueMany(ctx context.Context, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	r.sizes = append(r.sizes, len(jobs))
	if r.before != nil {
		if err := r.before(ctx, len(r.sizes)); err != nil {
			return nil, err
		}
	}
	return r.Client.EnqueueMany(ctx, jobs)
}

// newClient is a client on a fresh storage in memory.
func newClient(t *testing.T) *recorded {
	t.Helper()
	store := memory.New(memory.Options{})
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	t.Cleanup(func() {
		_ = client.Close(context.WithoutCancel(t.Context()))
		_ = store.Close()
	})
	return &recorded{Client: client}
}

// byID takes the member id for the key.
func byID(t *testing.T) Options {
	t.Helper()
	field, err := input.ParseField("id")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Kind: "charge", Key: &field, Prefix: "payment-"}
}

// keys are the keys of all jobs that are stored, in order.
func keys(t *testing.T, r *recorded) []string {
	t.Helper()
	page, err := r.Find(t.Context(), nexjob.Query{Limit: nexjob.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range page.Jobs {
		all = append(all, page.Jobs[i].Key)
	}
	slices.Sort(all)
	return all
}

func TestRunCounts(t *testing.T) {
	to := newClient(t)
	if _, err := to.Enqueue(t.Context(), nexjob.RawJob("refund", nil, nexjob.Options{IdempotencyKey: "payment-9"})); err != nil {
		t.Fatal(err)
	}
	lines := []string{
		1:  `{"id":1}`,
		2:  `{"id":"2"}`,
		3:  ``,
		4:  `{"id":1}`,                                  // existing
		5:  `{"id":1,"cents":5}`,                        // existing, other args
		6:  `{"id":9}`,                                  // another kind's key
		7:  `{"id":3,"id":4}`,                           // a name twice
		8:  `{"id":3`,                                   // no JSON
		9:  `{"x":3}`,                                   // no key
		10: `{"id":"` + strings.Repeat("k", 600) + `"}`, // a key too long
		11: `{"id":"a\u0000b"}`,                         // a key with NUL
		12: `"` + strings.Repeat("x", nexjob.MaxArgs) + `"`,
		13: `{"id":3}`,
	}
	var invalid bytes.Buffer
	o := byID(t)
	o.Invalid = &invalid
	got, err := Run(t.Context(), to, strings.NewReader(strings.Join(lines[1:], "\r\n")), o)
	if err != nil {
		t.Fatal(err)
	}
	want := &Summary{Lines: 12, Created: 3, Existing: 2, Mismatched: 1, Invalid: 6, ArgsDiffer: 1}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Summary{}, "Bad")); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	reasons := map[int]string{
		6: "belongs to job", 7: `the name "id" stands twice`, 8: "at byte 7", 9: `it has no "id"`,
		10: "at most 512", 11: "contains NUL", 12: "longer than 1048576 bytes",
	}
	for _, bad := range got.Bad {
		if reason, ok := reasons[bad.Line]; !ok || !strings.Contains(bad.Why, reason) {
			t.Errorf("line %d: %q, want %q", bad.Line, bad.Why, reason)
		}
		delete(reasons, bad.Line)
	}
	if len(reasons) > 0 {
		t.Errorf("not named: %v", reasons)
	}
	if n := strings.Count(invalid.String(), "\n"); n != 7 {
		t.Errorf("%d bad lines are written down:\n%s", n, invalid.String())
	}
	if diff := cmp.Diff([]string{"payment-1", "payment-2", "payment-3", "payment-9"}, keys(t, to)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestRunPolicies: what the policy and the setting for a live holder answer is counted
// apart.
func TestRunPolicies(t *testing.T) {
	to := newClient(t)
	o := byID(t)
	run := func(text string) *Summary {
		t.Helper()
		got, err := Run(t.Context(), to, strings.NewReader(text), o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	run(`{"id":1}`)
	o.Job.WhileActive = nexjob.Replace
	if got := run(`{"id":1,"cents":2}`); got.Replaced != 1 || got.ArgsDiffer != 1 {
		t.Errorf("replace: %+v", got)
	}
	o.Job.WhileActive = nexjob.Reject
	if got := run(`{"id":1}`); got.Rejected != 1 || got.Lines != 1 || len(got.Bad) != 0 {
		t.Errorf("reject: %+v", got)
	}
	o.Job.WhileActive, o.Job.StrictArgs = nexjob.ReturnExisting, true
	if got := run(`{"id":1,"cents":3}`); got.Mismatched != 1 || len(got.Bad) != 1 {
		t.Errorf("strict args: %+v", got)
	}
	o.Key = nil
	if got := run("1\n[2]\n1\n"); got.Created != 3 {
		t.Errorf("without keys: %+v", got)
	}
}

// numbered is a text of n lines.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"id\":%d}\n", i)
	}
	return b.String()
}

// TestRunBatches: a batch is bounded by lines and by bytes.
func TestRunBatches(t *testing.T) {
	to := newClient(t)
	if _, err := Run(t.Context(), to, strings.NewReader(numbered(1000)+numbered(1000)), byID(t)); err != nil {
		t.Fatal(err)
	}
	if len(to.sizes) > 20 || slices.Max(to.sizes) > batchLines {
		t.Errorf("batches of %v", to.sizes)
	}
	to.sizes = nil
	wide := strings.Repeat(`{"id":5,"x":"`+strings.Repeat("x", 1<<20-100)+"\"}\n", 20)
	if _, err := Run(t.Context(), to, strings.NewReader(wide), byID(t)); err != nil {
		t.Fatal(err)
	}
	if slices.Max(to.sizes) > 9 {
		t.Errorf("batches of %v wide lines", to.sizes)
	}
}

// TestRunFollows: a line that comes alone is not kept waiting for a thousand others.
func TestRunFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := newClient(t)
		out, in := io.Pipe()
		ended := make(chan error)
		go func() {
			_, err := Run(t.Context(), to, out, byID(t))
			ended <- err
		}()
		for i := range 3 {
			fmt.Fprintf(in, "{\"id\":%d}\n", i)
			time.Sleep(linger)
			synctest.Wait()
			if got := len(keys(t, to)); got != i+1 {
				t.Errorf("%d jobs after line %d", got, i+1)
			}
		}
		_ = in.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = to.Close(t.Context())
	})
}

// TestRunInterrupted: the batch under way is finished and counted, nothing else is.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	to := newClient(t)
	to.before = func(ctx context.Context, batch int) error {
		cancel()
		return ctx.Err() // the batch's own context goes on
	}
	blocked, in := io.Pipe() // never closed by the writer: the producer goes on for ever
	defer blocked.Close()
	go func() { _, _ = io.WriteString(in, numbered(batchLines+1)) }()
	got, err := Run(ctx, to, blocked, byID(t))
	if !errors.Is(err, context.Canceled) || got.Lines == 0 || got.Lines != len(keys(t, to)) || got.Created != got.Lines {
		t.Errorf("%v, %+v, %d stored", err, got, len(keys(t, to)))
	}
}

// TestRunLastCall: a storage that hangs does not keep an interrupted run for ever.
func TestRunLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		to := newClient(t)
		to.before = func(ctx context.Context, _ int) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		got, err := Run(ctx, to, strings.NewReader(numbered(3)), byID(t))
		if !errors.Is(err, context.Canceled) || got.Lines != 0 || time.Since(began) < lastCall {
			t.Errorf("%v, %+v after %v", err, got, time.Since(began))
		}
		_ = to.Close(t.Context())
	})
}

// TestRunBreaks: what is in before the input or the storage breaks is counted.
func TestRunBreaks(t *testing.T) {
	broken := errors.New("broken")
	to := newClient(t)
	got, err := Run(t.Context(), to, io.MultiReader(strings.NewReader(numbered(3)+`{"id":77`), iotest.ErrReader(broken)), byID(t))
	if !errors.Is(err, broken) || got.Created != 3 || got.Lines != 3 {
		t.Errorf("input: %v, %+v", err, got)
	}
	to = newClient(t)
	to.before = func(_ context.Context, batch int) error {
		if batch > 1 {
			return broken
		}
		return nil
	}
	got, err = Run(t.Context(), to, strings.NewReader(numbered(3*batchLines)), byID(t))
	if !errors.Is(err, broken) || got.Lines != to.sizes[0] || !strings.HasPrefix(err.Error(), "lines ") {
		t.Errorf("storage: %v, %+v", err, got)
	}
	to = newClient(t)
	o := byID(t)
	o.Invalid = writerFunc(func([]byte) (int, error) { return 0, broken })
	if _, err := Run(t.Context(), to, strings.NewReader("nonsense"), o); !errors.Is(err, broken) {
		t.Errorf("bad lines that cannot be written down: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestSummaryIsBounded: a file of another kind, a million bad lines, is no million
// entries in memory.
func TestSummaryIsBounded(t *testing.T) {
	got, err := Run(t.Context(), newClient(t), strings.NewReader(strings.Repeat("x\n", maxNamed+5)), byID(t))
	if err != nil || len(got.Bad) != maxNamed || got.LeftOut != 5 || got.Invalid != maxNamed+5 {
		t.Errorf("%v, %d named, %d left out, %d invalid", err, len(got.Bad), got.LeftOut, got.Invalid)
	}
	var b strings.Builder
	if err := got.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(b.String(), "\n"); lines != 8+2+1+maxShown || !strings.Contains(b.String(), "the first 20 of 10005 lines") {
		t.Errorf("the table has %d lines:\n%s", lines, b.String())
	}
}
