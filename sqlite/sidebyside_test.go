package sqlite_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/memory"
	"github.com/nexjob/nexjob/sqlite"
)

// both are the reference and a store that make the same calls.
type both struct {
	*testing.T
	now    time.Time
	sides  [2]nexjob.Storage
	fences [2]map[int64]int64 // by the order in which they were seen
	store  *sqlite.Store
}

func sideBySide(t *testing.T) *both {
	b := &both{T: t, now: time.Now().Truncate(time.Microsecond), fences: [2]map[int64]int64{{}, {}}}
	clock := func() time.Time { return b.now }
	b.store = open(t, file(t), sqlite.Options{Clock: clock, Synchronous: sqlite.Normal})
	b.sides = [2]nexjob.Storage{memory.New(memory.Options{Clock: clock}), b.store}
	return b
}

// do makes a call on both sides, demands equal answers, and returns both.
func do[T any](b *both, what string, call func(side int, s nexjob.Storage) (T, error)) [2]T {
	b.Helper()
	var answers [2]T
	for side, s := range b.sides {
		var err error
		if answers[side], err = call(side, s); err != nil {
			b.Fatalf("%s: %v", what, err)
		}
	}
	empty := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().Type() != reflect.TypeFor[[]byte]()
	}, cmpopts.EquateEmpty())
	fence := cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.Last().String(), "Fence")
	}, cmp.Comparer(func(x, y int64) bool { return b.number(0, x) == b.number(1, y) || b.number(1, x) == b.number(0, y) }))
	if diff := cmp.Diff(answers[0], answers[1],
		empty, fence,
		cmpopts.IgnoreUnexported(nexjob.Answer{}), cmp.Comparer(bytes.Equal), cmp.Comparer(func(x, y error) bool { return fmt.Sprint(x) == fmt.Sprint(y) })); diff != "" {
		b.Fatalf("%s: the engine differs from the reference (-reference +engine):\n%s", what, diff)
	}
	return answers
}

// number is the order of a fence among those of its side.
func (b *both) number(side int, fence int64) int64 {
	if n, ok := b.fences[side][fence]; ok || fence == 0 {
		return n
	}
	return -fence
}

func (b *both) enqueue(jobs ...nexjob.NewJob) {
	b.Helper()
	for _, answer := range do(b, "enqueue", func(_ int, s nexjob.Storage) ([]nexjob.Answer, error) {
		return s.Enqueue(b.Context(), b.now, jobs)
	})[1] {
		if answer.Err != nil {
			b.Fatal(answer.Err)
		}
	}
}

func (b *both) claim(n int) [2][]nexjob.Claimed {
	b.Helper()
	return do(b, "claim", func(side int, s nexjob.Storage) ([]nexjob.Claimed, error) {
		claimed, err := s.Claim(b.Context(), b.now, nexjob.ClaimRequest{
			Worker: "w", N: n, Lease: 30 * time.Second, Queues: []string{"default", "other"}, Kinds: []string{"charge", "ship"},
		})
		for i := range claimed {
			b.fences[side][claimed[i].Job.Fence] = int64(len(b.fences[side]) + 1)
		}
		return claimed, err
	})
}

func (b *both) amend(q nexjob.Query, what nexjob.Action, limit int) {
	b.Helper()
	do(b, what.Act.String(), func(_ int, s nexjob.Storage) (nexjob.Amended, error) {
		return s.Amend(b.Context(), b.now, q, what, limit)
	})
}

func (b *both) find(q nexjob.Query) nexjob.Page {
	b.Helper()
	return do(b, "find", func(_ int, s nexjob.Storage) (nexjob.Page, error) { return s.Find(b.Context(), b.now, q) })[1]
}

// everything compares all jobs and keys.
func (b *both) everything() {
	b.Helper()
	for _, of := range []nexjob.Subject{nexjob.Jobs, nexjob.Keys} {
		q := nexjob.Query{Of: of, Limit: nexjob.MaxPage}
		for page := b.find(q); page.Next != ""; page = b.find(q) {
			q.After = page.Next
		}
	}
	sound(b, b.store)
}

