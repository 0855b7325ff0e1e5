package storagetest

import (
	"time"

	"github.com/nexjob/nexjob"
)

// renewChecks are about leases that go on.
func renewChecks() []check {
	return []check{
		{"a current lease is extended", func(b *bench) {
			c := b.run(newJob(""))
			before := b.job(c.Job.ID)
			b.pass(10 * time.Second)
			got := b.renew(c.Job.Lease())[0]
			until := b.now().Add(lease)
			b.check(got.Status == nexjob.Renewed && !got.Stop, "Renew is answered %+v", got)
			b.check(!got.Until.Before(until) && got.Until.Before(until.Add(5*time.Second)),
				"the lease ends at %s, want %s or, after waiting, a little later", got.Until, until)
			after := b.job(c.Job.ID)
			b.equal("end of the stored lease", got.Until, after.LeaseUntil)
			after.LeaseUntil, after.LeaseFor = before.LeaseUntil, before.LeaseFor
			b.equal("the rest of a renewed job", before, after)
		}},
		{"a lease that ran out and was not claimed again goes on", func(b *bench) {
			c := b.run(newJob(""))
			b.pass(over)
			b.equal("status", nexjob.Renewed, b.renew(c.Job.Lease())[0].Status)
			b.claimNone("the lease was renewed in time: the fence decides, not the clock")
			b.finish(c, nexjob.EndSucceeded)
		}},
		{"each lease has its own answer", func(b *bench) {
			first, second := b.run(newJob("")), b.run(newJob(""))
			b.finish(first, nexjob.EndSucceeded)
			unknown := nexjob.Lease{Job: nexjob.NewID(), Fence: second.Job.Fence}
			ahead := nexjob.Lease{Job: second.Job.ID, Fence: second.Job.Fence + 1}
			got := b.renew(first.Job.Lease(), second.Job.Lease(), unknown, ahead)
			var status []nexjob.RenewStatus
			for _, r := range got {
				status = append(status, r.Status)
			}
			b.equal("answers for an ended, a current, an unknown and a never drawn lease",
				[]nexjob.RenewStatus{nexjob.Lost, nexjob.Renewed, nexjob.Lost, nexjob.Lost}, status)
		}},
		{"a stop is told", func(b *bench) {
			c := b.run(newJob(""))
			b.act(c.Job.ID, nexjob.ActCancel)
			got := b.renew(c.Job.Lease())[0]
			b.check(got.Status == nexjob.Renewed && got.Stop, "Renew after a cancel is answered %+v", got)
		}},
		{"many leases", func(b *bench) {
			for range 200 {
				b.add(newJob(""))
			}
			var leases []nexjob.Lease
			for _, c := range b.claim(200) {
				leases = append(leases, c.Job.Lease())
			}
			b.pass(lease / 2)
			for i, r := range b.renew(leases...) {
				b.check(r.Status == nexjob.Renewed, "lease %d is answered %+v", i, r)
			}
			b.pass(lease - time.Second)
			b.claimNone("all were renewed")
		}},
		{"an empty batch is nothing", func(b *bench) {
			b.unchanged("an empty renewal", func() { b.renew() })
		}},
	}
}
