package onewriter

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/rules"
)

// Record writes receipts, as nexjob.Ledger says.
func (u *Unit) Record(ctx context.Context, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	ids := make([]nexjob.ID, len(receipts))
	for i := range receipts {
		ids[i] = receipts[i].Writer.Job
	}
	if err := u.load(ctx, ids); err != nil {
		return nil, err
	}
	answers := make([]nexjob.Recorded, len(receipts))
	for i := range receipts {
		var err error
		if answers[i], err = u.recordOne(ctx, &receipts[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func (u *Unit) recordOne(ctx context.Context, next *nexjob.Receipt) (nexjob.Recorded, error) {
	if err := checkReceipt(next); err != nil {
		return nexjob.Recorded{Err: err}, nil
	}
	j := u.job(next.Writer.Job)
	if !rules.Current(j, next.Writer) || j.Operation != next.Operation {
		return nexjob.Recorded{Err: nexjob.ErrLeaseLost}, nil
	}
	if next.State == nexjob.Intended && rules.NoNewEffects(j) {
		return nexjob.Recorded{Err: nexjob.ErrStopped}, nil
	}
	if err := u.loadReceipts(ctx, []nexjob.ID{next.Operation}); err != nil {
		return nexjob.Recorded{}, err
	}
	var standing *nexjob.Receipt
	slot := next.Slot()
	for i := range u.receipts[next.Operation].receipts {
		if r := &u.receipts[next.Operation].receipts[i]; r.Slot() == slot {
			standing = r
		}
	}
	written, answer := rules.Record(standing, next, u.now)
	answer.Standing.Value = bytes.Clone(answer.Standing.Value) // the caller's to change
	if written == nil {
		return answer, nil
	}
	if err := checkRoom(j, standing, written); err != nil {
		return nexjob.Recorded{Err: err}, nil
	}
	u.putReceipt(j, written)
	if written.State == nexjob.Disproved {
		rules.Disproved(j)
	}
	return answer, nil
}

func checkReceipt(r *nexjob.Receipt) error {
	if err := nexjob.ValidateName(r.Sort.String(), r.Name); err != nil {
		return err
	}
	if r.Item != "" {
		if err := nexjob.ValidateName("item", r.Item); err != nil {
			return err
		}
	}
	var why string
	switch {
	case r.Sort != nexjob.StepReceipt && r.Sort != nexjob.EffectReceipt:
		why = "it is neither a step nor an effect"
	case r.Sort == nexjob.StepReceipt && r.State != nexjob.Confirmed:
		why = "a step is recorded when it is done"
	case r.Sort == nexjob.EffectReceipt && r.State == nexjob.Intended && r.SendBefore.IsZero():
		why = "it is intended without a time before which it is sent"
	case !rules.Storable(r.SendBefore):
		why = "it is sent before " + r.SendBefore.String()
	case r.RepeatableFor < 0 || r.LookupAfter < 0 || r.Turn < 0:
		why = "it has a time or a turn below zero"
	case !slices.Contains(
		[]nexjob.EffectState{nexjob.Intended, nexjob.Confirmed, nexjob.Refused, nexjob.Disproved}, r.State):
		why = "a worker cannot record it as " + r.State.String()
	default:
		return nil
	}
	return &nexjob.InvalidError{Field: "receipt " + r.Name, Why: why, Remedy: "see nexjob.Receipt"}
}

// checkRoom holds an operation's receipts to their limits.
func checkRoom(j *nexjob.Job, standing, next *nexjob.Receipt) error {
	count, size := j.ReceiptCount, j.ReceiptBytes+len(next.Value)
	if standing == nil {
		count++
	} else {
		size -= len(standing.Value)
	}
	if count > nexjob.MaxReceipts {
		return &nexjob.InvalidError{
			Field: "receipt " + next.Name, Why: fmt.Sprintf("the operation has %d receipts", j.ReceiptCount),
			Remedy: "split the work into several jobs",
		}
	}
	if size > nexjob.MaxReceiptBytes {
		return &nexjob.InvalidError{
			Field: "receipt " + next.Name, Why: fmt.Sprintf("the operation's receipts would hold %d bytes", size),
			Remedy: fmt.Sprintf("at most %d; store large results elsewhere and keep their names", nexjob.MaxReceiptBytes),
		}
	}
	return nil
}
