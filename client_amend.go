package nexjob

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Amend applies one action to at most limit jobs that the query selects, oldest
// first, and answers per job: done, or refused and why. An action that does not make
// sense is *InvalidError and changes nothing. So is a query without a condition, unless
// it says All: a filter that came out empty, of a form, a flag or a list of IDs, must
// not empty the storage. A requeue also repeats what has succeeded: name the States.
// Only the caller repeats it: after ErrOutcomeUnknown the same call may go on with the
// jobs that come next.
func (c *Client) Amend(ctx context.Context, q Query, do Action, limit int) (Amended, error) {
	if err := c.writable(ctx, "amend"); err != nil {
		return Amended{}, err
	}
	if limit < 1 || limit > MaxPage {
		return Amended{}, invalid("limit", fmt.Sprint(limit), fmt.Sprintf("1 to %d", MaxPage))
	}
	if q.Of != Jobs && (q.Of != Keys || do.Act != ActClearKey) {
		return Amended{}, invalid("query", "it does not select jobs",
			"select Jobs, or Keys when clearing keys")
	}
	if q.Of == Jobs && !q.All && !q.selective() {
		return Amended{}, invalid("query", "it has no condition and would select every job",
			"name the jobs or a filter, or set All if every job is meant")
	}
	if do.FollowUp != nil {
		job := *do.FollowUp
		if err := c.prepare(&job); err != nil {
			return Amended{}, err
		}
		do.FollowUp = &job
	}
	if err := do.Validate(); err != nil {
		return Amended{}, err
	}
	var amended Amended
	err := c.do(ctx, "amend", func(now time.Time) (err error) {
		amended, err = c.store.Amend(ctx, now, q, do, limit)
		return err
	})
	return amended, err
}

// AmendJob applies one action to one job. The error is why it was refused, or
// ErrNotFound.
func (c *Client) AmendJob(ctx context.Context, id ID, do Action) (Change, error) {
	return c.amendOne(ctx, Query{IDs: []ID{id}}, do, "job "+id.String())
}

// ClearKey lifts, after a person's review, the refusal that the key's ended job
// leaves behind: the next enqueue is allowed under every policy. It works too when
// the key outlived the job's record. ErrNotFound says that nobody holds the key.
func (c *Client) ClearKey(ctx context.Context, key, by, reason string) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	do := Action{Act: ActClearKey, By: by, Reason: reason}
	_, err := c.amendOne(ctx, Query{Of: Keys, Key: key}, do, strconv.Quote(key))
	return err
}

func (c *Client) amendOne(ctx context.Context, q Query, do Action, what string) (Change, error) {
	amended, err := c.Amend(ctx, q, do, 1)
	if err != nil {
		return Change{}, err
	}
	if len(amended.Changes) == 0 {
		return Change{}, fmt.Errorf("nexjob: %s %s: %w", do.Act, what, ErrNotFound)
	}
	change := amended.Changes[0]
	if change.Err != nil {
		return change, fmt.Errorf("nexjob: %s %s: %w", do.Act, what, change.Err)
	}
	return change, nil
}

// Validate checks that the action says what its act needs and nothing that its act
// does not heed, so that no choice is dropped in silence. It returns *InvalidError.
func (a *Action) Validate() error {
	if a.Act < ActCancel || a.Act > ActMove {
		return invalid("action", fmt.Sprintf("act %d is none", a.Act), "use one of ActCancel to ActMove")
	}
	if a.By != "" {
		if err := ValidateName("name of who acts", a.By); err != nil {
			return err
		}
	}
	switch {
	case len(a.Reason) > MaxError:
		return invalid("reason", fmt.Sprintf("%d bytes", len(a.Reason)), fmt.Sprintf("at most %d", MaxError))
	case !utf8.ValidString(a.Reason) || strings.ContainsRune(a.Reason, 0):
		return invalid("reason", "it is not valid UTF-8, or contains NUL", "write plain text")
	case a.Force && strings.TrimSpace(a.Reason) == "":
		return invalid("reason", "it is missing", "say why confirmed effects may be forgotten")
	}
	for _, choice := range []struct {
		name string
		set  bool
		act  Act
	}{
		{"Force", a.Force, ActDelete},
		{"NewOperation", a.NewOperation, ActRequeue},
		{"DueAt", !a.DueAt.IsZero(), ActReschedule},
		{"Priority", a.Priority != 0, ActPrioritise},
		{"Queue", a.Queue != "", ActMove},
		{"Effect", a.Effect != "" || a.Item != "", ActResolve},
		{"Verdict", a.Verdict != StillUnknown, ActResolve},
		{"Value", len(a.Value) > 0, ActResolve},
		{"FollowUp", a.FollowUp != nil, ActResolve},
	} {
		if choice.set && choice.act != a.Act {
			return invalid("action", choice.name+" has no meaning for "+a.Act.String(),
				"it belongs to "+choice.act.String())
		}
	}
	return a.validateAct()
}

func (a *Action) validateAct() error {
	switch a.Act {
	case ActReschedule:
		if year := a.DueAt.UTC().Year(); year < 1970 || year > 9999 {
			return invalid("due at", a.DueAt.String(), "a year from 1970 to 9999 in UTC")
		}
	case ActPrioritise:
		if a.Priority < Critical || a.Priority > Low {
			return invalid("priority", fmt.Sprintf("%d is none", a.Priority), "use Critical, High, Normal or Low")
		}
	case ActMove:
		return ValidateName("queue", a.Queue)
	case ActResolve:
		return a.validateVerdict()
	case ActCancel, ActRequeue, ActDelete, ActPurge, ActClearKey, ActExpire:
	}
	return nil
}

// validateVerdict holds that a verdict is a person's, with name and reason.
func (a *Action) validateVerdict() error {
	switch {
	case a.Verdict == StillUnknown || a.Verdict > Compensate:
		return invalid("verdict", fmt.Sprintf("%q settles nothing", a.Verdict), "use Applied, NotApplied or Compensate")
	case a.By == "" || strings.TrimSpace(a.Reason) == "":
		return invalid("verdict", "it has no name or no reason", "set By and Reason: a person answers for it")
	case len(a.Value) > 0 && a.Verdict != Applied:
		return invalid("value", "only an effect that was applied has one", "leave it out")
	case len(a.Value) > MaxReceiptBytes:
		return invalid("value", fmt.Sprintf("%d bytes", len(a.Value)), fmt.Sprintf("at most %d", MaxReceiptBytes))
	case len(a.Value) > 0 && !json.Valid(a.Value):
		return invalid("value", "it is not JSON, and the handler could never read it",
			"encode what the effect's Send would have returned")
	case (a.FollowUp != nil) != (a.Verdict == Compensate):
		return invalid("follow-up", "it belongs to Compensate, and Compensate needs it",
			"name the job that makes up for the effect")
	}
	return nil
}
