package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nexjob/nexjob"
)

// Options are the choices of one worker. The zero value is safe and complete.
type Options struct {
	// Slots is how many handlers run at once; default 10. SetSlots changes it.
	Slots int
	// Prefetch is how many jobs may be claimed beyond the free slots, so that handlers
	// need not wait for the way to the storage: leased to this worker and waiting in it.
	// Default as many as Slots, at least 400; negative none; one claim takes 1,000 at most in all.
	//
	// It is a limit. While handlers take longer than a tenth of a second, jobs are claimed
	// for free slots alone. Else no more are claimed ahead than start within 50 ms, at the
	// pace of the last quarter of a second: that long a job may wait although another worker
	// is idle, or although a more urgent one was enqueued after the claim. If no slot comes
	// free for a second, or for a third of Lease, they are given back, which costs nothing.
	Prefetch int
	// Name is for people; each worker adds a part of its own, so that replicas
	// with one name are told apart. Default the host's name.
	Name string
	// Queues are served in the order given, so that a job of an earlier queue
	// always goes first; default the queue "default" alone.
	Queues []Queue
	// Weighted draws the order of the queues anew for each claim, by their
	// weights, so that no queue starves. Without it a weight is a mistake.
	Weighted bool

	// Lease is how long a claim lives without a renewal; renewed at a third of it.
	// Default 30 s.
	//
	// The job of a worker that died runs again a Lease and a Poll later at most, as
	// long as another worker is at work on the same storage (a second and later crash
	// of one job adds a back-off). On memory and SQLite, which have one writer, time in
	// which nobody wrote does not count, lest a machine that slept, or a transaction
	// that held the file, take jobs from workers that live. So if the only worker died,
	// the job runs when one has been there again for what was left of the lease, at
	// least a third of it and at most all, however long ago that was. Idle workers
	// write often enough, if they Poll more often than every sixth of Lease; if less,
	// up to two leases may be added.
	Lease time.Duration
	// Poll is how often an idle worker looks for work that nothing told it of;
	// default 1 s, with jitter.
	Poll time.Duration
	// Timeout ends the context of an attempt whose job does not choose; default
	// none.
	Timeout time.Duration
	// Grace is how long a handler whose context has ended may take to return
	// before it counts as stuck; after a time-out the attempt is then settled
	// without it. Default 5 s.
	Grace time.Duration
	// ShutdownTimeout is all the time that a stop may take; default 30 s. Handlers
	// are left in peace for nine tenths of it, then told to stop; what remains is
	// given back, so that Run returns in time.
	ShutdownTimeout time.Duration

	// CrashLimit is how many leases of one job may run out before it is Failed
	// with the reason "worker lost"; default nexjob.DefaultCrashLimit.
	CrashLimit int
	// Retention says how long ended jobs are kept.
	Retention Retention
	// RetentionEvery is how often old jobs are looked for; default 1 h.
	RetentionEvery time.Duration

	// LookupBackoff is the wait between look-ups of an effect whose outcome is
	// not known; default from 1 min, doubling, to 1 h. It begins with the first
	// look-up that may say NotApplied. One look-up comes before that, a second after
	// the outcome became unknown, for Applied counts at once; if it finds nothing,
	// the next one comes exactly when NotApplied is accepted: see Effect.LookupAfter.
	LookupBackoff nexjob.Retry
	// LookupLimit is how many look-ups may end still unknown before the job waits
	// for a person; default 20. Those that came too early for NotApplied are not
	// counted.
	LookupLimit int

	// Logger takes the worker's own lines and those of Run.Logger; default
	// slog.Default().
	Logger *slog.Logger
}

// Queue is a queue that a worker serves.
type Queue struct {
	Name   string `json:"name"`
	Weight int    `json:"weight,omitempty"` // share of first places, with Options.Weighted; default 1
}

// Retention says how long ended jobs are kept, per state. 0 is the default,
// negative is for ever.
type Retention struct {
	Succeeded time.Duration // default 7 days
	Failed    time.Duration // default 30 days
	Expired   time.Duration // default 7 days
	Cancelled time.Duration // default 7 days
}

const (
	day          = 24 * time.Hour
	shortestTime = 10 * time.Millisecond // of a lease or poll: below it only rounds would be run
)

// withDefaults returns the options with every zero filled in.
func (o Options) withDefaults() Options {
	fill(&o.Slots, 10)
	fill(&o.Lease, 30*time.Second)
	fill(&o.Poll, time.Second)
	fill(&o.Grace, 5*time.Second)
	fill(&o.ShutdownTimeout, 30*time.Second)
	fill(&o.CrashLimit, nexjob.DefaultCrashLimit)
	fill(&o.Retention.Succeeded, 7*day)
	fill(&o.Retention.Failed, 30*day)
	fill(&o.Retention.Expired, 7*day)
	fill(&o.Retention.Cancelled, 7*day)
	fill(&o.RetentionEvery, time.Hour)
	fill(&o.LookupLimit, 20)
	if o.LookupBackoff.Delay == nil {
		fill(&o.LookupBackoff.Initial, time.Minute)
		fill(&o.LookupBackoff.Max, time.Hour)
	}
	if len(o.Queues) == 0 {
		o.Queues = []Queue{{Name: nexjob.DefaultQueue}}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Name == "" {
		o.Name = hostName()
	}
	return o
}

func fill[T int | time.Duration](value *T, otherwise T) {
	if *value == 0 {
		*value = otherwise
	}
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil || nexjob.ValidateName("worker", host) != nil || len(host) > longestName {
		return "worker"
	}
	return host
}

// longestName leaves room for the part that tells replicas apart.
const longestName = nexjob.MaxName - 16

// validate checks options that withDefaults has filled in and names every mistake.
func (o Options) validate() error {
	var mistakes []error
	mistake := func(format string, args ...any) {
		mistakes = append(mistakes, fmt.Errorf("worker: option "+format, args...))
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Slots", o.Slots}, {"CrashLimit", o.CrashLimit}, {"LookupLimit", o.LookupLimit}} {
		if n.value < 0 {
			mistake("%s is negative (%d): want 1 or more, or 0 for the default", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Lease", o.Lease, shortestTime},
		{"Poll", o.Poll, shortestTime},
		{"Timeout", o.Timeout, 0},
		{"Grace", o.Grace, 0},
		{"ShutdownTimeout", o.ShutdownTimeout, 0},
		{"RetentionEvery", o.RetentionEvery, shortestTime},
	} {
		if d.value < d.least || d.value > nexjob.MaxDuration {
			mistake("%s is %s: want %s to %s", d.name, d.value, d.least, nexjob.MaxDuration)
		}
	}
	if err := nexjob.ValidateName("worker", o.Name); err != nil {
		mistake("Name: %w", err)
	} else if len(o.Name) > longestName {
		mistake("Name has %d bytes: at most %d", len(o.Name), longestName)
	}
	seen := make(map[string]bool, len(o.Queues))
	for _, q := range o.Queues {
		if err := nexjob.ValidateName("queue", q.Name); err != nil {
			mistake("Queues: %w", err)
		}
		if seen[q.Name] {
			mistake("Queues names %q twice", q.Name)
		}
		seen[q.Name] = true
		switch {
		case q.Weight < 0:
			mistake("Queues: the weight of %q is negative", q.Name)
		case q.Weight > 0 && !o.Weighted:
			mistake("Queues: %q has a weight, but the order is strict; set Weighted, or leave weights out", q.Name)
		}
	}
	return errors.Join(mistakes...)
}
