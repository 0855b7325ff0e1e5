package storagetest

import (
	"fmt"
	"slices"

	"github.com/nexjob/nexjob"
)

// path is one way on which an enqueue reaches a storage. It returns the answer for
// the item; what becomes of its surroundings the path checks itself.
type path struct {
	name string
	take func(b *bench, n nexjob.NewJob) nexjob.Answer
}

// policyChecks is the policy table × every past × every path outside a caller's
// transaction.
func policyChecks() []check {
	checks := []check{{"the table speaks of every state once", tableIsWhole}}
	return append(checks, policyMatrix([]path{
		{"single", func(b *bench, n nexjob.NewJob) nexjob.Answer { return b.enqueue(n)[0] }},
		{"batch", enqueueAmongNeighbours},
		{"follower", enqueueAsFollower},
	}, judgeOnce, true)...)
}

// policyTxChecks is the same in a caller's transaction.
func policyTxChecks() []check {
	return policyMatrix([]path{
		{"committed", func(b *bench, n nexjob.NewJob) nexjob.Answer {
			tx := b.begin()
			answers := tx.enqueue(n)
			tx.commit()
			return answers[0]
		}},
		{"after a rollback", func(b *bench, n nexjob.NewJob) nexjob.Answer {
			twin := n
			twin.ID = nexjob.NewID()
			var first nexjob.Answer
			b.unchanged("a rolled back enqueue", func() {
				tx := b.begin()
				first = tx.enqueue(twin)[0]
				tx.rollback()
			})
			second := b.enqueue(n)[0]
			b.equal("outcome in the transaction and after its rollback", second.Outcome, first.Outcome)
			return second
		}},
	}, judgeOnce, false)
}

type judge func(b *bench, p past, last nexjob.Job, n nexjob.NewJob, take path)

func policyMatrix(paths []path, judge judge, twice bool) []check {
	var checks []check
	for _, p := range pasts() {
		for _, policy := range nexjob.Policies() {
			for _, take := range paths {
				checks = append(checks, check{
					fmt.Sprintf("%s/%s/%s", p.name, policy, take.name),
					func(b *bench) {
						last := p.build(b, "order-42")
						judge(b, p, last, under(policy, newJob("order-42")), take)
					},
				})
			}
			if twice {
				checks = append(checks, check{
					fmt.Sprintf("%s/%s/twice in one batch", p.name, policy),
					func(b *bench) { judgeTwice(b, p, policy) },
				})
			}
		}
	}
	return checks
}

// tableIsWhole requires that the matrix leaves out no state.
func tableIsWhole(b *bench) {
	all := pasts()
	for _, s := range nexjob.States() {
		rows := 0
		for _, row := range nexjob.PolicyTable() {
			if slices.Contains(row.States, s) {
				rows++
			}
		}
		b.check(rows == 1, "the policy table has %d rows for %s", rows, s)
		b.check(slices.ContainsFunc(all, func(p past) bool { return p.state == s }), "no check brings a key to %s", s)
	}
}

// ruling reads the policy table as data.
func ruling(policy nexjob.DuplicatePolicy, last nexjob.State) nexjob.Ruling {
	for _, row := range nexjob.PolicyTable() {
		if last == 0 && len(row.States) == 0 || slices.Contains(row.States, last) {
			return row.Rulings[policy]
		}
	}
	return 0
}

// judgeOnce enqueues on one path and holds the answer, and what is stored, against
// the table.
func judgeOnce(b *bench, p past, last nexjob.Job, n nexjob.NewJob, take path) {
	b.t.Helper()
	want := ruling(n.DuplicatePolicy, p.state)
	keyBefore, _ := b.key(n.IdempotencyKey)
	answer := take.take(b, n)
	b.judged(p, last, n, answer)
	if want == nexjob.RuleCreate {
		return
	}
	_, stored := b.look(n.ID)
	b.check(!stored, "a job that was not created is stored")
	keyAfter, _ := b.key(n.IdempotencyKey)
	b.equal("the key's standing after an enqueue that created nothing", keyBefore, keyAfter)
}

// judgeTwice enqueues one key twice in one batch, with a stranger between: the
// later item sees what the earlier one did.
func judgeTwice(b *bench, p past, policy nexjob.DuplicatePolicy) {
	last := p.build(b, "order-42")
	first, stranger, second := under(policy, newJob("order-42")), newJob("order-43"), under(policy, newJob("order-42"))
	answers := b.enqueue(first, stranger, second)
	b.judged(p, last, first, answers[0])
	b.check(answers[1].Err == nil && answers[1].Outcome == nexjob.Created,
		"the stranger between two equal keys is answered %s, %v", answers[1].Outcome, answers[1].Err)
	if answers[0].Outcome == nexjob.Created {
		p = past{name: "created by the item before", state: nexjob.Enqueued}
		last = b.job(first.ID)
	}
	b.judged(p, last, second, answers[2])
}

