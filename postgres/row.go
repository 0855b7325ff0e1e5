package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// The flags of a job's row, as the migration tells them.
const (
	flagStarted int64 = 1 << iota
	flagReplaced
	flagStop
	flagFamily // the storage's own: jobs wait for it, or did
	flagTold
	flagLookup // was Uncertain when it was claimed
)

// rest is what few jobs have, in the column more.
type rest struct {
	Delay         time.Duration     `json:"delay_ns,omitempty"`
	Interruptions int               `json:"interruptions,omitempty"`
	Snoozes       int               `json:"snoozes,omitempty"`
	Lookups       int               `json:"lookups,omitempty"`
	StopReason    string            `json:"stop_reason,omitempty"`
	Parents       int               `json:"parents,omitempty"` // rows in nexjob.parents
	Followers     []nexjob.Follower `json:"followers,omitempty"`
}

// restOf is the text of the column more: "" for most jobs.
func restOf(j *nexjob.Job) (string, error) {
	if j.Delay == 0 && j.Interruptions == 0 && j.Snoozes == 0 && j.Lookups == 0 && j.StopReason == "" &&
		len(j.Parents) == 0 && len(j.Followers) == 0 {
		return "", nil
	}
	text, err := json.Marshal(rest{
		Delay: j.Delay, Interruptions: j.Interruptions, Snoozes: j.Snoozes, Lookups: j.Lookups,
		StopReason: j.StopReason, Parents: len(j.Parents), Followers: j.Followers,
	})
	if err != nil {
		return "", fmt.Errorf("job %s: %w", j.ID, err)
	}
	return string(text), nil
}

// told is the attempt that a job's row tells of.
func told(j *nexjob.Job) nexjob.Attempt {
	return nexjob.Attempt{
		Fence: j.Fence, Worker: j.Worker, Started: j.StartedAt, Ended: j.EndedAt, Ending: nexjob.EndSucceeded,
	}
}

// toldByRow reports whether the newest attempt of a job is told by the job's own row.
func toldByRow(j *nexjob.Job) bool {
	if j.State != nexjob.Succeeded || j.SettledAs != nexjob.EndSucceeded || len(j.Attempts) == 0 {
		return false
	}
	last, by := &j.Attempts[len(j.Attempts)-1], told(j)
	return last.Fence == by.Fence && last.Worker == by.Worker && last.Ending == by.Ending &&
		last.Started.Equal(by.Started) && last.Ended.Equal(by.Ended) && last.Error == ""
}

// stored is what a job's row says of other tables, and of what a Job does not hold.
type stored struct {
	flags    int64
	attempts int
	parents  int
}

// column reads the columns of a row one after the other.
type column struct {
	row wire.Row
	at  int
}

func (c *column) next() int {
	c.at++
	return c.at - 1
}

func (c *column) int64() int64 { return c.row.Int64(c.next()) }

// same reads a text that is most often the one before, which is kept then.
func (c *column) same(before string) string { return c.row.Same(c.next(), before) }

func (c *column) int() int                { return int(c.int64()) }
func (c *column) text() string            { return c.row.Text(c.next()) }
func (c *column) bytes() []byte           { return c.row.Bytes(c.next()) }
func (c *column) bool() bool              { return c.int64() != 0 }
func (c *column) id() nexjob.ID           { return c.row.UUID(c.next()) }
func (c *column) duration() time.Duration { return time.Duration(c.int64()) }

func (c *column) time() time.Time {
	i := c.next()
	if c.row.Null(i) {
		return time.Time{}
	}
	return time.UnixMicro(c.row.Int64(i)).UTC()
}

func (c *column) fingerprint() (f nexjob.Fingerprint) {
	c.row.Copy(c.next(), f[:])
	return f
}

// state reads a State; one that is NULL is zero.
func (c *column) state() nexjob.State { return nexjob.State(c.int64()) } //nolint:gosec // written from a State

// decode reads a JSON column, empty meaning nothing.
func (c *column) decode(into any) error {
	i := c.next()
	if c.row.Null(i) {
		return nil
	}
	return json.Unmarshal(c.row.Bytes(i), into)
}

// job reads the columns of {job} into a job.
func (c *column) job(j *nexjob.Job) (stored, error) {
	var s stored
	*j = nexjob.Job{
		ID: c.id(), State: c.state(), Kind: c.text(), Queue: c.text(),
		Priority: nexjob.Priority(c.int64()), //nolint:gosec // written from a Priority
		Key:      c.text(), Operation: c.id(), Fingerprint: c.fingerprint(), EnqueuedAt: c.time(), DueAt: c.time(),
		Deadline: c.time(), Timeout: c.duration(), MaxAttempts: c.int(), Fence: c.int64(), Worker: c.text(),
		StartedAt: c.time(), EndedAt: c.time(), LeaseUntil: c.time(), LeaseFor: c.duration(),
	}
	s.flags = c.int64()
	j.Tries, j.Crashes = c.int(), c.int()
	s.attempts = c.int()
	j.SettledFence, j.SettledAs = c.int64(), nexjob.Ending(c.int64()) //nolint:gosec // written from an Ending
	j.OpenEffects, j.ReceiptCount, j.ReceiptBytes = c.int(), c.int(), c.int()
	j.Wished, j.KeepKeyFor, j.Reason = c.state(), c.duration(), c.text()
	err := c.more(j, &s)
	j.Args, j.Result = c.bytes(), c.bytes()
	if err == nil {
		err = c.tagsAndMeta(j)
	}
	byFlags(j, s.flags)
	return s, err
}

// more reads the column more.
func (c *column) more(j *nexjob.Job, s *stored) error {
	if c.row.Null(c.at) {
		c.next()
		return nil
	}
	var more rest
	if err := c.decode(&more); err != nil {
		return fmt.Errorf("column more of job %s: %w", j.ID, err)
	}
	j.Delay, j.Interruptions, j.Snoozes, j.Lookups = more.Delay, more.Interruptions, more.Snoozes, more.Lookups
	j.StopReason, j.Followers = more.StopReason, more.Followers
	s.parents = more.Parents
	return nil
}

// tagsAndMeta reads the columns tags and meta.
func (c *column) tagsAndMeta(j *nexjob.Job) error {
	if err := c.decode(&j.Tags); err != nil {
		return fmt.Errorf("tags of job %s: %w", j.ID, err)
	}
	if err := c.decode(&j.Meta); err != nil {
		return fmt.Errorf("meta of job %s: %w", j.ID, err)
	}
	return nil
}

// byFlags fills in what follows from the flags of a job's row, and from its ID.
func byFlags(j *nexjob.Job, flags int64) {
	j.Started, j.Replaced, j.Stop = flags&flagStarted != 0, flags&flagReplaced != 0, flags&flagStop != 0
	if j.Operation.IsZero() {
		j.Operation = j.ID
	}
}

// flagsOf are the flags of a job's row, but for those that are the storage's own.
func flagsOf(j *nexjob.Job) (flags int64) {
	for _, f := range []struct {
		is   bool
		flag int64
	}{{j.Started, flagStarted}, {j.Replaced, flagReplaced}, {j.Stop, flagStop}, {toldByRow(j), flagTold}} {
		if f.is {
			flags |= f.flag
		}
	}
	return flags
}
