package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/nexjob/nexjob"
)

// The sequential model of one key: what a storage would answer if its callers came
// one after another. It is written from the policy table and the written rules, and
// shares no code with any engine.

// call is one call of a history. All jobs of a key are in a queue of the key's
// name, so that claims too belong to one key.
type call struct {
	key   string
	verb  verb
	job   nexjob.NewJob // enqueue
	id    nexjob.ID     // settle, amend
	fence int64         // settle
	as    nexjob.Ending // settle
	act   nexjob.Act    // amend
}

// mark names a settlement.
func (c call) mark() string { return fmt.Sprintf(" %d:%d;", c.fence, c.as) }

type verb uint8

const (
	enqueues verb = iota
	claims
	settles
	amends
	finds
	looksUpKey
)

// reply is what a call was answered.
type reply struct {
	answer nexjob.Answer // enqueue; Err is told by its words
	id     nexjob.ID     // claim: the job, zero for none
	fence  int64
	state  nexjob.State // settle, amend
	lost   bool         // settle
	found  bool         // amend: the job was selected
	done   bool         // amend
	passes bool         // claim: it may have passed the job by, whose row another call held
	jobs   []seen       // find
	row    nexjob.KeyRow
}

// seen is a job as a reader sees it.
type seen struct {
	id    nexjob.ID
	state nexjob.State
}

// modelJob is a stored job.
type modelJob struct {
	seen
	fence     int64
	operation nexjob.ID
	args      nexjob.Fingerprint
	started   bool
	stop      bool
	keep      bool
	settled   string // fences and endings of the settlements that stood
}

// modelKey is everything that the model knows of a key. It is never changed: a
// step returns another one.
type modelKey struct {
	jobs  []modelJob // by ID
	held  bool       // the key has a row
	row   nexjob.KeyRow
	fence int64 // the highest one drawn for a job of the key
}

func model() porcupine.Model {
	return porcupine.Model{
		Partition: byKey,
		Init:      func() any { return modelKey{} },
		Step: func(state, input, output any) (bool, any) {
			//nolint:forcetypeassert,errcheck // the histories hold nothing else
			return state.(modelKey).step(input.(call), output.(reply))
		},
		Equal: func(x, y any) bool {
			a, b := x.(modelKey), y.(modelKey) //nolint:forcetypeassert,errcheck // as above
			return a.held == b.held && a.row == b.row && a.fence == b.fence && slices.Equal(a.jobs, b.jobs)
		},
		DescribeOperation: func(input, output any) string {
			return describe(input.(call), output.(reply)) //nolint:forcetypeassert,errcheck // as above
		},
	}
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := make(map[string][]porcupine.Operation)
	for _, o := range history {
		key := o.Input.(call).key //nolint:forcetypeassert,errcheck // the histories hold nothing else
		parts[key] = append(parts[key], o)
	}
	out := make([][]porcupine.Operation, 0, len(parts))
	for _, p := range parts {
		out = append(out, p)
	}
	return out
}

func (k modelKey) index(id nexjob.ID) int {
	return slices.IndexFunc(k.jobs, func(j modelJob) bool { return j.id == id })
}

// with returns the key with one job changed or added.
func (k modelKey) with(j modelJob) modelKey {
	i, there := slices.BinarySearchFunc(k.jobs, j, func(a, b modelJob) int { return a.id.Compare(b.id) })
	k.jobs = slices.Clone(k.jobs)
	if there {
		k.jobs[i] = j
	} else {
		k.jobs = slices.Insert(k.jobs, i, j)
	}
	return k
}

func (k modelKey) without(i int) modelKey {
	k.jobs = slices.Delete(slices.Clone(k.jobs), i, i+1)
	return k
}

func (k modelKey) freed() modelKey {
	k.held, k.row = false, nexjob.KeyRow{}
	return k
}

func (k modelKey) step(c call, r reply) (bool, modelKey) {
	switch c.verb {
	case enqueues:
		return k.enqueue(c.job, r.answer)
	case claims:
		return k.claim(r)
	case settles:
		return k.settle(c, r)
	case amends:
		return k.amend(c, r)
	case finds:
		return slices.EqualFunc(k.jobs, r.jobs, func(j modelJob, s seen) bool { return j.seen == s }), k
	case looksUpKey:
		return r.row == k.row, k
	}
	return false, k
}

