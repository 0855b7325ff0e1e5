package postgres

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// errRaced says that a job of the same ID was added by somebody else in the meantime:
// the step is to be done again, and then finds it.
var errRaced = errors.New("the job was added by somebody else in the meantime")

// record is a job's row as the statements that write jobs take it; absent means NULL.
type record struct {
	ID           string          `json:"id"`
	EnqueuedAt   int64           `json:"enqueued_at,omitempty"`
	Key          string          `json:"key,omitempty"`
	Flags        int64           `json:"flags"`
	Args         string          `json:"args,omitempty"`
	Result       string          `json:"result,omitempty"`
	Tags         json.RawMessage `json:"tags,omitempty"`
	Meta         string          `json:"meta,omitempty"`
	Body         bool            `json:"body"`
	Ended        bool            `json:"ended"` // the result changed
	Operation    string          `json:"operation,omitempty"`
	DueAt        int64           `json:"due_at,omitempty"`
	Deadline     int64           `json:"deadline,omitempty"`
	Timeout      time.Duration   `json:"timeout_ns,omitempty"`
	KeepKeyFor   time.Duration   `json:"keep_key_ns,omitempty"`
	MaxAttempts  int             `json:"max_attempts"`
	Fence        int64           `json:"fence,omitempty"`
	Worker       string          `json:"worker,omitempty"`
	StartedAt    int64           `json:"started_at,omitempty"`
	EndedAt      int64           `json:"ended_at,omitempty"`
	LeaseUntil   int64           `json:"lease_until,omitempty"`
	LeaseFor     time.Duration   `json:"lease_ns,omitempty"`
	Tries        int             `json:"tries,omitempty"`
	Crashes      int             `json:"crashes,omitempty"`
	Attempts     int             `json:"attempts,omitempty"`
	OpenEffects  int             `json:"open_effects,omitempty"`
	Receipts     int             `json:"receipts,omitempty"`
	ReceiptBytes int             `json:"receipt_bytes,omitempty"`
	State        uint8           `json:"state"`
	Priority     uint8           `json:"priority"`
	SettledFence int64           `json:"settled_fence,omitempty"`
	SettledAs    uint8           `json:"settled_as,omitempty"`
	Wished       uint8           `json:"wished,omitempty"`
	Kind         string          `json:"kind"`
	Queue        string          `json:"queue"`
	Fingerprint  string          `json:"fingerprint"`
	Reason       string          `json:"reason,omitempty"`
	More         string          `json:"more,omitempty"`
}

// stamp is a time in a record: 0 for none. No time that is stored is 1970 itself.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func recordOf(j *nexjob.Job) (record, error) {
	more, err := restOf(j)
	r := record{
		ID: j.ID.String(), EnqueuedAt: stamp(j.EnqueuedAt), Key: hex.EncodeToString([]byte(j.Key)), Flags: flagsOf(j),
		DueAt: stamp(j.DueAt), Deadline: stamp(j.Deadline), Timeout: j.Timeout, KeepKeyFor: j.KeepKeyFor,
		MaxAttempts: j.MaxAttempts, Fence: j.Fence, Worker: j.Worker, StartedAt: stamp(j.StartedAt),
		EndedAt: stamp(j.EndedAt), LeaseUntil: stamp(j.LeaseUntil), LeaseFor: j.LeaseFor, Tries: j.Tries,
		Crashes: j.Crashes, Attempts: len(j.Attempts), OpenEffects: j.OpenEffects, Receipts: j.ReceiptCount,
		ReceiptBytes: j.ReceiptBytes, State: uint8(j.State), Priority: uint8(j.Priority), SettledFence: j.SettledFence,
		SettledAs: uint8(j.SettledAs), Wished: uint8(j.Wished), Kind: j.Kind, Queue: j.Queue,
		Fingerprint: hex.EncodeToString(j.Fingerprint[:]), Reason: j.Reason, More: more,
	}
	if r.Flags&flagTold != 0 {
		r.Attempts--
	}
	if j.Operation != j.ID {
		r.Operation = j.Operation.String()
	}
	return r, err
}

