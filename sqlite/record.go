package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// none is the stamp of a time that is not there.
const none stamp = math.MinInt64

// stamp is a time in microseconds that can be compared.
type stamp int64

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return none
	}
	return stamp(t.UnixMicro())
}

func (s stamp) arg() any {
	if s == none {
		return nil
	}
	return int64(s)
}

// row is what nexjob_jobs holds of a job. Two rows can be compared, so that an
// update writes what changed and leaves the indexes of the rest alone.
type row struct {
	id                                  nexjob.ID
	kind, queue                         string
	priority, state                     int64
	key                                 string
	operation                           nexjob.ID
	fingerprint                         nexjob.Fingerprint
	enqueuedAt, dueAt, deadline         stamp
	startedAt, endedAt                  stamp
	delay, timeout, keepKeyFor          time.Duration
	maxAttempts, tries, crashes         int64
	interruptions, snoozes, lookups     int64
	fence                               int64
	worker                              string
	leaseUntil                          stamp
	leaseFor                            time.Duration
	started, replaced, stop             bool
	stopReason                          string
	wished                              int64
	openEffects, receipts, receiptBytes int64
	reason, followers                   string
	settledFence, settledAs             int64
	attempts, parents, results          int64
}

func rowOf(j *nexjob.Job) (row, error) {
	r := row{
		id: j.ID, kind: j.Kind, queue: j.Queue, priority: int64(j.Priority), state: int64(j.State),
		key: j.Key, operation: j.Operation, fingerprint: j.Fingerprint,
		enqueuedAt: stampOf(j.EnqueuedAt), dueAt: stampOf(j.DueAt), deadline: stampOf(j.Deadline),
		startedAt: stampOf(j.StartedAt), endedAt: stampOf(j.EndedAt),
		delay: j.Delay, timeout: j.Timeout, keepKeyFor: j.KeepKeyFor,
		maxAttempts: int64(j.MaxAttempts), tries: int64(j.Tries), crashes: int64(j.Crashes),
		interruptions: int64(j.Interruptions), snoozes: int64(j.Snoozes), lookups: int64(j.Lookups),
		fence: j.Fence, worker: j.Worker, leaseUntil: stampOf(j.LeaseUntil), leaseFor: j.LeaseFor,
		started: j.Started, replaced: j.Replaced, stop: j.Stop, stopReason: j.StopReason,
		wished: int64(j.Wished), openEffects: int64(j.OpenEffects), receipts: int64(j.ReceiptCount),
		receiptBytes: int64(j.ReceiptBytes), reason: j.Reason,
		settledFence: j.SettledFence, settledAs: int64(j.SettledAs),
		attempts: int64(len(j.Attempts)), parents: int64(len(j.Parents)),
	}
	if len(j.Result) > 0 {
		r.results = 1
	}
	if len(j.Followers) > 0 {
		text, err := json.Marshal(j.Followers)
		if err != nil {
			return row{}, fmt.Errorf("followers of job %s: %w", j.ID, err)
		}
		r.followers = string(text)
	}
	return r, nil
}

// args are the columns of {job}, in order.
func (r *row) args() []any {
	var key, operation any
	if r.key != "" {
		key = []byte(r.key)
	}
	if r.operation != r.id {
		operation = r.operation[:]
	}
	return []any{
		r.id[:], r.kind, r.queue, r.priority, r.state, key, operation, r.fingerprint[:],
		r.enqueuedAt.arg(), r.dueAt.arg(), r.deadline.arg(), r.startedAt.arg(), r.endedAt.arg(),
		int64(r.delay), int64(r.timeout), int64(r.keepKeyFor), r.maxAttempts, r.tries, r.crashes,
		r.interruptions, r.snoozes, r.lookups, r.fence, r.worker, r.leaseUntil.arg(), int64(r.leaseFor),
		flag(r.started), flag(r.replaced), flag(r.stop), r.stopReason, r.wished, r.openEffects, r.receipts,
		r.receiptBytes, r.reason, r.followers, r.settledFence, r.settledAs, r.attempts, r.parents, r.results,
	}
}

