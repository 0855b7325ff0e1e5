package sqlite

import (
	"fmt"
	"math"
	"time"

	"github.com/nexjob/nexjob"
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

// row is what nexjob_jobs holds of a job but for its body. Two rows can be compared, so
// that an update writes what changed and leaves the indexes of the rest alone.
type row struct {
	id                                  nexjob.ID
	state                               int64
	kind, queue                         string
	priority                            int64
	key                                 string
	operation                           nexjob.ID
	fingerprint                         nexjob.Fingerprint
	enqueuedAt, dueAt, deadline         stamp
	timeout                             time.Duration
	maxAttempts, fence                  int64
	worker                              string
	startedAt, endedAt, leaseUntil      stamp
	leaseFor                            time.Duration
	flags                               int64
	tries, crashes, attempts            int64
	settledFence, settledAs             int64
	openEffects, receipts, receiptBytes int64
	reason, more                        string
}

// The flags of a row, as the migration tells them.
const (
	flagStarted int64 = 1 << iota
	flagReplaced
	flagStop
	flagResult
	flagApart
	flagTold
)

// rest is what few jobs have, in the column more.
type rest struct {
	Delay         time.Duration     `json:"delay_ns,omitempty"`
	KeepKeyFor    time.Duration     `json:"keep_key_ns,omitempty"`
	Interruptions int               `json:"interruptions,omitempty"`
	Snoozes       int               `json:"snoozes,omitempty"`
	Lookups       int               `json:"lookups,omitempty"`
	StopReason    string            `json:"stop_reason,omitempty"`
	Wished        nexjob.State      `json:"wished,omitempty"`
	Parents       int               `json:"parents,omitempty"` // rows in nexjob_parents
	Followers     []nexjob.Follower `json:"followers,omitempty"`
}

// restOf is the text of the column more: "" for most jobs.
func restOf(j *nexjob.Job) (string, error) {
	if j.Delay == 0 && j.KeepKeyFor == 0 && j.Interruptions == 0 && j.Snoozes == 0 && j.Lookups == 0 &&
		j.StopReason == "" && j.Wished == 0 && len(j.Parents) == 0 && len(j.Followers) == 0 {
		return "", nil
	}
	text, err := jsonText(rest{
		Delay: j.Delay, KeepKeyFor: j.KeepKeyFor, Interruptions: j.Interruptions, Snoozes: j.Snoozes,
		Lookups: j.Lookups, StopReason: j.StopReason, Wished: j.Wished, Parents: len(j.Parents),
		Followers: j.Followers,
	})
	if err != nil {
		return "", fmt.Errorf("job %s: %w", j.ID, err)
	}
	return text, nil
}

func rowOf(j *nexjob.Job, apart bool) (row, error) {
	r := row{
		id: j.ID, state: int64(j.State), kind: j.Kind, queue: j.Queue, priority: int64(j.Priority),
		key: j.Key, operation: j.Operation, fingerprint: j.Fingerprint,
		enqueuedAt: stampOf(j.EnqueuedAt), dueAt: stampOf(j.DueAt), deadline: stampOf(j.Deadline),
		timeout: j.Timeout, maxAttempts: int64(j.MaxAttempts), fence: j.Fence, worker: j.Worker,
		startedAt: stampOf(j.StartedAt), endedAt: stampOf(j.EndedAt),
		leaseUntil: stampOf(j.LeaseUntil), leaseFor: j.LeaseFor,
		tries: int64(j.Tries), crashes: int64(j.Crashes), attempts: int64(len(j.Attempts)),
		settledFence: j.SettledFence, settledAs: int64(j.SettledAs),
		openEffects: int64(j.OpenEffects), receipts: int64(j.ReceiptCount), receiptBytes: int64(j.ReceiptBytes),
		reason: j.Reason,
	}
	for _, f := range []struct {
		is   bool
		flag int64
	}{
		{j.Started, flagStarted},
		{j.Replaced, flagReplaced},
		{j.Stop, flagStop},
		{len(j.Result) > 0, flagResult},
		{apart, flagApart},
	} {
		if f.is {
			r.flags |= f.flag
		}
	}
	if toldByRow(j) {
		r.flags |= flagTold
		r.attempts--
	}
	var err error
	r.more, err = restOf(j)
	return r, err
}

// toldByRow reports whether the newest attempt of a job is told by the job's own row.
func toldByRow(j *nexjob.Job) bool {
	if j.State != nexjob.Succeeded || j.SettledAs != nexjob.EndSucceeded || len(j.Attempts) == 0 {
		return false
	}
	last, told := &j.Attempts[len(j.Attempts)-1], toldAttempt(j)
	return last.Fence == told.Fence && last.Worker == told.Worker && last.Ending == told.Ending &&
		last.Started.Equal(told.Started) && last.Ended.Equal(told.Ended) && last.Error == ""
}

// toldAttempt is the attempt that a job's row tells of.
func toldAttempt(j *nexjob.Job) nexjob.Attempt {
	return nexjob.Attempt{
		Fence: j.Fence, Worker: j.Worker, Started: j.StartedAt, Ended: j.EndedAt, Ending: nexjob.EndSucceeded,
	}
}

// names are the columns by which a job is found, as far as they may be none.
func (r *row) names() (key, operation any) {
	key = blob([]byte(r.key))
	if r.operation != r.id {
		operation = r.operation[:]
	}
	return key, operation
}

// shape is what new jobs may have in common, as far as "add job" writes it.
type shape struct {
	state                       int64
	kind, queue                 string
	priority                    int64
	operation                   nexjob.ID // zero: the job's own ID
	enqueuedAt, dueAt, deadline stamp
	timeout                     time.Duration
	maxAttempts, flags          int64
	more, tags, meta            string
}

func (r *row) shape(b *body) shape {
	s := shape{
		state: r.state, kind: r.kind, queue: r.queue, priority: r.priority, enqueuedAt: r.enqueuedAt,
		dueAt: r.dueAt, deadline: r.deadline, timeout: r.timeout, maxAttempts: r.maxAttempts,
		flags: r.flags, more: r.more, tags: b.tags, meta: b.meta,
	}
	if r.operation != r.id {
		s.operation = r.operation
	}
	return s
}

// args are the common values of "add job" for rows from seq on.
func (s *shape) args(seq int64) []any {
	var operation any
	if !s.operation.IsZero() {
		operation = s.operation[:]
	}
	return []any{
		seq, s.state, s.kind, s.queue, s.priority, operation, s.enqueuedAt.arg(), s.dueAt.arg(),
		s.deadline.arg(), int64(s.timeout), s.maxAttempts, s.flags, s.more, text(s.tags), text(s.meta),
	}
}

// appendOwn adds the values of "add job" that a job has for itself. Its args are handed in,
// for they may stand apart.
func appendOwn(values []any, j *nexjob.Job, args []byte) []any {
	return append(values, j.ID[:], blob([]byte(j.Key)), j.Fingerprint[:], blob(args))
}

// made is the row that "add job" makes.
func (r *row) made() row {
	return row{
		id: r.id, state: r.state, kind: r.kind, queue: r.queue, priority: r.priority,
		key: r.key, operation: r.operation, fingerprint: r.fingerprint,
		enqueuedAt: r.enqueuedAt, dueAt: r.dueAt, deadline: r.deadline, timeout: r.timeout,
		maxAttempts: r.maxAttempts, startedAt: none, endedAt: none, leaseUntil: none, flags: r.flags, more: r.more,
	}
}

// update chooses the statement that turns was into r, "" when nothing changed, with
// its arguments, the last of which is the row's place.
func (r *row) update(was row, seq int64) (name string, args []any) {
	if was == *r {
		return "", nil
	}
	renewed := was
	renewed.leaseUntil, renewed.leaseFor = r.leaseUntil, r.leaseFor
	if renewed == *r {
		return "renew job", []any{r.leaseUntil.arg(), int64(r.leaseFor), seq}
	}
	leased := renewed
	leased.state, leased.fence, leased.worker = r.state, r.fence, r.worker
	leased.startedAt, leased.flags = r.startedAt, r.flags
	if leased == *r {
		return "lease job", []any{
			r.state, r.fence, r.worker, r.startedAt.arg(), r.leaseUntil.arg(), int64(r.leaseFor), r.flags, seq,
		}
	}
	counted := was
	counted.openEffects, counted.receipts, counted.receiptBytes = r.openEffects, r.receipts, r.receiptBytes
	if counted == *r {
		return "count receipts", []any{r.openEffects, r.receipts, r.receiptBytes, seq}
	}
	moved := renewed
	moved.state, moved.dueAt, moved.endedAt, moved.flags = r.state, r.dueAt, r.endedAt, r.flags
	moved.tries, moved.crashes, moved.attempts = r.tries, r.crashes, r.attempts
	moved.settledFence, moved.settledAs = r.settledFence, r.settledAs
	moved.reason, moved.more = r.reason, r.more
	if moved == *r {
		return "move job on", []any{
			r.state, r.dueAt.arg(), r.endedAt.arg(), r.leaseUntil.arg(), int64(r.leaseFor), r.flags,
			r.tries, r.crashes, r.attempts, r.settledFence, r.settledAs, r.reason, r.more, seq,
		}
	}
	key, operation := r.names()
	return "change job", []any{
		r.state, r.kind, r.queue, r.priority, key, operation, r.fingerprint[:], r.enqueuedAt.arg(),
		r.dueAt.arg(), r.deadline.arg(), int64(r.timeout), r.maxAttempts, r.fence, r.worker,
		r.startedAt.arg(), r.endedAt.arg(), r.leaseUntil.arg(), int64(r.leaseFor), r.flags,
		r.tries, r.crashes, r.attempts, r.settledFence, r.settledAs, r.openEffects, r.receipts,
		r.receiptBytes, r.reason, r.more, seq,
	}
}

// stored is what a job's row says of where it stands and of other tables.
type stored struct {
	seq      int64
	flags    int64
	attempts int
	parents  int
}

// job reads the columns of {job} into a job.
func (v values) job(j *nexjob.Job) (stored, error) {
	s := stored{seq: v.int64(0), flags: v.int64(20), attempts: v.int(23)}
	*j = nexjob.Job{
		ID:    v.id(1),
		State: nexjob.State(v.int64(2)), //nolint:gosec // written from a State
		Kind:  v.text(3), Queue: v.text(4),
		Priority: nexjob.Priority(v.int64(5)), //nolint:gosec // written from a Priority
		Key:      v.text(6), Operation: v.id(7), Fingerprint: v.fingerprint(8),
		EnqueuedAt: v.time(9), DueAt: v.time(10), Deadline: v.time(11), Timeout: v.duration(12),
		MaxAttempts: v.int(13), Fence: v.int64(14), Worker: v.text(15), StartedAt: v.time(16), EndedAt: v.time(17),
		LeaseUntil: v.time(18), LeaseFor: v.duration(19),
		Started: s.flags&flagStarted != 0, Replaced: s.flags&flagReplaced != 0, Stop: s.flags&flagStop != 0,
		Tries: v.int(21), Crashes: v.int(22),
		SettledFence: v.int64(24), SettledAs: nexjob.Ending(v.int64(25)), //nolint:gosec // written from an Ending
		OpenEffects: v.int(26), ReceiptCount: v.int(27), ReceiptBytes: v.int(28), Reason: v.text(29),
		Args: v.bytes(31),
	}
	if j.Operation.IsZero() {
		j.Operation = j.ID
	}
	if err := v.tagsAndMeta(32, j); err != nil || v.empty(30) {
		return s, err
	}
	var more rest
	if err := v.decode(30, &more); err != nil {
		return s, fmt.Errorf("column more of job %s: %w", j.ID, err)
	}
	j.Delay, j.KeepKeyFor = more.Delay, more.KeepKeyFor
	j.Interruptions, j.Snoozes, j.Lookups = more.Interruptions, more.Snoozes, more.Lookups
	j.StopReason, j.Wished, j.Followers = more.StopReason, more.Wished, more.Followers
	s.parents = more.Parents
	return s, nil
}

// fresh is a job of which {due} says that it is fresh.
func (v values) fresh(queue string, priority int64) nexjob.Job {
	id := v.id(1)
	return nexjob.Job{
		ID: id, Operation: id, State: nexjob.Enqueued, Kind: v.text(2), Queue: queue,
		Priority: nexjob.Priority(priority), //nolint:gosec // written from a Priority
		Key:      v.text(3), Fingerprint: v.fingerprint(4), EnqueuedAt: v.time(5), DueAt: v.time(6),
		Timeout: v.duration(7), MaxAttempts: v.int(8), Args: v.bytes(9),
	}
}

// inlineBody is up to how many bytes a body stands in the job's own row. Every change
// of a job rewrites its row, so a larger one would be written again and again.
const inlineBody = 512

// body is what an enqueue chose, as it is written: tags and meta are JSON, "" for none.
type body struct {
	args       []byte
	tags, meta string
}

// columns are the columns of a body.
func (b *body) columns() []any { return []any{blob(b.args), text(b.tags), text(b.meta)} }

// bodyOf returns a job's body, and whether it is too large for the row.
func bodyOf(j *nexjob.Job) (b body, apart bool, err error) {
	b.args = j.Args
	if len(j.Tags) > 0 {
		b.tags, err = jsonText(j.Tags)
	}
	if err == nil && len(j.Meta) > 0 {
		b.meta, err = jsonText(j.Meta)
	}
	if err != nil {
		return body{}, false, fmt.Errorf("body of job %s: %w", j.ID, err)
	}
	return b, len(b.args)+len(b.tags)+len(b.meta) > inlineBody, nil
}

// tagsAndMeta reads the columns of a body behind its args.
func (v values) tagsAndMeta(at int, j *nexjob.Job) error {
	if err := v.decode(at, &j.Tags); err != nil {
		return fmt.Errorf("tags of job %s: %w", j.ID, err)
	}
	if err := v.decode(at+1, &j.Meta); err != nil {
		return fmt.Errorf("meta of job %s: %w", j.ID, err)
	}
	return nil
}