// body fills in what an enqueue chose.
func (r *record) body(j *nexjob.Job) error {
	r.Body, r.Args = true, hex.EncodeToString(j.Args)
	var err error
	if len(j.Tags) > 0 {
		r.Tags, err = json.Marshal(j.Tags)
	}
	if err == nil && len(j.Meta) > 0 {
		var meta []byte
		meta, err = json.Marshal(j.Meta)
		r.Meta = string(meta)
	}
	if err != nil {
		return fmt.Errorf("body of job %s: %w", j.ID, err)
	}
	return nil
}

// WriteJobs writes changed records: what frees a key before what takes it, so that no
// moment has two active jobs under one key.
func (r *rows) WriteJobs(ctx context.Context, writes []onewriter.JobWrite) error {
	var gone []nexjob.ID
	var ended, moved, added []record
	var more extras
	for i := range writes {
		w := &writes[i]
		if w.Gone {
			gone = append(gone, w.Job.ID)
			continue
		}
		is, err := recordOf(w.Job)
		if err != nil {
			return err
		}
		was := w.Was
		if was == nil {
			was = &nexjob.Job{}
		}
		if is.Ended = !bytes.Equal(was.Result, w.Job.Result); is.Ended {
			is.Result = hex.EncodeToString(w.Job.Result)
		}
		if w.Body || w.Was == nil {
			if err := is.body(w.Job); err != nil {
				return err
			}
		}
		switch {
		case w.Was == nil:
			added = append(added, is)
			r.keys.name(w.Job.Key, w.Job.ID)
		case w.Job.State.Terminal():
			ended = append(ended, is)
		default:
			moved = append(moved, is)
		}
		more.compare(was, w.Job)
	}
	if err := r.dropJobs(ctx, gone); err != nil {
		return err
	}
	for _, changed := range [][]record{ended, moved} {
		if err := r.put(ctx, "change jobs", changed, "is not stored any more"); err != nil {
			return err
		}
	}
	if err := r.put(ctx, "add jobs", added, ""); err != nil {
		return err
	}
	return more.write(ctx, r)
}

// put writes records, and sees that each of them was.
func (r *rows) put(ctx context.Context, name string, records []record, missing string) error {
	if len(records) == 0 {
		return nil
	}
	text, err := json.Marshal(records)
	if err != nil {
		return err
	}
	n := 0
	_, err = r.run(ctx, name, func(wire.Row) error {
		n++
		return nil
	}, wire.Text(string(text)))
	switch {
	case err != nil || n == len(records):
		return err
	case missing == "":
		return errRaced
	}
	return fmt.Errorf("%s: a job of %d %s", name, len(records), missing)
}

func (r *rows) dropJobs(ctx context.Context, gone []nexjob.ID) error {
	if len(gone) == 0 {
		return nil
	}
	ids := idList(gone)
	for _, name := range []string{"drop attempts", "drop parents", "drop jobs"} {
		if err := r.exec(ctx, name, ids); err != nil {
			return err
		}
	}
	return nil
}

// extras is what changed of jobs in other tables.
type extras struct {
	added              []placedAttempt
	dropped, droppedTo []placedAttempt
	parents, decided   []placedParent
}

type placedAttempt struct {
	job     nexjob.ID
	attempt nexjob.Attempt
}

type placedParent struct {
	child nexjob.ID
	place int
	is    nexjob.Parent
}

// compare notes what differs between what is stored of a job and what it is now: attempts
// are added at the end and cut at the beginning, and parents are decided. An attempt that
// the job's row tells of has no row of its own until another follows it.
func (e *extras) compare(was, is *nexjob.Job) {
	had, has := was.Attempts, is.Attempts
	wasTold, isTold := toldByRow(was), toldByRow(is)
	if wasTold {
		had = had[:len(had)-1]
	}
	if isTold {
		has = has[:len(has)-1]
	}
	if isTold && !wasTold && newest(had) == is.Fence { // a verdict let it stand
		e.dropped = append(e.dropped, placedAttempt{is.ID, nexjob.Attempt{Fence: is.Fence}})
		had = had[:len(had)-1]
	}
	if len(had) > 0 && len(has) > 0 && has[0].Fence > had[0].Fence {
		e.droppedTo = append(e.droppedTo, placedAttempt{is.ID, nexjob.Attempt{Fence: has[0].Fence}})
	}
	for last := newest(had); len(has) > 0; has = has[1:] {
		if has[0].Fence > last {
			e.added = append(e.added, placedAttempt{is.ID, has[0]})
		}
	}
	for i, p := range is.Parents {
		if i >= len(was.Parents) {
			e.parents = append(e.parents, placedParent{is.ID, i, p})
		} else if p.Decided != was.Parents[i].Decided {
			e.decided = append(e.decided, placedParent{is.ID, i, p})
		}
	}
}