func (k modelKey) enqueue(n nexjob.NewJob, got nexjob.Answer) (bool, modelKey) {
	if i := k.index(n.ID); i >= 0 { // a repeat
		j := k.jobs[i]
		return got.Err == nil && got.Outcome == nexjob.Created && got.ID == j.id && got.Operation == j.operation, k
	}
	last := nexjob.State(0)
	i := -1
	if k.held {
		last = k.row.Ended
		if i = k.index(k.row.Job); i >= 0 {
			last = k.jobs[i].state
		}
	}
	differ := k.held && k.row.Fingerprint != n.Fingerprint
	switch {
	case last.Active() && n.WhileActive == nexjob.Reject:
		return rejected(got, n, k.row.Job, last, false), k
	case last.Active() && n.WhileActive == nexjob.Replace && last == nexjob.Enqueued && !k.jobs[i].started:
		next := k.jobs[i]
		next.keep, next.args = n.KeepKeyFor > 0, n.Fingerprint
		ok := got.Err == nil && got.Outcome == nexjob.Replaced && got.ID == next.id && got.Operation == next.operation
		k = k.with(next)
		k.row.Fingerprint = n.Fingerprint
		return ok, k
	case last.Active():
		return got.Err == nil && got.Outcome == nexjob.Existing && got.ID == k.row.Job && got.State == last &&
			got.Operation == k.row.Operation && got.ArgsDiffer == differ &&
			got.Started == (n.WhileActive == nexjob.Replace), k
	case last != 0 && !k.row.Cleared && ruling(n.DuplicatePolicy, last) == nexjob.RuleReject:
		return rejected(got, n, k.row.Job, last, i < 0), k
	}
	operation := n.ID
	continues := last != 0 && last != nexjob.Succeeded && !n.NewOperation
	if continues {
		operation = k.row.Operation
	}
	ok := got.Err == nil && got.Outcome == nexjob.Created && got.ID == n.ID && got.State == nexjob.Enqueued &&
		got.Operation == operation && got.Continues == continues
	k = k.with(modelJob{
		seen: seen{n.ID, nexjob.Enqueued}, operation: operation, args: n.Fingerprint, keep: n.KeepKeyFor > 0,
	})
	k.held = true
	k.row = nexjob.KeyRow{
		Key: n.IdempotencyKey, Job: n.ID, Kind: n.Kind, Fingerprint: n.Fingerprint, Operation: operation,
	}
	return ok, k
}

func rejected(got nexjob.Answer, n nexjob.NewJob, id nexjob.ID, state nexjob.State, gone bool) bool {
	var duplicate *nexjob.DuplicateJobError
	return errors.As(got.Err, &duplicate) && *duplicate == nexjob.DuplicateJobError{
		IdempotencyKey: n.IdempotencyKey, ExistingJobID: id, ExistingState: state,
		Policy: n.DuplicatePolicy, RecordGone: gone,
	}
}

// claim: a key has at most one job that can be claimed, and a claim must find it.
func (k modelKey) claim(r reply) (bool, modelKey) {
	i := slices.IndexFunc(k.jobs, func(j modelJob) bool { return j.state == nexjob.Enqueued })
	if i < 0 || r.id.IsZero() {
		return r.id.IsZero() && (i < 0 || r.passes), k
	}
	j := k.jobs[i]
	ok := r.id == j.id && r.fence > k.fence
	j.state, j.fence, j.started = nexjob.Processing, r.fence, true
	k = k.with(j)
	k.fence = r.fence
	return ok, k
}

func (k modelKey) settle(c call, r reply) (bool, modelKey) {
	i := k.index(c.id)
	if i < 0 {
		return r.lost, k
	}
	j := k.jobs[i]
	if j.state != nexjob.Processing || j.fence != c.fence {
		if strings.Contains(j.settled, c.mark()) {
			return r.lost || r.state == j.state, k // told again, or over
		}
		return r.lost, k
	}
	switch {
	case c.as == nexjob.EndSucceeded:
		j.state = nexjob.Succeeded
	case j.stop || c.as == nexjob.EndCancelled:
		j.state = nexjob.Cancelled
	case c.as == nexjob.EndFailed:
		j.state = nexjob.Failed
	default: // EndRetry, due at once
		j.state = nexjob.Enqueued
	}
	j.settled += c.mark()
	if j.state.Terminal() {
		j.stop = false
	}
	return !r.lost && r.state == j.state, k.ended(j)
}

