package onewriter

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/nexjob/nexjob"
)

// ledger holds the receipts of one operation, in order of their slots.
type ledger struct {
	receipts []nexjob.Receipt
	dirty    map[string]bool // by slot
}

// loadReceipts brings the receipts of operations into the unit.
func (u *Unit) loadReceipts(ctx context.Context, operations []nexjob.ID) error {
	var missing []nexjob.ID
	for _, operation := range operations {
		if _, known := u.receipts[operation]; !known {
			u.receipts[operation] = &ledger{dirty: make(map[string]bool)}
			missing = append(missing, operation)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	found, err := u.rows.Receipts(ctx, missing)
	if err != nil {
		return err
	}
	for i := range found {
		l := u.receipts[found[i].Operation]
		l.receipts = append(l.receipts, found[i])
	}
	return nil
}

// open returns the effects of a job's operation that have no outcome.
func (u *Unit) open(ctx context.Context, j *nexjob.Job) ([]nexjob.Receipt, error) {
	if j.OpenEffects == 0 {
		return nil, nil
	}
	if err := u.loadReceipts(ctx, []nexjob.ID{j.Operation}); err != nil {
		return nil, err
	}
	var open []nexjob.Receipt
	for _, r := range u.receipts[j.Operation].receipts {
		if r.Open() {
			open = append(open, r)
		}
	}
	return open, nil
}

// putReceipt keeps a receipt and the tallies of the job that wrote it.
func (u *Unit) putReceipt(j *nexjob.Job, r *nexjob.Receipt) {
	l := u.receipts[j.Operation]
	slot := r.Slot()
	l.dirty[slot] = true
	u.changed(j)
	i := slices.IndexFunc(l.receipts, func(old nexjob.Receipt) bool { return old.Slot() == slot })
	if i < 0 {
		l.receipts = append(l.receipts, *r)
		slices.SortFunc(l.receipts, func(a, b nexjob.Receipt) int {
			return cmp.Compare(a.Slot(), b.Slot())
		})
		j.ReceiptCount++
		j.ReceiptBytes += len(r.Value)
		if r.Open() {
			j.OpenEffects++
		}
		return
	}
	old := &l.receipts[i]
	j.ReceiptBytes += len(r.Value) - len(old.Value)
	switch {
	case r.Open() && !old.Open():
		j.OpenEffects++
	case !r.Open() && old.Open():
		j.OpenEffects--
	}
	r.Value = bytes.Clone(r.Value)
	*old = *r
}

func (u *Unit) flushReceipts(ctx context.Context) error {
	var put []nexjob.Receipt
	for _, l := range u.receipts {
		for i := range l.receipts {
			if l.dirty[l.receipts[i].Slot()] {
				put = append(put, l.receipts[i])
			}
		}
		clear(l.dirty)
	}
	if len(put) > 0 {
		u.wrote = true
		if err := u.rows.WriteReceipts(ctx, put); err != nil {
			return err
		}
	}
	if len(u.loose) == 0 {
		return nil
	}
	loose := sortedIDs(u.loose)
	clear(u.loose)
	for _, operation := range loose {
		delete(u.receipts, operation)
	}
	return u.rows.DropReceipts(ctx, loose)
}
