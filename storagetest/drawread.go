package storagetest

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/nexjob/nexjob"
)

// drawQuery draws a query; times in it count from now.
func drawQuery(rt *rapid.T) func(now time.Time) nexjob.Query {
	q := nexjob.Query{Limit: rapid.IntRange(0, 4).Draw(rt, "limit"), NewestFirst: rapid.Bool().Draw(rt, "newest first")}
	before := false
	switch rapid.IntRange(0, 9).Draw(rt, "by") {
	case 0:
		q.IDs = []nexjob.ID{drawID(rt), drawID(rt)}
	case 1:
		q.Key = pick(rt, "key", "a", "b", "c", "d")
	case 2:
		q.KeyPrefix = "a"
	case 3:
		q.Kinds = []string{pick(rt, "kind", charge, ship)}
	case 4:
		q.Queues = []string{pick(rt, "queue", mainQueue, otherQueue)}
	case 5:
		q.Tags = []string{"z", pick(rt, "tag", "x", "y", "z")}
	case 6:
		q.Parent = drawID(rt)
	case 7:
		before = true
	case 8:
		q.Operations = []nexjob.ID{drawID(rt)}
	default:
	}
	if chance(rt, "by state", 3) {
		q.States = []nexjob.State{pick(rt, "state", nexjob.States()...), pick(rt, "state", nexjob.States()...)}
	}
	return func(now time.Time) nexjob.Query {
		q := q
		if before {
			q.EndedBefore = now.Add(-time.Minute)
		}
		return q
	}
}

func drawFind(rt *rapid.T, _ *player) move {
	query := drawQuery(rt)
	of := pick(rt, "of", nexjob.Jobs, nexjob.Jobs, nexjob.Keys, nexjob.Effects)
	if chance(rt, "count", 3) {
		return move{"Count", func(p *player) (any, error) { return p.s.Count(p.ctx, p.now(), query(p.now())) }}
	}
	// Pages of effects end at other places where operations have other names.
	return move{fmt.Sprintf("Find subject %d", of), func(p *player) (any, error) {
		q := query(p.now())
		if q.Of = of; of == nexjob.Effects {
			q.Limit = nexjob.MaxPage
		}
		var all nexjob.Page
		for more := true; more; more = q.After != "" {
			page, err := p.s.Find(p.ctx, p.now(), q)
			if err != nil {
				return nil, err
			}
			all.Jobs = append(all.Jobs, page.Jobs...)
			all.Keys = append(all.Keys, page.Keys...)
			all.Effects = append(all.Effects, page.Effects...)
			q.After = page.Next
		}
		return p.tidyPage(all), nil
	}}
}

// drawResolve gives verdicts to whatever is uncertain.
func drawResolve(rt *rapid.T, _ *player) move {
	return amendBy(rt, func(time.Time) nexjob.Query {
		return nexjob.Query{States: []nexjob.State{nexjob.Uncertain}}
	}, nexjob.ActResolve)
}

func drawAmend(rt *rapid.T, _ *player) move {
	if chance(rt, "a key alone", 10) {
		key := pick(rt, "key", "a", "b", "c")
		return amendBy(rt, func(time.Time) nexjob.Query {
			return nexjob.Query{Of: nexjob.Keys, Key: key}
		}, nexjob.ActClearKey)
	}
	return amendBy(rt, drawQuery(rt), pick(rt, "act", nexjob.ActCancel, nexjob.ActRequeue, nexjob.ActRequeue,
		nexjob.ActDelete, nexjob.ActPurge, nexjob.ActClearKey, nexjob.ActResolve, nexjob.ActExpire,
		nexjob.ActReschedule, nexjob.ActPrioritise, nexjob.ActMove))
}

func amendBy(rt *rapid.T, query func(now time.Time) nexjob.Query, act nexjob.Act) move {
	do := nexjob.Action{
		Act: act, By: someone, Reason: pick(rt, "reason", "asked for", "asked for", ""),
		Force: chance(rt, "force", 3), NewOperation: chance(rt, "new operation", 4),
		Priority: pick(rt, "priority", nexjob.Critical, nexjob.Low), Queue: pick(rt, "queue", mainQueue, otherQueue),
		Verdict: pick(rt, "verdict", nexjob.Applied, nexjob.NotApplied, nexjob.Compensate, nexjob.StillUnknown),
		Effect:  pick(rt, "effect", "", "", "card", "mail"), Value: []byte("known"),
	}
	due := pick(rt, "due", 0, 50*time.Second+drawnTail)
	limit := rapid.IntRange(1, 3).Draw(rt, "limit")
	var followUp []func(now time.Time) nexjob.NewJob
	if do.Act == nexjob.ActResolve {
		followUp = drawJobs(rt, 1)
	}
	return move{fmt.Sprintf("Amend: %s (verdict %s), at most %d", do.Act, do.Verdict, limit), func(p *player) (any, error) {
		do := do
		do.DueAt = p.now().Add(due)
		for _, n := range made(followUp, p.now()) {
			do.FollowUp = &n
		}
		amended, err := p.s.Amend(p.ctx, p.now(), query(p.now()), do, limit)
		for i := range amended.Changes {
			c := &amended.Changes[i]
			c.Err = p.tidyError(c.Err)
			if c.FollowUp != nil {
				answer := p.tidyAnswer(*c.FollowUp)
				c.FollowUp = &answer
			}
		}
		return amended, err
	}}
}

func drawPut(rt *rapid.T, _ *player) move {
	put := nexjob.Put{
		Entry: entry(pick(rt, "name", "a", "b"), pick(rt, "value", "", "1", "2")),
		If:    int64(rapid.IntRange(0, 3).Draw(rt, "if")), Always: chance(rt, "always", 4), Delete: chance(rt, "delete", 4),
	}
	life := pick(rt, "life", 0, time.Minute+drawnTail)
	return move{fmt.Sprintf("Put %s if %d", put.Entry.Name, put.If), func(p *player) (any, error) {
		put := put
		if life > 0 {
			put.Entry.ExpiresAt = p.now().Add(life)
		}
		answers, err := p.s.Put(p.ctx, p.now(), []nexjob.Put{put})
		for i := range answers {
			answers[i].Err = p.tidyError(answers[i].Err)
		}
		if err != nil {
			return answers, err
		}
		entries, err := p.s.Entries(p.ctx, p.now(), entryKind)
		return []any{answers, entries}, err
	}}
}