// ended stores a job that may have ended: then the life of its key is counted.
func (k modelKey) ended(j modelJob) modelKey {
	if j.state.Terminal() && k.held && k.row.Job == j.id && j.keep {
		k.row.Until = someTime()
	}
	return k.with(j)
}

func (k modelKey) amend(c call, r reply) (bool, modelKey) {
	i := k.index(c.id)
	if i < 0 {
		return !r.found, k
	}
	if !r.found {
		return false, k
	}
	j, last := k.jobs[i], k.held && k.row.Job == c.id
	switch c.act { //nolint:exhaustive // a history makes no other acts
	case nexjob.ActCancel:
		return k.cancel(j, r)
	case nexjob.ActRequeue:
		return k.requeue(c.key, j, last, r)
	case nexjob.ActDelete:
		if j.state == nexjob.Processing {
			return !r.done, k
		}
		k = k.without(i)
		if last {
			k = k.freed()
		}
		return r.done && r.state == 0, k
	case nexjob.ActPurge:
		if !j.state.Terminal() {
			return !r.done, k
		}
		k = k.without(i)
		switch {
		case last && j.keep:
			k.row.Ended = j.state
		case last:
			k = k.freed()
		}
		return r.done && r.state == 0, k
	case nexjob.ActClearKey:
		if !last || !j.state.Terminal() {
			return !r.done, k
		}
		again := k.row.Cleared
		k.row.Cleared = true
		return r.done || again, k
	}
	return false, k
}

func (k modelKey) cancel(j modelJob, r reply) (bool, modelKey) {
	switch j.state { //nolint:exhaustive // a history reaches no other states
	case nexjob.Enqueued:
		j.state = nexjob.Cancelled
		return r.done && r.state == nexjob.Cancelled, k.ended(j)
	case nexjob.Processing:
		j.stop = true
		return r.done && r.state == nexjob.Processing, k.with(j)
	}
	return r.state == j.state, k // ended before: nothing to do, done or refused
}

// requeue: the key's last job, and where nobody holds the key any ended one may.
func (k modelKey) requeue(key string, j modelJob, last bool, r reply) (bool, modelKey) {
	if !j.state.Terminal() || k.held && !last {
		return !r.done, k
	}
	if !r.done {
		return !k.held, k
	}
	j.state, j.started, j.stop = nexjob.Enqueued, false, false
	k = k.with(j)
	k.held = true
	k.row = nexjob.KeyRow{Key: key, Job: j.id, Kind: charge, Fingerprint: j.args, Operation: j.operation}
	return r.state == nexjob.Enqueued, k
}

func describe(c call, r reply) string {
	var s strings.Builder
	switch c.verb {
	case enqueues:
		fmt.Fprintf(&s, "enqueue %s under %s, %s", short(c.job.ID), c.job.DuplicatePolicy, c.job.WhileActive)
		fmt.Fprintf(&s, " → %s %s (%s) of %s", r.answer.Outcome, short(r.answer.ID), r.answer.State, short(r.answer.Operation))
		if r.answer.Err != nil {
			fmt.Fprintf(&s, ": %v", r.answer.Err)
		}
	case claims:
		fmt.Fprintf(&s, "claim → %s fence %d", short(r.id), r.fence)
	case settles:
		fmt.Fprintf(&s, "settle %s fence %d as %s → %s, lost: %v", short(c.id), c.fence, c.as, r.state, r.lost)
	case amends:
		fmt.Fprintf(&s, "%s %s → found: %v, done: %v, %s", c.act, short(c.id), r.found, r.done, r.state)
	case finds:
		s.WriteString("find →")
		for _, j := range r.jobs {
			fmt.Fprintf(&s, " %s %s", short(j.id), j.state)
		}
	case looksUpKey:
		fmt.Fprintf(&s, "key → job %s of %s, cleared: %v, ended %s", short(r.row.Job), short(r.row.Operation), r.row.Cleared, r.row.Ended)
	}
	return s.String()
}

// short is the end of an ID, which tells jobs of one history apart.
func short(id nexjob.ID) string { return id.String()[28:] }
