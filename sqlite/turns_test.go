package sqlite_test

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/storagetest"
)

// turns is one storage whose steps are done by several stores on one file in turn,
// within and without a caller's transaction, while all sorts of things happen to the
// file in between. What a store remembers of the file must be true after each of them.
type turns struct {
	nexjob.Storage // the first store

	t       testing.TB
	first   *sqlite.Store
	refuses bool // writes can be made to fail
	others  []nexjob.Storage
	draw    *rand.Rand
}

// inTurn is a harness of turns; other opens one more store on the file of the first.
func inTurn(refuses bool, other func(testing.TB, nexjob.Storage, func() time.Time) nexjob.Storage) storagetest.Harness {
	opened := uint64(0)
	return storagetest.Harness{Open: func(t testing.TB, clock func() time.Time) nexjob.Storage {
		refused()
		first := onFile(nil).Open(t, clock)
		opened++
		s := &turns{
			Storage: first, t: t, first: storeOf(t, first), refuses: refuses, draw: rand.New(rand.NewPCG(1, opened)),
		}
		if refuses {
			s.raw(t.Context(), strings.Join(refusals(), ";"))
		}
		s.others = []nexjob.Storage{other(t, first, clock)}
		return s
	}}
}

func (s *turns) Close() error {
	sound(s.t, s.first)
	for _, other := range s.others {
		if err := other.Close(); err != nil {
			return err
		}
	}
	return s.first.Close()
}

func (s *turns) raw(ctx context.Context, text string) {
	s.t.Helper()
	if _, err := s.first.DB().ExecContext(ctx, text); err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
}

// next is the store whose turn it is.
func (s *turns) next() nexjob.Storage {
	if n := s.draw.IntN(len(s.others) + 2); n < len(s.others) {
		return s.others[n]
	}
	return s.first
}

// refusals are the triggers by which any write can be made to fail, in each way that
// there is.
func refusals() []string {
	var all []string
	for place, at := range []string{
		"UPDATE ON nexjob_meta", "INSERT ON nexjob_jobs", "UPDATE ON nexjob_jobs", "DELETE ON nexjob_jobs",
		"INSERT ON nexjob_keys", "UPDATE ON nexjob_keys", "DELETE ON nexjob_keys", "INSERT ON nexjob_attempts",
		"INSERT ON nexjob_receipts", "UPDATE ON nexjob_receipts",
	} {
		for way, how := range ways() {
			all = append(all, fmt.Sprintf(`CREATE TRIGGER refusal_%d_%d AFTER %s WHEN refuses(%d)
				BEGIN SELECT raise(%s, 'refused'); END`, place, way, at, way, how))
		}
	}
	return all
}

func ways() []string { return []string{"ABORT", "FAIL", "ROLLBACK"} }

// refusal is what refuses writes: in a way, after some have been let pass.
type refusal struct{ way, pass, met atomic.Int64 }

func (r *refusal) refuses(way int64) bool {
	if r.way.Load() != way || r.pass.Add(-1) != 0 {
		return false
	}
	r.met.Add(1)
	return true
}

// refused refuses no write until it is told to. Triggers ask for it by a function, so that
// a write fails without another writer, who would be noticed.
var refused = sync.OnceValue(func() *refusal {
	r := new(refusal)
	driver.MustRegisterScalarFunction("refuses", 1,
		func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
			way, ok := args[0].(int64)
			return ok && r.refuses(way), nil
		})
	return r
})