// add is what "add job" writes of a new job, and the row that it makes.
func (r *row) add() (args []any, made row) {
	all := r.args()
	args = append(args, all[:11]...)
	args = append(args, all[13:17]...)
	args = append(args, r.parents)
	return args, row{
		id: r.id, kind: r.kind, queue: r.queue, priority: r.priority, state: r.state,
		key: r.key, operation: r.operation, fingerprint: r.fingerprint,
		enqueuedAt: r.enqueuedAt, dueAt: r.dueAt, deadline: r.deadline, startedAt: none, endedAt: none,
		delay: r.delay, timeout: r.timeout, keepKeyFor: r.keepKeyFor, maxAttempts: r.maxAttempts,
		leaseUntil: none, parents: r.parents,
	}
}

// update chooses the statement that turns was into r, "" when nothing changed, with
// its arguments.
func (r *row) update(was row) (name string, args []any) {
	if was == *r {
		return "", nil
	}
	renewed := was
	renewed.leaseUntil, renewed.leaseFor = r.leaseUntil, r.leaseFor
	if renewed == *r {
		return "renew job", []any{r.leaseUntil.arg(), int64(r.leaseFor), r.id[:]}
	}
	leased := renewed
	leased.state, leased.fence, leased.worker = r.state, r.fence, r.worker
	leased.startedAt, leased.started = r.startedAt, r.started
	if leased == *r {
		return "lease job", []any{
			r.state, r.fence, r.worker, r.startedAt.arg(), r.leaseUntil.arg(), int64(r.leaseFor),
			flag(r.started), r.id[:],
		}
	}
	counted := was
	counted.openEffects, counted.receipts, counted.receiptBytes = r.openEffects, r.receipts, r.receiptBytes
	if counted == *r {
		return "count receipts", []any{r.openEffects, r.receipts, r.receiptBytes, r.id[:]}
	}
	moved := renewed
	moved.state, moved.dueAt, moved.endedAt = r.state, r.dueAt, r.endedAt
	moved.tries, moved.crashes, moved.interruptions = r.tries, r.crashes, r.interruptions
	moved.snoozes, moved.lookups = r.snoozes, r.lookups
	moved.stop, moved.stopReason, moved.wished, moved.reason = r.stop, r.stopReason, r.wished, r.reason
	moved.followers, moved.settledFence, moved.settledAs = r.followers, r.settledFence, r.settledAs
	moved.attempts, moved.results = r.attempts, r.results
	if moved == *r {
		return "move job on", []any{
			r.state, r.dueAt.arg(), r.endedAt.arg(), r.tries, r.crashes, r.interruptions, r.snoozes, r.lookups,
			r.leaseUntil.arg(), int64(r.leaseFor), flag(r.stop), r.stopReason, r.wished, r.reason, r.followers,
			r.settledFence, r.settledAs, r.attempts, r.results, r.id[:],
		}
	}
	return "change job", append(r.args()[1:], r.id[:])
}

// extras counts the rows of other tables that belong to a job.
type extras struct{ attempts, parents, results int }

// job reads the columns of {job}.
func (v values) job() (nexjob.Job, extras, error) {
	j := nexjob.Job{
		ID: v.id(0), Kind: v.text(1), Queue: v.text(2),
		Priority: nexjob.Priority(v.int64(3)), //nolint:gosec // written from a Priority
		State:    nexjob.State(v.int64(4)),    //nolint:gosec // written from a State
		Key:      v.text(5), Operation: v.id(6), Fingerprint: v.fingerprint(7),
		EnqueuedAt: v.time(8), DueAt: v.time(9), Deadline: v.time(10), StartedAt: v.time(11), EndedAt: v.time(12),
		Delay: v.duration(13), Timeout: v.duration(14), KeepKeyFor: v.duration(15),
		MaxAttempts: v.int(16), Tries: v.int(17), Crashes: v.int(18),
		Interruptions: v.int(19), Snoozes: v.int(20), Lookups: v.int(21),
		Fence: v.int64(22), Worker: v.text(23), LeaseUntil: v.time(24), LeaseFor: v.duration(25),
		Started: v.bool(26), Replaced: v.bool(27), Stop: v.bool(28), StopReason: v.text(29),
		Wished:      nexjob.State(v.int64(30)), //nolint:gosec // written from a State
		OpenEffects: v.int(31), ReceiptCount: v.int(32), ReceiptBytes: v.int(33), Reason: v.text(34),
		SettledFence: v.int64(36), SettledAs: nexjob.Ending(v.int64(37)), //nolint:gosec // written from an Ending
	}
	if j.Operation.IsZero() {
		j.Operation = j.ID
	}
	if err := v.decode(35, &j.Followers); err != nil {
		return j, extras{}, fmt.Errorf("followers of job %s: %w", j.ID, err)
	}
	return j, extras{v.int(38), v.int(39), v.int(40)}, nil
}