// text is JSON of exactly so many bytes.
func text(n int, letter string) []byte {
	if n < 2 {
		return []byte("1")
	}
	return []byte(`"` + strings.Repeat(letter, n-2) + `"`)
}

// TestOneJobManyLives: one job is replaced by bodies on both sides of what its row holds,
// run, requeued, failed and run again, far beyond the attempts that are kept.
func TestOneJobManyLives(t *testing.T) {
	t.Parallel()
	b := sideBySide(t)
	draw := rand.New(rand.NewPCG(7, 7))
	sizes := []int{0, 1, 100, 511, 512, 513, 700, 1 << 20}
	job := keyedJob("k")
	ids := nexjob.Query{IDs: []nexjob.ID{job.ID}}
	b.enqueue(job)
	for round := range 60 {
		next := keyedJob("k")
		next.WhileActive = nexjob.Replace
		next.Args = text(sizes[draw.IntN(len(sizes))], "x")
		next.Tags = []string{fmt.Sprint("round", round%3), "<&é\u2028\"'\\>"}
		if draw.IntN(3) == 0 {
			next.Meta = map[string]string{"a": strings.Repeat("é<", draw.IntN(400)), "b": "\n"}
		}
		if draw.IntN(4) == 0 {
			next.Tags, next.Args = nil, text(512-draw.IntN(3), "y")
		}
		next.Fingerprint = nexjob.FingerprintOf(next.Args)
		b.enqueue(next)
		for tag := range 3 {
			b.find(nexjob.Query{Tags: []string{fmt.Sprint("round", tag)}})
			b.find(nexjob.Query{AnyTags: []string{fmt.Sprint("round", tag), "<&é\u2028\"'\\>"}})
		}
		as := []nexjob.Ending{nexjob.EndSucceeded, nexjob.EndSucceeded, nexjob.EndSucceeded, nexjob.EndFailed, nexjob.EndRetry}[draw.IntN(5)]
		claimed := b.claim(1)
		if len(claimed[0]) != 1 || string(claimed[1][0].Job.Args) != string(next.Args) {
			t.Fatalf("round %d: %d jobs are claimed", round, len(claimed[0]))
		}
		end := nexjob.Settlement{As: as, Error: fmt.Sprint("round ", round)}
		if as == nexjob.EndSucceeded {
			end.Error, end.Result = "", text(draw.IntN(4)*300, "r")
			if draw.IntN(3) == 0 {
				end.Result = nil
			}
		}
		do(b, "settle", func(side int, s nexjob.Storage) ([]nexjob.Settled, error) {
			end := end
			end.Lease = claimed[side][0].Job.Lease()
			return s.Settle(b.Context(), b.now, []nexjob.Settlement{end})
		})
		b.find(ids)
		if draw.IntN(3) > 0 { // else the clock stands still
			b.now = b.now.Add(time.Second)
		}
		if as == nexjob.EndRetry { // it was started, so it cannot be replaced
			b.amend(ids, nexjob.Action{Act: nexjob.ActCancel, By: "me"}, 1)
		}
		b.amend(ids, nexjob.Action{Act: nexjob.ActRequeue, By: "me"}, 1)
		b.everything()
	}
	b.amend(ids, nexjob.Action{Act: nexjob.ActCancel}, 1)
	b.amend(ids, nexjob.Action{Act: nexjob.ActPurge}, 1)
	for name, rows := range tableSizes(t, b.store) {
		if rows > 0 && name != "nexjob_meta" && name != "nexjob_migrations" {
			t.Errorf("%s holds %d rows of a job that is gone", name, rows)
		}
	}
}

