package record

import (
	"errors"
	"io"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/view"
)

// Answer is the answer to an enqueue.
type Answer struct {
	ID         *nexjob.ID              `json:"id,omitempty"`
	Outcome    nexjob.Outcome          `json:"outcome"`
	State      *nexjob.State           `json:"state,omitempty"`
	Operation  *nexjob.ID              `json:"operation,omitempty"`
	ArgsDiffer bool                    `json:"args_differ"`
	Started    bool                    `json:"started,omitempty"`
	Continues  bool                    `json:"continues,omitempty"`
	RecordGone bool                    `json:"record_gone,omitempty"`
	Existing   *nexjob.ID              `json:"existing_id,omitempty"`
	Policy     *nexjob.DuplicatePolicy `json:"policy,omitempty"`
	Error      string                  `json:"error,omitempty"`
	Remedy     string                  `json:"remedy,omitempty"`
}

// AnswerOf makes an Answer of what Enqueue answered about a job, also of a refusal. ok
// is false for any other error: it is no answer.
func AnswerOf(job *nexjob.NewJob, answer nexjob.Answer, err error) (told *Answer, ok bool) {
	if err == nil {
		return &Answer{
			ID: &answer.ID, Outcome: answer.Outcome, State: &answer.State, Operation: &answer.Operation,
			ArgsDiffer: answer.ArgsDiffer, Started: answer.Started, Continues: answer.Continues, RecordGone: answer.RecordGone,
		}, true
	}
	remedy := "look first: nexjob key explain " + view.ShellKey(job.IdempotencyKey)
	if duplicate, ok := errors.AsType[*nexjob.DuplicateJobError](err); ok {
		told = &Answer{
			Outcome: nexjob.Rejected, Existing: &duplicate.ExistingJobID, State: &duplicate.ExistingState,
			RecordGone: duplicate.RecordGone, Error: err.Error(), Remedy: remedy,
		}
		if !duplicate.ExistingState.Active() { // else it was --while-active, whatever the policy
			told.Policy = &duplicate.Policy
		}
		return told, true
	}
	if mismatch, ok := errors.AsType[*nexjob.KeyMismatchError](err); ok {
		return &Answer{
			Outcome: nexjob.Mismatched, Existing: &mismatch.ExistingJobID, ArgsDiffer: mismatch.Kind == mismatch.ExistingKind,
			Error: err.Error(), Remedy: remedy,
		}, true
	}
	return nil, false
}

// WriteTable writes the answer for people.
func (a *Answer) WriteTable(w io.Writer) error {
	t := view.NewTable(w)
	t.Row("Outcome", a.Outcome)
	if a.Existing != nil {
		t.Row("Existing job", a.Existing)
	} else {
		t.Row("ID", a.ID)
	}
	if a.State != nil {
		t.Row("State", a.State)
	}
	if a.Operation != nil {
		t.Row("Operation", a.Operation)
	}
	if a.Policy != nil {
		t.Row("Policy", a.Policy)
	}
	for _, fact := range []struct {
		holds bool
		text  string
	}{
		{a.ArgsDiffer, "the key's job has other args than these"},
		{a.Started, "too late to replace it: the job has been claimed"},
		{a.Continues, "it continues the operation of the key's last job"},
		{a.RecordGone, "the job's record is gone, its key lives"},
	} {
		if fact.holds {
			t.Row("Note", fact.text)
		}
	}
	if a.Remedy != "" {
		t.Row("Remedy", a.Remedy)
	}
	return t.Flush()
}
