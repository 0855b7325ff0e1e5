package storagetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/nexjob/nexjob"
)

// Compare plays random histories of all methods on a reference and on an engine,
// over few jobs, keys and kinds and with a clock that moves, and demands equal
// answers at every call and an equal storage in the end. A failing history is
// shortened, printed and kept; how to play it again stands in the failure. With 0
// histories their number comes from NEXJOB_HISTORIES, else 120. Without that variable
// they are the same at every run, so that a change is judged by itself alone; with it
// they are drawn anew.
func Compare(t *testing.T, reference, engine Harness, n int) {
	t.Helper()
	setFlag(t, "rapid.checks", strconv.Itoa(histories(t, n)))
	if os.Getenv(historiesVariable) == "" && flag.Lookup("rapid.seed").Value.String() == "0" {
		setFlag(t, "rapid.seed", "20261130")
	}
	calls := 0
	rapid.Check(t, func(rt *rapid.T) {
		left, right := newPlayer(t, reference), newPlayer(t, engine)
		defer left.leave(rt)
		defer right.leave(rt)
		for range rapid.IntRange(10, 90).Draw(rt, "calls") {
			play(rt, left, right, drawCall(rt, left))
			calls++
		}
		play(rt, left, right, move{"everything in the end", func(p *player) (any, error) { return p.everything() }})
	})
	t.Logf("%d calls had equal answers", calls)
}

// setFlag sets a flag of a test library for one test.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	if f == nil {
		t.Fatalf("storagetest: no flag %s", name)
	}
	before := f.Value.String()
	if err := f.Value.Set(value); err != nil {
		t.Fatalf("storagetest: flag %s: %v", name, err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// move is one call of a history, made on both storages. Its answer is tidied of
// what may differ: fences, and operation IDs that an engine derives.
type move struct {
	name string
	make func(p *player) (any, error)
}

// play makes a move on both sides and demands equal answers.
func play(rt *rapid.T, left, right *player, m move) {
	rt.Helper()
	want, wantErr := m.make(left)
	got, gotErr := m.make(right)
	diff := difference([]any{want, left.tidyError(wantErr)}, []any{got, right.tidyError(gotErr)})
	if diff != "" {
		rt.Fatalf("%s: the engine differs from the reference (-reference +engine):\n%s", m.name, diff)
	}
	rt.Logf("%s", m.name)
}

// held is a lease that a claim handed out.
type held struct {
	lease     nexjob.Lease
	operation nexjob.ID
	args      nexjob.Fingerprint
	over      bool // a call under it was answered that it is over
}

// player is one of the two storages of a comparison.
type player struct {
	ctx    context.Context //nolint:containedctx // lives as long as its history
	s      nexjob.Storage
	clock  *clock
	leases []held // in the order of their claims, which is equal on both sides

	fences     map[int64]int64         // by the order of their claims
	operations map[nexjob.ID]nexjob.ID // derived ones, by the order in which they were seen
}

func newPlayer(t testing.TB, h Harness) *player {
	c := newClock()
	return &player{
		ctx: t.Context(), s: h.Open(t, c.Now), clock: c,
		fences: make(map[int64]int64), operations: make(map[nexjob.ID]nexjob.ID),
	}
}

func (p *player) leave(rt *rapid.T) {
	if err := p.s.Close(); err != nil {
		rt.Errorf("Close: %v", err)
	}
}

func (p *player) now() time.Time { return p.clock.Now() }

// note remembers whether a lease is over, so that histories live on current ones.
func (p *player) note(number int, over bool) { p.leases[number].over = p.leases[number].over || over }

// everything reads the whole storage and asserts one active job per key.
func (p *player) everything() (any, error) {
	all, err := dump(p.ctx, p.s, p.now())
	if err != nil {
		return nil, err
	}
	entries, err := p.s.Entries(p.ctx, p.now(), entryKind)
	if err != nil {
		return nil, err
	}
	active := make(map[string]nexjob.ID)
	for _, j := range all.Jobs {
		if j.Key != "" && j.State.Active() {
			if other, twice := active[j.Key]; twice {
				return nil, fmt.Errorf("key %q has two active jobs: %s and %s", j.Key, other, j.ID)
			}
			active[j.Key] = j.ID
		}
	}
	return []any{p.tidyPage(nexjob.Page{Jobs: all.Jobs, Keys: all.Keys, Effects: all.Effects}), all.Counts, entries}, nil
}
