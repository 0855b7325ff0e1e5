package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nexjob/nexjob/bench/internal/queues"
)

// named is a bench; its name chooses it, and begins the names of its lines.
type named struct {
	name string
	run  func(*bench, context.Context) error
}

// suite is what can be measured on one engine.
type suite struct {
	benches []named // in the order in which they run
	peers   []string
}

const (
	river = "river"
	asynq = "asynq" // its lines are for information: Redis promises less
	self  = "self"  // ours under other circumstances
)

func suites() map[string]suite {
	return map[string]suite{
		"sqlite":   {benches: onSQLite(), peers: []string{"backlite", "goqite", river, "raw"}},
		"postgres": {benches: onPostgres(), peers: []string{river, asynq}},
	}
}

// knows reports whether every name of a list is a peer's.
func (s suite) knows(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if list != "" && !slices.Contains(s.peers, name) {
			return false
		}
	}
	return true
}

// choose finds the benches of a list of names; all of them for an empty one.
func (s suite) choose(list string) ([]named, error) {
	if list == "" {
		return s.benches, nil
	}
	var chosen []named
	names := make([]string, len(s.benches))
	for i, n := range s.benches {
		names[i] = n.name
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("-run %s: the benches are %s", name, strings.Join(names, ", "))
		}
		chosen = append(chosen, s.benches[i])
	}
	return chosen, nil
}

func onSQLite() []named {
	workers := []queues.Side{
		{Name: queues.Ours, Open: queues.OpenSQLite},
		{Name: "backlite", Open: queues.OpenBacklite},
		{Name: "goqite", Open: queues.OpenGoqite},
		{Name: river, Open: queues.OpenRiverFile},
	}
	callers := slices.Clone(workers)
	callers[3].Open = queues.OpenRiverFileUnique
	return []named{
		{"enqueue16", func(b *bench, ctx context.Context) error {
			return b.bothModes(ctx, contest{name: "enqueue16", sides: b.with(callers), run: b.enqueue(16)})
		}},
		{"batch1000", (*bench).batchesOnFiles},
		{"endtoend", func(b *bench, ctx context.Context) error {
			return b.bothModes(ctx, contest{name: "endtoend", sides: b.with(workers), run: b.endtoend(slots)})
		}},
		{"flat1m", (*bench).flat1m},
		{"latency", func(b *bench, ctx context.Context) error { return b.latencyOnFiles(ctx, b.with(workers)) }},
	}
}

// onPostgres are the benches beside River on one server, and beside asynq for
// information.
func onPostgres() []named {
	return []named{
		{"enqueue1", enqueueBench("enqueue1", 1, queues.RiverUnique)},
		{"enqueue16", enqueueBench("enqueue16", 16, queues.RiverUnique)},
		{"enqueue256", enqueueBench("enqueue256", 256, queues.RiverCrowded)},
		{"batch1000", func(b *bench, ctx context.Context) error {
			return b.rates(ctx, contest{name: "batch1000", sides: b.beside(queues.RiverUnique, false), run: b.batches})
		}},
		{"duplicate1", duplicateBench("duplicate1", 1)},
		{"duplicate16", duplicateBench("duplicate16", 16)},
		{"endtoend", (*bench).endtoendOnServer},
		{"live", (*bench).live},
		{"latency", func(b *bench, ctx context.Context) error {
			return b.latency(ctx, contest{name: "latency", sides: b.beside(queues.RiverPrompt, true)}, b.paced)
		}},
		{"latency-default", func(b *bench, ctx context.Context) error {
			return b.latency(ctx, contest{name: "latency-default", sides: b.beside(queues.RiverDefault, false)}, b.pacedInfo)
		}},
		{"recorded", (*bench).recorded},
		{"late", (*bench).late},
		{"snapshot", (*bench).snapshot},
		{"flat10m", (*bench).flat10m},
	}
}

func enqueueBench(name string, callers int, rival queues.Opener) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		return b.rates(ctx, contest{name: name, sides: b.beside(rival, callers > 1), run: b.enqueue(callers)})
	}
}

func duplicateBench(name string, callers int) func(*bench, context.Context) error {
	return func(b *bench, ctx context.Context) error {
		return b.rates(ctx, contest{name: name, sides: b.beside(queues.RiverUnique, false), run: b.duplicate(callers)})
	}
}

// beside are the sides on a server: ours, River as it is set there, and, where it is
// wanted, asynq.
func (b *bench) beside(rival queues.Opener, withAsynq bool) []queues.Side {
	sides := []queues.Side{{Name: queues.Ours, Open: queues.OpenPostgres}, {Name: river, Open: rival}}
	if withAsynq {
		sides = append(sides, queues.Side{Name: asynq, Open: queues.OpenAsynq})
	}
	return b.with(sides)
}

// with leaves out the peers that were not asked for; our own side stays.
func (b *bench) with(sides []queues.Side) []queues.Side {
	if b.peers == "" {
		return sides
	}
	wanted := strings.Split(b.peers, ",")
	return slices.DeleteFunc(slices.Clone(sides), func(s queues.Side) bool {
		return s.Name != queues.Ours && !slices.Contains(wanted, s.Name)
	})
}
