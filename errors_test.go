package nexjob_test

import (
	"testing"

	"github.com/nexjob/nexjob"
)

// A rejection names only what can be done: a job whose record is gone cannot be
// requeued.
func TestDuplicateJobErrorSaysWhatCanBeDone(t *testing.T) {
	t.Parallel()
	const job = "00000000-0000-0000-0000-000000000000"
	for _, tt := range []struct {
		state  nexjob.State
		policy nexjob.DuplicatePolicy
		gone   bool
		want   string
	}{
		{
			nexjob.Failed, nexjob.RejectIfFailed, false, "was used by job " + job + " (Failed) and RejectIfFailed " +
				"rejects another; requeue that job, or clear the key after review",
		},
		{
			nexjob.Failed, nexjob.RejectIfFailed, true, "was used by job " + job + " (Failed, its record is gone) and " +
				"RejectIfFailed rejects another; clear the key after review",
		},
		{
			nexjob.Succeeded, nexjob.RejectAlways, false, "was used by job " + job + " (Succeeded) and RejectAlways " +
				"rejects another; requeue that job, or clear the key after review",
		},
		{
			nexjob.Succeeded, nexjob.RejectAlways, true, "was used by job " + job + " (Succeeded, its record is gone) " +
				"and RejectAlways rejects another; clear the key after review",
		},
		{
			nexjob.Processing, nexjob.AllowAfterFailed, false, "is held by job " + job + " (Processing); " +
				"wait for that job, or cancel it",
		},
		// A requeue of a former job is refused under no policy.
		{
			nexjob.Cancelled, nexjob.AllowAfterFailed, false, "was used since by job " + job + " (Cancelled); " +
				"requeue that job, or enqueue anew",
		},
		{
			nexjob.Cancelled, nexjob.AllowAfterFailed, true, "was used since by job " + job + " (Cancelled, its record " +
				"is gone); enqueue anew",
		},
	} {
		err := &nexjob.DuplicateJobError{
			IdempotencyKey: "k", ExistingState: tt.state, Policy: tt.policy, RecordGone: tt.gone,
		}
		if want := `nexjob: idempotency key "k" ` + tt.want; err.Error() != want {
			t.Errorf("%s, %s, gone %t:\n got %s\nwant %s", tt.state, tt.policy, tt.gone, err, want)
		}
	}
}
