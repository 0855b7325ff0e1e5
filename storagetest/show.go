package storagetest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nexjob/nexjob"
)

// difference describes how two values differ; "" when they do not. Empty and nil are
// one: an engine need not tell them apart.
func difference(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return "" // large values are equal mostly, and cmp is slow on them
	}
	return cmp.Diff(want, got, compareOptions()...)
}

// compareOptions make differences readable: words instead of numbers and bytes.
func compareOptions() []cmp.Option {
	return []cmp.Option{
		cmpopts.EquateEmpty(),
		cmpopts.EquateErrors(),
		cmpopts.IgnoreUnexported(nexjob.Answer{}),
		cmp.Transformer("ID", nexjob.ID.String),
		cmp.Transformer("Fingerprint", nexjob.Fingerprint.String),
		cmp.Transformer("State", nexjob.State.String),
		cmp.Transformer("Outcome", nexjob.Outcome.String),
		cmp.Transformer("Ending", nexjob.Ending.String),
		cmp.Transformer("EffectState", nexjob.EffectState.String),
	}
}

// brief tells of a job what a failed check is about.
func brief(j nexjob.Job) string {
	var s strings.Builder
	fmt.Fprintf(&s, "job %s (%s, queue %s, key %q) is %s, due %s", j.ID, j.Kind, j.Queue, j.Key, j.State, j.DueAt)
	fmt.Fprintf(&s, ", fence %d, lease until %s", j.Fence, j.LeaseUntil)
	fmt.Fprintf(&s, ", %d tries, %d crashes, %d open effects", j.Tries, j.Crashes, j.OpenEffects)
	if j.Reason != "" {
		fmt.Fprintf(&s, ", reason %q", j.Reason)
	}
	return s.String()
}