// judged holds one answer against the policy table.
func (b *bench) judged(p past, last nexjob.Job, n nexjob.NewJob, got nexjob.Answer) {
	b.t.Helper()
	switch want := ruling(n.DuplicatePolicy, p.state); want {
	case nexjob.RuleCreate:
		b.created(p, last, n, got)
	case nexjob.RuleExisting:
		b.must(got.Err, "Enqueue that must be answered with the existing job")
		b.equal("answer", nexjob.Answer{
			ID: last.ID, Outcome: nexjob.Existing, State: p.state, Operation: last.Operation,
			Started: got.Started, // said by Replace alone
		}, got)
	case nexjob.RuleReject:
		b.equal("outcome", nexjob.Rejected, got.Outcome)
		b.is(got.Err, nexjob.ErrDuplicateJob, "Enqueue that must be rejected")
		b.equal("rejection", nexjob.DuplicateJobError{
			IdempotencyKey: n.IdempotencyKey, ExistingJobID: last.ID, ExistingState: p.state,
			Policy: n.DuplicatePolicy, RecordGone: p.recordGone,
		}, *as[*nexjob.DuplicateJobError](b, got.Err, "Enqueue that must be rejected"))
	default:
		b.t.Fatalf("the policy table has no ruling for %s and %s: %s", p.name, n.DuplicatePolicy, want)
	}
}

func (b *bench) created(p past, last nexjob.Job, n nexjob.NewJob, got nexjob.Answer) {
	b.t.Helper()
	b.must(got.Err, "Enqueue that must create")
	operation := n.ID
	if p.continues {
		operation = last.Operation
	}
	b.equal("answer", nexjob.Answer{
		ID: n.ID, Outcome: nexjob.Created, State: nexjob.Enqueued, Operation: operation, Continues: p.continues,
	}, got)
	j := b.job(n.ID)
	b.equal("state of the new job", nexjob.Enqueued, j.State)
	b.equal("operation of the new job", operation, j.Operation)
	row, held := b.key(n.IdempotencyKey)
	b.check(held && row.Job == n.ID, "the key's row names job %s, want the new job %s", row.Job, n.ID)
	b.check(!row.Cleared && row.Ended == 0 && row.Until.IsZero(),
		"the key's row still tells of the last job: %+v", row)
}

// enqueueAmongNeighbours puts the item into a batch with a job without a key, one
// that is wrong, and one under another key: none of them may notice.
func enqueueAmongNeighbours(b *bench, n nexjob.NewJob) nexjob.Answer {
	keyless, wrong, other := newJob(""), newJob("order-7"), newJob("order-8")
	wrong.Kind = ""
	answers := b.enqueue(keyless, wrong, n, other)
	b.check(answers[0].Err == nil && answers[0].ID == keyless.ID && answers[0].Outcome == nexjob.Created,
		"the neighbour without a key is answered %+v", answers[0])
	b.is(answers[1].Err, nexjob.ErrInvalid, "the neighbour without a kind")
	b.check(answers[3].Err == nil && answers[3].ID == other.ID && answers[3].Outcome == nexjob.Created,
		"the neighbour under another key is answered %+v", answers[3])
	return answers[2]
}

// enqueueAsFollower adds the item in the settlement of another job, which stands
// whatever becomes of its follower.
func enqueueAsFollower(b *bench, n nexjob.NewJob) nexjob.Answer {
	carrier := newJob("")
	carrier.Queue = "carriers"
	b.add(carrier)
	ask := claimAsk(1)
	ask.Queues = []string{"carriers"}
	claimed := b.ask(ask)
	b.need(len(claimed) == 1 && claimed[0].Job.ID == carrier.ID, "the carrier cannot be claimed: %+v", claimed)
	settled := b.finishWith(nexjob.Settlement{
		Lease: claimed[0].Job.Lease(), As: nexjob.EndSucceeded, Followers: []nexjob.NewJob{n},
	})
	b.equal("state of the settled job", nexjob.Succeeded, settled.State)
	b.need(len(settled.Followers) == 1, "a settlement with one follower answers %+v", settled.Followers)
	answer := settled.Followers[0]
	kept := b.state(carrier.ID, nexjob.Succeeded, "a follower's answer never undoes a settlement").Followers
	if answer.Outcome == nexjob.Created {
		return answer
	}
	b.need(len(kept) == 1, "the job keeps %d answers of followers that were not created, want 1", len(kept))
	b.equal("outcome kept on the job", answer.Outcome, kept[0].Outcome)
	b.equal("key kept on the job", n.IdempotencyKey, kept[0].Key)
	b.check((kept[0].Error == "") == (answer.Err == nil), "error kept on the job: %q, want that of %v", kept[0].Error, answer.Err)
	return answer
}