// happen lets something happen to the file that changes no job.
func (s *turns) happen(ctx context.Context) {
	switch s.draw.IntN(24) {
	case 0:
		s.raw(ctx, `VACUUM`)
	case 1:
		s.raw(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	case 2:
		s.raw(ctx, `UPDATE nexjob_jobs SET reason = reason`)
	case 3:
		s.raw(ctx, `CREATE INDEX IF NOT EXISTS mine ON nexjob_jobs (worker); DROP INDEX mine`)
	}
}

// step makes a call on one of the stores. It may fail first, at any write of it.
func step[T any](
	ctx context.Context, s *turns, call func(on nexjob.Storage) (T, error), joined func(in nexjob.Joined) (T, error),
) (T, error) {
	s.happen(ctx)
	on := s.next()
	switch n := s.draw.IntN(8); {
	case n < 2 && joined != nil:
		return inCallers(ctx, s, n == 0, joined)
	case n > 4 && s.refuses:
		refused().way.Store(s.draw.Int64N(int64(len(ways()))))
		refused().pass.Store(1 + s.draw.Int64N(5))
		answer, err := call(on)
		refused().pass.Store(0)
		if err == nil {
			return answer, nil
		}
	}
	return call(on)
}

// inCallers makes a call in a caller's transaction, after one that was rolled back.
func inCallers[T any](
	ctx context.Context, s *turns, again bool, call func(in nexjob.Joined) (T, error),
) (answer T, err error) {
	for _, commits := range []bool{false, true} {
		if !again && !commits {
			continue
		}
		tx, err := s.first.DB().BeginTx(ctx, nil)
		if err != nil {
			return answer, err
		}
		in, err := s.first.Join(sqlite.Tx(tx))
		if err != nil {
			return answer, err
		}
		answer, err = call(in)
		end := tx.Rollback
		if commits {
			end = tx.Commit
		}
		if endErr := end(); endErr != nil {
			return answer, endErr
		}
		if commits {
			return answer, err
		}
	}
	return answer, nil
}

func (s *turns) Enqueue(ctx context.Context, now time.Time, jobs []nexjob.NewJob) ([]nexjob.Answer, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.Answer, error) { return on.Enqueue(ctx, now, jobs) },
		func(in nexjob.Joined) ([]nexjob.Answer, error) { return in.Enqueue(ctx, now, jobs) })
}

func (s *turns) Claim(ctx context.Context, now time.Time, ask nexjob.ClaimRequest) ([]nexjob.Claimed, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.Claimed, error) { return on.Claim(ctx, now, ask) }, nil)
}

func (s *turns) Renew(ctx context.Context, now, until time.Time, leases []nexjob.Lease) ([]nexjob.Renewal, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.Renewal, error) { return on.Renew(ctx, now, until, leases) }, nil)
}

func (s *turns) Settle(ctx context.Context, now time.Time, ends []nexjob.Settlement) ([]nexjob.Settled, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.Settled, error) { return on.Settle(ctx, now, ends) },
		func(in nexjob.Joined) ([]nexjob.Settled, error) { return in.Settle(ctx, now, ends) })
}

func (s *turns) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.Recorded, error) { return on.Record(ctx, now, receipts) },
		func(in nexjob.Joined) ([]nexjob.Recorded, error) { return in.Record(ctx, now, receipts) })
}

func (s *turns) Find(ctx context.Context, now time.Time, q nexjob.Query) (nexjob.Page, error) {
	return s.next().Find(ctx, now, q)
}

func (s *turns) Count(ctx context.Context, now time.Time, q nexjob.Query) ([]nexjob.Tally, error) {
	return s.next().Count(ctx, now, q)
}

func (s *turns) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	return step(ctx, s, func(on nexjob.Storage) (nexjob.Amended, error) { return on.Amend(ctx, now, q, do, limit) }, nil)
}

func (s *turns) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	return step(ctx, s, func(on nexjob.Storage) ([]nexjob.PutAnswer, error) { return on.Put(ctx, now, puts) }, nil)
}

// TestCompareInTurn: two stores on one file, and callers' transactions, agree with the
// reference whoever does the next step, and whatever failed before it.
func TestCompareInTurn(t *testing.T) {
	storagetest.Compare(t, inMemory(), inTurn(true, inThisProcess), 60)
	if n := refused().met.Load(); n < 100 {
		t.Errorf("only %d steps failed half-way", n)
	}
}

// TestCompareInTurnWithAnotherProcess: the like, where the second store is another
// process.
func TestCompareInTurnWithAnotherProcess(t *testing.T) {
	storagetest.Compare(t, inMemory(), inTurn(false, inAnotherProcess), 10)
}
