package nexjob

import (
	"context"
	"slices"
	"time"
)

// explainedJobs bounds how many of a key's jobs an explanation shows.
const explainedJobs = 50

// Explanation says who holds an idempotency key and why, what happened under it, and
// what an enqueue would do now. It holds no args and no results. It is read in
// several steps, so what changes meanwhile may show in one part and not in another.
type Explanation struct {
	Key       string        `json:"key"`
	At        time.Time     `json:"at"`       // the storage's time
	Sentence  string        `json:"sentence"` // the cause and the remedy, for people
	Holder    *KeyHolder    `json:"holder"`   // null: nobody holds the key
	Next      []NextEnqueue `json:"next"`     // what an enqueue would do, per policy
	Jobs      []KeyJob      `json:"jobs"`     // with this key whose record is kept, newest first
	MoreJobs  bool          `json:"more_jobs,omitempty"`
	Decisions KeyDecisions  `json:"decisions"`
}

// KeyHolder is the last job of a key that holds it: because it is active, or because
// the key lives on after its end.
type KeyHolder struct {
	Job        ID        `json:"job"`
	Kind       string    `json:"kind"`
	Operation  ID        `json:"operation"`
	State      State     `json:"state"`
	Active     bool      `json:"active"`
	Since      time.Time `json:"since,omitzero"` // it was enqueued; zero when the record is gone
	Ended      time.Time `json:"ended_at,omitzero"`
	Until      time.Time `json:"until,omitzero"` // the key's life ends; zero: with the job's record
	Cleared    bool      `json:"cleared,omitempty"`
	RecordGone bool      `json:"record_gone,omitempty"`
}

// NextEnqueue is what an enqueue of the holder's kind under one policy would do now.
type NextEnqueue struct {
	Policy DuplicatePolicy `json:"policy"`
	Ruling Ruling          `json:"ruling"`
	// Continues says that the new job would continue the last job's operation:
	// effects confirmed there are not repeated.
	Continues bool `json:"continues,omitempty"`
}

// KeyJob is one job of the key.
type KeyJob struct {
	ID            ID           `json:"id"`
	Kind          string       `json:"kind"`
	Operation     ID           `json:"operation"`
	State         State        `json:"state"`
	Reason        string       `json:"reason,omitempty"`
	EnqueuedAt    time.Time    `json:"enqueued_at"`
	DueAt         time.Time    `json:"due_at,omitzero"`
	EndedAt       time.Time    `json:"ended_at,omitzero"`
	Tries         int          `json:"tries"`
	MaxAttempts   int          `json:"max_attempts"`
	Crashes       int          `json:"crashes,omitempty"`
	Interruptions int          `json:"interruptions,omitempty"`
	Attempts      []KeyAttempt `json:"attempts,omitempty"` // ended ones, oldest first
	Effects       []KeyEffect  `json:"effects,omitempty"`  // of its operation
}

// KeyAttempt is an Attempt under the names that people and programs read.
type KeyAttempt struct {
	Fence   int64     `json:"fence"`
	Worker  string    `json:"worker,omitempty"`
	Started time.Time `json:"started_at"`
	Ended   time.Time `json:"ended_at"`
	Ending  Ending    `json:"ending"`
	Error   string    `json:"error,omitempty"`
}

// KeyEffect is one outside effect with its certainty.
type KeyEffect struct {
	Name       string      `json:"name"`
	Item       string      `json:"item,omitempty"`
	State      EffectState `json:"state"`
	Certainty  string      `json:"certainty"` // what is known of it, in plain words
	OutsideKey string      `json:"outside_key"`
	FirstSent  time.Time   `json:"first_sent,omitzero"`
	SendBefore time.Time   `json:"send_before,omitzero"`
	At         time.Time   `json:"at"` // of its newest change
	By         string      `json:"by,omitempty"`
	Error      string      `json:"error,omitempty"`
}

// Explain answers "why was this not done, or done twice?" for one key: who holds it,
// since when and until when, its jobs with tries, errors and effects, the last
// decisions, and what an enqueue would do now. It never writes. A key that was never
// used is explained too.
func (c *Client) Explain(ctx context.Context, key string) (Explanation, error) {
	if err := ValidateKey(key); err != nil {
		return Explanation{}, err
	}
	var facts keyFacts
	err := c.do(ctx, "explain", func(now time.Time) (err error) {
		facts, err = c.gather(ctx, now, key)
		return err
	})
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Key: key, At: facts.now, Sentence: facts.sentence(), Holder: facts.holder(), Next: facts.next(),
		Jobs: []KeyJob{}, MoreJobs: facts.more, Decisions: facts.decisions,
	}
	for i := range facts.jobs {
		e.Jobs = append(e.Jobs, facts.keyJob(&facts.jobs[i]))
	}
	return e, nil
}

// keyFacts is all that the storage knows of one key.
type keyFacts struct {
	key       string
	now       time.Time
	row       *KeyRow // nil: the key is free and has no row
	jobs      []Job   // newest first
	more      bool
	receipts  []Receipt // of the jobs' operations and the row's
	decisions KeyDecisions
}

