package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// past is what a key has been through before the enqueue under test.
type past struct {
	name       string
	state      nexjob.State // of the key's last job, as the policy table names it; 0: nobody holds the key
	recordGone bool
	continues  bool // a new job continues the last one's operation
	// build brings a storage there and returns the key's last job.
	build func(b *bench, key string) nexjob.Job
}

// keepFor is the key life of the pasts that outlive their record.
const keepFor = time.Hour

// pasts returns every past that the policy table can be asked about.
func pasts() []past {
	all := []past{
		{name: "Enqueued", state: nexjob.Enqueued, build: func(b *bench, key string) nexjob.Job {
			return b.job(b.add(newJob(key)).ID)
		}},
		{name: "Scheduled", state: nexjob.Scheduled, build: buildScheduled},
		{name: "Processing", state: nexjob.Processing, build: func(b *bench, key string) nexjob.Job {
			return b.job(b.run(newJob(key)).Job.ID)
		}},
		{name: "AwaitingContinuation", state: nexjob.AwaitingContinuation, build: buildAwaiting},
		{name: "Uncertain as told", state: nexjob.Uncertain, build: func(b *bench, key string) nexjob.Job {
			return b.uncertain(key, nexjob.EndUncertain)
		}},
		{name: "Uncertain instead of Failed", state: nexjob.Uncertain, build: func(b *bench, key string) nexjob.Job {
			return b.uncertain(key, nexjob.EndFailed)
		}},
		{name: "never used", build: func(*bench, string) nexjob.Job { return nexjob.Job{} }},
		{name: "deleted while it waits", build: func(b *bench, key string) nexjob.Job {
			j := buildScheduled(b, key)
			b.act(j.ID, nexjob.ActDelete)
			return j
		}},
	}
	for _, e := range ends() {
		all = append(all, endedPasts(e)...)
	}
	return all
}

// endedPasts are the pasts of a key whose last job came to one end: it stands, or
// was deleted, cleared, purged with and without a life of its own, or outlived.
func endedPasts(e end) []past {
	derive := func(name string, p past, keep time.Duration, then func(b *bench, j nexjob.Job)) past {
		p.name = e.name + name
		p.build = func(b *bench, key string) nexjob.Job {
			n := newJob(key)
			n.KeepKeyFor = keep
			j := e.reach(b, n)
			then(b, j)
			return j
		}
		return p
	}
	purge := func(b *bench, j nexjob.Job) { b.act(j.ID, nexjob.ActPurge) }
	outlive := func(b *bench, _ nexjob.Job) { b.pass(keepFor + time.Second) }
	continues := e.state != nexjob.Succeeded
	return []past{
		derive("", past{state: e.state, continues: continues}, 0, func(*bench, nexjob.Job) {}),
		derive(", deleted", past{}, 0, func(b *bench, j nexjob.Job) { b.act(j.ID, nexjob.ActDelete) }),
		derive(", deleted with a key life", past{}, keepFor,
			func(b *bench, j nexjob.Job) { b.act(j.ID, nexjob.ActDelete) }),
		derive(", cleared", past{continues: continues}, 0,
			func(b *bench, j nexjob.Job) { b.act(j.ID, nexjob.ActClearKey) }),
		derive(", purged", past{}, 0, purge),
		derive(", purged within the key's life", past{state: e.state, continues: continues, recordGone: true},
			keepFor, purge),
		derive(", within the key's life", past{state: e.state, continues: continues}, keepFor,
			func(b *bench, _ nexjob.Job) { b.pass(keepFor - time.Second) }),
		derive(", key life over", past{}, keepFor, outlive),
		derive(", purged and key life over", past{}, keepFor,
			func(b *bench, j nexjob.Job) { purge(b, j); outlive(b, j) }),
	}
}

// end is one way to a terminal state.
type end struct {
	name  string
	state nexjob.State
	reach func(b *bench, n nexjob.NewJob) nexjob.Job
}

func ends() []end {
	settled := func(how nexjob.Ending) func(b *bench, n nexjob.NewJob) nexjob.Job {
		return func(b *bench, n nexjob.NewJob) nexjob.Job {
			b.finish(b.run(n), how)
			return b.job(n.ID)
		}
	}
	return []end{
		{"Succeeded", nexjob.Succeeded, settled(nexjob.EndSucceeded)},
		{"Failed", nexjob.Failed, settled(nexjob.EndFailed)},
		{"Expired by upkeep", nexjob.Expired, func(b *bench, n nexjob.NewJob) nexjob.Job {
			n.DeadlineAfter = time.Minute
			b.add(n)
			b.pass(time.Minute + time.Second)
			b.act(n.ID, nexjob.ActExpire)
			return b.job(n.ID)
		}},
		{"Expired by a claim", nexjob.Expired, func(b *bench, n nexjob.NewJob) nexjob.Job {
			n.DeadlineAfter = time.Minute
			b.add(n)
			b.pass(time.Minute + time.Second)
			b.claimNone("its deadline has passed")
			return b.job(n.ID)
		}},
		{"Cancelled", nexjob.Cancelled, func(b *bench, n nexjob.NewJob) nexjob.Job {
			b.add(n)
			b.act(n.ID, nexjob.ActCancel)
			return b.job(n.ID)
		}},
		{"Cancelled by its handler", nexjob.Cancelled, settled(nexjob.EndCancelled)},
	}
}

func buildScheduled(b *bench, key string) nexjob.Job {
	n := newJob(key)
	n.Delay = time.Hour
	return b.job(b.add(n).ID)
}

// buildAwaiting makes a child whose parent stands in a queue that nobody claims.
func buildAwaiting(b *bench, key string) nexjob.Job {
	parent := newJob("")
	parent.Queue = "parents"
	n := newJob(key)
	n.Parents = []nexjob.Parent{{ID: b.add(parent).ID}}
	return b.job(b.add(n).ID)
}

// uncertain makes a job whose effect was intended and whose outcome is unknown.
func (b *bench) uncertain(key string, how nexjob.Ending) nexjob.Job {
	b.t.Helper()
	c := b.run(newJob(key))
	b.write(b.intent(c, "card"))
	b.finish(c, how)
	return b.state(c.Job.ID, nexjob.Uncertain, "an effect has no outcome")
}