// bodyArgs are the columns of a job's body.
func bodyArgs(j *nexjob.Job) ([]any, error) {
	args := []any{blob(j.Args), nil, nil}
	for i, list := range []struct {
		size int
		of   any
	}{{len(j.Tags), j.Tags}, {len(j.Meta), j.Meta}} {
		if list.size == 0 {
			continue
		}
		text, err := json.Marshal(list.of)
		if err != nil {
			return nil, fmt.Errorf("body of job %s: %w", j.ID, err)
		}
		args[i+1] = string(text)
	}
	return args, nil
}

// The two changes that most jobs go through, being leased and ending well, are
// written for many jobs at once. Each is recognised by what changed: a job that
// differs in anything else is written by itself.

// change is the write of a job that is stored, with its rows.
type change struct {
	write   *onewriter.JobWrite
	was, is row
}

// leaseAs is what jobs leased by one statement share.
type leaseAs struct {
	worker           string
	startedAt, until stamp
	leaseNs          int64
}

// leased reports whether a job was leased and nothing else.
func (c *change) leased() (leaseAs, bool) {
	next := c.was
	next.state, next.fence, next.worker = int64(nexjob.Processing), c.is.fence, c.is.worker
	next.startedAt, next.leaseUntil, next.leaseFor = c.is.startedAt, c.is.leaseUntil, c.is.leaseFor
	next.started = true
	return leaseAs{c.is.worker, c.is.startedAt, c.is.leaseUntil, int64(c.is.leaseFor)},
		next == c.is && len(c.write.Job.Attempts) == len(c.write.Was.Attempts) && !c.write.Body
}

// endedWell reports whether an attempt succeeded, at a time, and nothing else.
func (c *change) endedWell() (stamp, bool) {
	next := c.was
	next.state, next.dueAt, next.endedAt = int64(nexjob.Succeeded), none, c.is.endedAt
	next.leaseUntil, next.leaseFor = none, 0
	next.stop, next.stopReason, next.wished, next.reason = false, "", 0, ""
	next.settledFence, next.settledAs = c.was.fence, int64(nexjob.EndSucceeded)
	next.attempts++
	if next != c.is || c.is.results > 0 || c.write.Body {
		return 0, false
	}
	last := c.write.Job.Attempts[len(c.write.Job.Attempts)-1]
	return c.is.endedAt, last.Fence == c.was.fence && last.Worker == c.was.worker && last.Error == "" &&
		stampOf(last.Started) == c.was.startedAt && stampOf(last.Ended) == c.is.endedAt &&
		last.Ending == nexjob.EndSucceeded
}

// writeBulk writes the changes that go together and returns the others.
func (r *rows) writeBulk(ctx context.Context, changes []change) (rest []*change, err error) {
	leases, ends := make(map[leaseAs][]*change), make(map[stamp][]*change)
	for i := range changes {
		c := &changes[i]
		if as, ok := c.leased(); ok {
			leases[as] = append(leases[as], c)
		} else if at, ok := c.endedWell(); ok {
			ends[at] = append(ends[at], c)
		} else {
			rest = append(rest, c)
		}
	}
	for as, group := range leases {
		slices.SortFunc(group, func(a, b *change) int { return cmp.Compare(a.is.fence, b.is.fence) })
		first, last := group[0].is.fence, group[len(group)-1].is.fence
		if last-first != int64(len(group))-1 || len(group) == 1 {
			rest = append(rest, group...)
			continue
		}
		if _, err := r.exec(ctx, "lease jobs", first, as.worker, as.startedAt.arg(), as.until.arg(), as.leaseNs,
			idsOf(group)); err != nil {
			return nil, err
		}
	}
	for at, group := range ends {
		ids := idsOf(group)
		for _, name := range []string{"add good attempts", "end jobs well"} {
			if _, err := r.exec(ctx, name, at.arg(), ids); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

func idsOf(changes []*change) string {
	ids := make([]nexjob.ID, len(changes))
	for i := range changes {
		ids[i] = changes[i].is.id
	}
	return hexIDs(ids)
}