func (c *Client) gather(ctx context.Context, now time.Time, key string) (keyFacts, error) {
	f := keyFacts{key: key, now: now}
	jobs, err := c.store.Find(ctx, now, Query{Key: key, NewestFirst: true, Limit: explainedJobs})
	if err != nil {
		return f, err
	}
	f.jobs, f.more = jobs.Jobs, jobs.Next != ""
	if err := c.gatherHolder(ctx, &f); err != nil {
		return f, err
	}
	var operations []ID
	if f.row != nil {
		operations = append(operations, f.row.Operation)
	}
	for i := range f.jobs {
		if !slices.Contains(operations, f.jobs[i].Operation) {
			operations = append(operations, f.jobs[i].Operation)
		}
	}
	for _, operation := range operations {
		// One page holds all that one operation can have.
		page, err := c.store.Find(ctx, now, Query{Of: Effects, Operations: []ID{operation}, Limit: MaxReceipts})
		if err != nil {
			return f, err
		}
		f.receipts = append(f.receipts, page.Effects...)
	}
	f.decisions, err = c.decisions.readDecisions(ctx, now, key)
	return f, err
}

// gatherHolder reads the key's row, and sees to it that the record of its last job is
// among the jobs: it need not be the newest, since a caller may make an ID long
// before the enqueue. A record that goes between two reads leaves another row, or
// none, so the row is then read again.
func (c *Client) gatherHolder(ctx context.Context, f *keyFacts) error {
	for range 2 {
		f.row = nil
		keys, err := c.store.Find(ctx, f.now, Query{Of: Keys, Key: f.key, Limit: 1})
		if err != nil || len(keys.Keys) == 0 {
			return err
		}
		f.row = &keys.Keys[0]
		if f.row.Ended != 0 || f.record() != nil {
			return nil
		}
		page, err := c.store.Find(ctx, f.now, Query{IDs: []ID{f.row.Job}, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			f.jobs = append(page.Jobs, f.jobs...)
			return nil
		}
	}
	f.row = nil
	return nil
}

// record returns the record of the key's last job, nil when it is gone.
func (f *keyFacts) record() *Job {
	if f.row == nil {
		return nil
	}
	for i := range f.jobs {
		if f.jobs[i].ID == f.row.Job {
			return &f.jobs[i]
		}
	}
	return nil
}

// over reports whether the key's life is over: then the key is as free as one
// without a row.
func (f *keyFacts) over() bool {
	return f.row != nil && !f.row.Until.IsZero() && !f.row.Until.After(f.now)
}

// last returns the state of the job that holds the key; zero: nobody does.
func (f *keyFacts) last() State {
	if f.row == nil || f.over() {
		return 0
	}
	if job := f.record(); job != nil {
		return job.ReportedState(f.now)
	}
	return f.row.Ended
}

func (f *keyFacts) holder() *KeyHolder {
	state := f.last()
	if state == 0 {
		return nil
	}
	h := &KeyHolder{
		Job: f.row.Job, Kind: f.row.Kind, Operation: f.row.Operation, State: state, Active: state.Active(),
		Until: f.row.Until, Cleared: f.row.Cleared, RecordGone: true,
	}
	if job := f.record(); job != nil {
		h.RecordGone, h.Since, h.Ended = false, job.EnqueuedAt, job.EndedAt
	}
	return h
}

func (f *keyFacts) next() []NextEnqueue {
	last := f.last()
	continues := last == Failed || last == Expired || last == Cancelled
	var next []NextEnqueue
	for _, policy := range Policies() {
		n := NextEnqueue{Policy: policy, Ruling: policy.Rule(last)}
		if n.Ruling == RuleReject && f.row.Cleared {
			n.Ruling = RuleCreate
		}
		n.Continues = continues && n.Ruling == RuleCreate
		next = append(next, n)
	}
	return next
}

func (f *keyFacts) keyJob(job *Job) KeyJob {
	k := KeyJob{
		ID: job.ID, Kind: job.Kind, Operation: job.Operation, State: job.ReportedState(f.now),
		Reason: job.Reason, EnqueuedAt: job.EnqueuedAt, EndedAt: job.EndedAt,
		Tries: job.Tries, MaxAttempts: job.MaxAttempts, Crashes: job.Crashes, Interruptions: job.Interruptions,
	}
	if job.State.Active() {
		k.DueAt = job.DueAt
	}
	for _, a := range job.Attempts {
		k.Attempts = append(k.Attempts, KeyAttempt(a))
	}
	for i := range f.receipts {
		if r := &f.receipts[i]; r.Operation == job.Operation && r.Sort == EffectReceipt {
			k.Effects = append(k.Effects, r.Effect())
		}
	}
	return k
}

// Effect returns what is known of an effect, in words for people.
func (r *Receipt) Effect() KeyEffect {
	return KeyEffect{
		Name: r.Name, Item: r.Item, State: r.State, Certainty: certainty(r.State),
		OutsideKey: r.OutsideKey, FirstSent: r.FirstSent, SendBefore: r.SendBefore,
		At: r.At, By: r.By, Error: r.Error,
	}
}

// certainty says in plain words what is known of an effect.
func certainty(s EffectState) string {
	switch s {
	case Confirmed:
		return "happened"
	case Refused, Disproved:
		return "did not happen"
	case Intended:
		return "not known"
	case Compensated:
		return "not known; a follow-up job was enqueued"
	}
	return s.String()
}
