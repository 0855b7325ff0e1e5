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
			Storage: first, t: t, first: storeOf(t, first), refuses: refuses, draw: rand.New(rand.NewPCG(1, opened)), //nolint:gosec // a test's
		}
		if refuses {
			s.raw(t.Context(), strings.Join(refusals(), ";"))
		}
		s.others = []nexjob.Storage{other(t, first, clock)}
		return s
	}}
}

func (s *turns) Close() error {
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

// refusals are the places at which a write can be made to fail.
func refusals() []string {
	var all []string
	for _, at := range []string{
		"UPDATE ON nexjob_meta WHEN new.name = 'pulse' AND", "UPDATE ON nexjob_meta WHEN new.name = 'fence' AND",
		"INSERT ON nexjob_jobs WHEN", "UPDATE ON nexjob_jobs WHEN", "DELETE ON nexjob_jobs WHEN",
		"INSERT ON nexjob_keys WHEN", "UPDATE ON nexjob_keys WHEN", "DELETE ON nexjob_keys WHEN",
		"INSERT ON nexjob_attempts WHEN", "INSERT ON nexjob_receipts WHEN",
	} {
		for _, how := range []string{"ABORT", "ROLLBACK", "FAIL"} {
			n := len(all) + 1
			all = append(all, fmt.Sprintf(
				`CREATE TRIGGER refusal_%d AFTER %s refuses(%d) BEGIN SELECT raise(%s, 'refused'); END`, n, at, n, how))
		}
	}
	return all
}

// refused is the number of the refusal that is in force, 0 for none. Triggers ask for it
// by a function, so that a write fails without another writer who would be noticed.
var refused = sync.OnceValue(func() *atomic.Int64 {
	n := new(atomic.Int64)
	driver.MustRegisterScalarFunction("refuses", 1, func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
		return args[0] == n.Load(), nil
	})
	return n
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
	switch n := s.draw.IntN(8); {
	case n < 2 && joined != nil:
		return inCallers(ctx, s, n == 0, joined)
	case n == 2 && s.refuses:
		refused().Store(1 + s.draw.Int64N(int64(len(refusals()))))
		answer, err := call(s.next())
		refused().Store(0)
		if err == nil {
			return answer, nil
		}
	}
	return call(s.next())
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
// reference whoever does the next step.
func TestCompareInTurn(t *testing.T) {
	storagetest.Compare(t, inMemory(), inTurn(true, inThisProcess), 60)
}

// TestCompareInTurnWithAnotherProcess: the like, where the second store is another
// process.
func TestCompareInTurnWithAnotherProcess(t *testing.T) {
	storagetest.Compare(t, inMemory(), inTurn(false, inAnotherProcess), 10)
}