// newest is the fence of the newest attempt, -1 when there is none.
func newest(attempts []nexjob.Attempt) int64 {
	if len(attempts) == 0 {
		return -1
	}
	return attempts[len(attempts)-1].Fence
}

func (e *extras) write(ctx context.Context, r *rows) error {
	for name, dropped := range map[string][]placedAttempt{"drop attempt": e.dropped, "drop old attempts": e.droppedTo} {
		if len(dropped) == 0 {
			continue
		}
		ids, fences := wire.UUIDs(len(dropped)), wire.Bigints(len(dropped))
		for _, d := range dropped {
			ids.Bytes(d.job[:])
			fences.Int(d.attempt.Fence)
		}
		if err := r.exec(ctx, name, ids.Arg(), fences.Arg()); err != nil {
			return err
		}
	}
	if err := r.addAttempts(ctx, e.added); err != nil {
		return err
	}
	if err := r.addParents(ctx, e.parents); err != nil {
		return err
	}
	return r.decideParents(ctx, e.decided)
}

func (r *rows) addAttempts(ctx context.Context, added []placedAttempt) error {
	n := len(added)
	if n == 0 {
		return nil
	}
	ids, fences, workers, started := wire.UUIDs(n), wire.Bigints(n), wire.Texts(n, 16), wire.Bigints(n)
	ended, endings, errs := wire.Bigints(n), wire.Smallints(n), wire.Texts(n, 40)
	for i := range added {
		a := &added[i].attempt
		ids.Bytes(added[i].job[:])
		fences.Int(a.Fence)
		workers.TextOrNull(a.Worker)
		started.IntOrNull(stamp(a.Started))
		ended.IntOrNull(stamp(a.Ended))
		endings.Int(int64(a.Ending))
		errs.TextOrNull(a.Error)
	}
	return r.exec(ctx, "add attempts", ids.Arg(), fences.Arg(), workers.Arg(), started.Arg(), ended.Arg(),
		endings.Arg(), errs.Arg())
}

// addParents adds links to parents, which are locked, and marks those.
func (r *rows) addParents(ctx context.Context, added []placedParent) error {
	n := len(added)
	if n == 0 {
		return nil
	}
	children, places, parents := wire.UUIDs(n), wire.Bigints(n), wire.UUIDs(n)
	rulings, decided := wire.Smallints(n), wire.Smallints(n)
	for i := range added {
		p := &added[i]
		children.Bytes(p.child[:])
		places.Int(int64(p.place))
		parents.Bytes(p.is.ID[:])
		rulings.Int(int64(p.is.Rule))
		decided.Int(bit(p.is.Decided))
		r.note(p.is.ID, r.seen[p.is.ID]|flagFamily)
	}
	if err := r.exec(ctx, "add parents", children.Arg(), places.Arg(), parents.Arg(), rulings.Arg(), decided.Arg()); err != nil {
		return err
	}
	return r.exec(ctx, "mark parents", parents.Arg())
}

func (r *rows) decideParents(ctx context.Context, changed []placedParent) error {
	n := len(changed)
	if n == 0 {
		return nil
	}
	children, places, decided := wire.UUIDs(n), wire.Bigints(n), wire.Smallints(n)
	for i := range changed {
		children.Bytes(changed[i].child[:])
		places.Int(int64(changed[i].place))
		decided.Int(bit(changed[i].is.Decided))
	}
	return r.exec(ctx, "decide parents", children.Arg(), places.Arg(), decided.Arg())
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