// TestBatchesOfAnySize: batches around the numbers of rows that go in at once, of one
// shape and of many, come back byte for byte.
func TestBatchesOfAnySize(t *testing.T) {
	t.Parallel()
	draw := rand.New(rand.NewPCG(8, 8))
	for _, n := range []int{1, 2, 5, 16, 17, 64, 65, 129} {
		for _, mixed := range []bool{false, true} {
			b := sideBySide(t)
			failed := keyedJob("continues") // its operation is continued
			b.enqueue(failed)
			claimed := b.claim(1)
			do(b, "settle", func(side int, s nexjob.Storage) ([]nexjob.Settled, error) {
				return s.Settle(b.Context(), b.now, []nexjob.Settlement{{Lease: claimed[side][0].Job.Lease(), As: nexjob.EndFailed}})
			})
			jobs := make([]nexjob.NewJob, n)
			for i := range jobs {
				jobs[i] = keyedJob(fmt.Sprint("k", i))
				if mixed {
					jobs[i] = mixedJob(draw, b.now, jobs[:i])
				}
			}
			do(b, "enqueue", func(_ int, s nexjob.Storage) ([]nexjob.Answer, error) {
				return s.Enqueue(b.Context(), b.now, jobs)
			})
			b.everything()
			for range 3 {
				claimed := b.claim(1 + n/2)
				do(b, "settle", func(side int, s nexjob.Storage) ([]nexjob.Settled, error) {
					ends := make([]nexjob.Settlement, len(claimed[side]))
					for i := range ends {
						ends[i] = nexjob.Settlement{Lease: claimed[side][i].Job.Lease(), As: nexjob.EndSucceeded}
						if mixed && i%3 == 0 {
							ends[i].Result = text(i, "r")
						}
						if mixed && i%5 == 0 {
							ends[i].As, ends[i].Result = nexjob.EndRetry, nil
						}
					}
					return s.Settle(b.Context(), b.now, ends)
				})
				b.now = b.now.Add(20 * time.Second)
				b.everything()
			}
		}
	}
}

// mixedJob draws a job of any shape, maybe behind some that come before it.
func mixedJob(draw *rand.Rand, now time.Time, before []nexjob.NewJob) nexjob.NewJob {
	one := func(in int) bool { return draw.IntN(in) == 0 }
	j := keyedJob("")
	switch draw.IntN(6) { // IDs that are not the newest
	case 0:
		j.ID[0] = 0
	case 1:
		j.ID[0], j.ID[1] = 0xff, byte(draw.IntN(256))
	}
	j.Args = text([]int{0, 5, 511, 512, 513, 5000}[draw.IntN(6)], "x")
	j.Fingerprint = nexjob.FingerprintOf(j.Args)
	if !one(3) {
		j.IdempotencyKey = fmt.Sprint("k", draw.IntN(2000))
		j.StrictArgs = false
		j.KeepKeyFor = time.Duration(draw.IntN(2)) * time.Hour
	}
	if one(20) {
		j.IdempotencyKey = "continues"
	} else if one(3) {
		j.Kind = "ship"
		j.IdempotencyKey = ""
		j.KeepKeyFor = 0
	}
	j.Queue = []string{"", "other"}[draw.IntN(2)]
	j.Priority = []nexjob.Priority{0, nexjob.Critical, nexjob.Low}[draw.IntN(3)]
	j.Delay = time.Duration(draw.IntN(3)) * 15 * time.Second
	if one(4) {
		j.DeadlineAfter = time.Duration(1+draw.IntN(40)) * time.Second
	}
	if one(8) {
		j.DueAt, j.Delay = now.Add(time.Minute), 0
	}
	if one(3) {
		j.Tags = []string{"a", fmt.Sprint("t", draw.IntN(3))}
	}
	if one(3) {
		j.Meta = map[string]string{"m": strings.Repeat("é", draw.IntN(300))}
	}
	if one(5) {
		j.Timeout, j.MaxAttempts = time.Minute, 1+draw.IntN(3)
	}
	for len(before) > 0 && one(3) && len(j.Parents) < 3 {
		if p := before[draw.IntN(len(before))]; p.IdempotencyKey == "" && !slices.ContainsFunc(j.Parents, func(had nexjob.Parent) bool { return had.ID == p.ID }) {
			j.Parents = append(j.Parents, nexjob.Parent{ID: p.ID, Rule: nexjob.OnAnyEnd})
		}
	}
	return j
}
