package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
	"github.com/nexjob/nexjob/worker"
)

// workshop is a shop with a worker on it, whose handlers count how often each job ran.
type workshop struct {
	*testing.T
	*shop

	mu   sync.Mutex
	runs map[nexjob.ID]int
}

func newWorkshop(t *testing.T, url string) *workshop {
	t.Helper()
	return &workshop{T: t, shop: openShop(t, url), runs: make(map[nexjob.ID]int)}
}

// work runs a worker until the returned function is called.
func (s *workshop) work(o worker.Options, handle func(w *worker.Worker)) (_ *worker.Worker, stop func()) {
	s.Helper()
	o.Logger = slog.New(slog.NewTextHandler(s.Output(), nil))
	w := worker.New(s.store, o)
	handle(w)
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Errorf("run: %v", err)
		}
	})
	s.Cleanup(stop)
	return w, stop
}

// ran notes a run of a job and answers which it is, from 1.
func (s *workshop) ran(run *worker.Run) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[run.JobID()]++
	return s.runs[run.JobID()]
}

func (s *workshop) enqueue(job nexjob.NewJob) nexjob.ID {
	s.Helper()
	answer, err := s.client.Enqueue(s.Context(), job)
	if err != nil {
		s.Fatal(err)
	}
	return answer.ID
}

// wait waits for a job's end.
func (s *workshop) wait(id nexjob.ID) nexjob.Job {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	j, err := s.client.Wait(ctx, id)
	if err != nil {
		s.Errorf("%v: %+v", err, j)
	}
	return j
}

// complete is the handler's transaction: a row of its own and the job's end.
func (s *workshop) complete(ctx context.Context, w way, run *worker.Run, then func() error) error {
	return w.in(ctx, s.shop, func(tx openTx) error {
		if err := insertOrder(ctx, tx); err != nil {
			return err
		}
		if err := run.CompleteIn(ctx, tx.tx); err != nil {
			return err
		}
		return then()
	})
}

func fine() error { return nil }

// begin is a transaction that no helper commits.
func (s *workshop) begin(w way) (tx openTx, commit, rollback func(), err error) {
	ctx := context.WithoutCancel(s.Context())
	if w.name == "pgx" {
		tx, err := s.pool.Begin(ctx)
		if err != nil {
			return openTx{}, nil, nil, err
		}
		return ofPgx(tx), func() { _ = tx.Commit(ctx) }, func() { _ = tx.Rollback(ctx) }, nil
	}
	sqlTx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return openTx{}, nil, nil, err
	}
	return ofSQL(sqlTx), func() { _ = sqlTx.Commit() }, func() { _ = sqlTx.Rollback() }, nil
}

// However a handler's transaction ends, the job stands as the handler's rows do.
func TestCompleteIn(t *testing.T) {
	t.Parallel()
	url := server(t)
	errLate := errors.New("late")
	kind := nexjob.KindOf[orderArgs]("complete", nexjob.Defaults{Retry: nexjob.Retry{Initial: 10 * time.Millisecond}})
	tests := []struct {
		name  string
		first func(ctx context.Context, s *workshop, w way, run *worker.Run) error // the later runs are fine
		runs  int
		tries int
	}{
		{"commits", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return s.complete(ctx, w, run, fine)
		}, 1, 0},
		{"commits, then an error", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return errors.Join(s.complete(ctx, w, run, fine), worker.Permanent(errLate))
		}, 1, 0},
		{"commits, then a panic", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			_ = s.complete(ctx, w, run, fine)
			panic(errLate)
		}, 1, 0},
		{"commits, then its goroutine ends", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			_ = s.complete(ctx, w, run, fine)
			runtime.Goexit()
			return nil
		}, 1, 0},
		{"asks twice", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return errors.Join(s.complete(ctx, w, run, fine), s.complete(ctx, w, run, fine))
		}, 1, 0},
		{"nobody hears of the commit", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			err := s.complete(ctx, w, run, func() error {
				s.wire.cut.Store(afterCommit)
				return nil
			})
			if !errors.Is(err, nexjob.ErrOutcomeUnknown) {
				s.Errorf("the commit's answer is %v", err)
			}
			return err
		}, 1, 0},
		{"the commit does not arrive", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return s.complete(ctx, w, run, func() error {
				s.wire.cut.Store(beforeCommit)
				return nil
			})
		}, 2, 1},
		{"rolls back", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return s.complete(ctx, w, run, func() error { return errLate })
		}, 2, 1},
		{"rolls back and hides it", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			_ = s.complete(ctx, w, run, func() error { return errLate })
			return nil
		}, 2, 1},
		{"panics inside", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return s.complete(ctx, w, run, func() error { panic(errLate) })
		}, 2, 1},
		{"its goroutine ends inside", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			return s.complete(ctx, w, run, func() error { runtime.Goexit(); return nil })
		}, 2, 1},
		{"never commits", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			tx, _, rollback, err := s.begin(w)
			if err != nil {
				return err
			}
			time.AfterFunc(300*time.Millisecond, rollback)
			return errors.Join(insertOrder(ctx, tx), run.CompleteIn(ctx, tx.tx))
		}, 2, 1},
		{"commits after it has returned", func(ctx context.Context, s *workshop, w way, run *worker.Run) error {
			tx, commit, _, err := s.begin(w)
			if err != nil {
				return err
			}
			time.AfterFunc(300*time.Millisecond, commit)
			return errors.Join(insertOrder(ctx, tx), run.CompleteIn(ctx, tx.tx))
		}, 1, 0},
	}
	for _, w := range ways() {
		for _, tt := range tests {
			t.Run(w.name+"/"+tt.name, func(t *testing.T) {
				s := newWorkshop(t, url)
				worked, stop := s.work(worker.Options{Poll: 20 * time.Millisecond}, func(o *worker.Worker) {
					worker.Handle(o, kind, func(ctx context.Context, run *worker.Run, _ orderArgs) error {
						if s.ran(run) == 1 {
							return tt.first(ctx, s, w, run)
						}
						return s.complete(ctx, w, run, fine)
					})
				})
				id := s.enqueue(kind.New(orderArgs{}, nexjob.Options{}))
				j := s.wait(id)
				if j.State != nexjob.Succeeded || j.Tries != tt.tries || j.Crashes != 0 || s.orders(t) != 1 {
					t.Errorf("job %v after %d tries, %d crashes, %d rows", j.State, j.Tries, j.Crashes, s.orders(t))
				}
				stop()
				if h := worked.Health(); s.runs[id] != tt.runs || h.Succeeded > 1 || h.LeasesLost+h.LetGo != 0 || h.Unsettled != 0 {
					t.Errorf("%d runs, health %+v", s.runs[id], h)
				}
			})
		}
	}
}

// A handler may keep its transaction open for two leases: the handlers beside it and their
// leases do not notice, and its own job stays its own, also after it has asked.
func TestATransactionOfTwoLeasesCostsNobodyHisLease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := newWorkshop(t, server(t))
	hold := nexjob.KindOf[orderArgs]("hold", nexjob.Defaults{})
	long := nexjob.KindOf[orderArgs]("long", nexjob.Defaults{})
	var holding sync.WaitGroup
	handle := func(o *worker.Worker) {
		worker.Handle(o, hold, func(ctx context.Context, run *worker.Run, a orderArgs) error {
			s.ran(run)
			defer holding.Done()
			return ways()[a.N%2].in(ctx, s.shop, func(tx openTx) error {
				if err := insertOrder(ctx, tx); err != nil {
					return err
				}
				if a.N < 2 { // the job's row is held for all of the time
					if err := run.CompleteIn(ctx, tx.tx); err != nil {
						return err
					}
				}
				<-time.After(2 * lease) // what the test is about
				if a.N < 2 {
					return nil
				}
				return run.CompleteIn(ctx, tx.tx)
			})
		})
		worker.Handle(o, long, func(_ context.Context, run *worker.Run, _ orderArgs) error {
			s.ran(run)
			holding.Wait()
			return nil
		})
	}
	holding.Add(4)
	var ids []nexjob.ID
	for n := range 4 {
		ids = append(ids, s.enqueue(hold.New(orderArgs{N: n}, nexjob.Options{})), s.enqueue(long.New(orderArgs{N: n}, nexjob.Options{})))
	}
	options := worker.Options{Lease: lease, Poll: 50 * time.Millisecond, Slots: 8}
	first, stopFirst := s.work(options, handle)
	second, stopSecond := s.work(options, handle)
	for _, id := range ids {
		j := s.wait(id)
		s.mu.Lock()
		if s.runs[id] != 1 || j.State != nexjob.Succeeded || j.Crashes+j.Tries != 0 {
			t.Errorf("job of kind %s is %v after %d runs: %+v", j.Kind, j.State, s.runs[id], j.Attempts)
		}
		s.mu.Unlock()
	}
	stopFirst()
	stopSecond()
	for _, w := range []*worker.Worker{first, second} {
		if h := w.Health(); h.LeasesLost+h.LetGo+h.StaleWritesRefused+h.ClaimsDropped != 0 {
			t.Errorf("%+v", h)
		}
	}
	if n := s.orders(t); n != 4 {
		t.Errorf("%d rows", n)
	}
}

// snapshots are the levels at which a transaction sees one moment.
func snapshots() []string { return []string{"REPEATABLE READ", "SERIALIZABLE"} }

// A renewal between a transaction's snapshot and CompleteIn is no conflict.
func TestSnapshotTransactionCrossesARenewal(t *testing.T) {
	t.Parallel()
	const lease = 600 * time.Millisecond
	url := server(t)
	kind := nexjob.KindOf[orderArgs]("cross", nexjob.Defaults{})
	for _, w := range ways() {
		for _, level := range snapshots() {
			t.Run(w.name+"/"+level, func(t *testing.T) {
				s := newWorkshop(t, url)
				worked, stop := s.work(worker.Options{Lease: lease, Poll: 50 * time.Millisecond}, func(o *worker.Worker) {
					worker.Handle(o, kind, func(ctx context.Context, run *worker.Run, _ orderArgs) error {
						s.ran(run)
						return w.in(ctx, s.shop, func(tx openTx) error {
							if err := errors.Join(tx.exec(ctx, `SET TRANSACTION ISOLATION LEVEL `+level), insertOrder(ctx, tx)); err != nil {
								return err
							}
							const renewed = `SELECT count(*) FROM nexjob_leases WHERE job = $1 AND until > $2`
							until := s.count(t, `SELECT coalesce(max(until), 0) FROM nexjob_leases WHERE job = $1`, run.JobID().String())
							for s.count(t, renewed, run.JobID().String(), until) == 0 && ctx.Err() == nil { //nolint:revive // until then
							}
							return run.CompleteIn(ctx, tx.tx)
						})
					})
				})
				id := s.enqueue(kind.New(orderArgs{}, nexjob.Options{}))
				j := s.wait(id)
				stop()
				if h := worked.Health(); j.State != nexjob.Succeeded || s.runs[id] != 1 || s.orders(t) != 1 || h.LeasesLost+h.LetGo != 0 {
					t.Errorf("job %v after %d runs, %d rows, %d attempts, health %+v", j.State, s.runs[id], s.orders(t), len(j.Attempts), h)
				}
			})
		}
	}
}

// A stale attempt in a snapshot transaction meets a serialization error. So does a current
// one that conflicts with somebody's business rows. The worker tells them apart: the first
// changes nothing, the second is a failed try.
func TestSnapshotTransactionOfAStaleAttempt(t *testing.T) {
	t.Parallel()
	url := server(t)
	kind := nexjob.KindOf[orderArgs]("stale", nexjob.Defaults{Retry: nexjob.Retry{Initial: 10 * time.Millisecond}})
	for _, w := range ways() {
		for _, level := range snapshots() {
			for _, stale := range []bool{true, false} {
				name := "conflict"
				if stale {
					name = "stale"
				}
				t.Run(w.name+"/"+level+"/"+name, func(t *testing.T) {
					s := newWorkshop(t, url)
					if err := s.store.InSQLTx(t.Context(), s.db, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(t.Context(), `CREATE TABLE IF NOT EXISTS stock (n bigint);
							DELETE FROM stock; INSERT INTO stock VALUES (10)`)
						return err
					}); err != nil {
						t.Fatal(err)
					}
					var met error
					second := make(chan struct{})
					handle := func(ctx context.Context, run *worker.Run, _ orderArgs) error {
						if s.ran(run) > 1 {
							err := s.complete(ctx, w, run, fine)
							close(second)
							return err
						}
						ctx = context.WithoutCancel(ctx) // it may be told that its lease is lost
						met = w.in(ctx, s.shop, func(tx openTx) error {
							if err := errors.Join(tx.exec(ctx, `SET TRANSACTION ISOLATION LEVEL `+level), insertOrder(ctx, tx)); err != nil {
								return err
							}
							if !stale {
								if _, err := s.store.Pool().Exec(ctx, `UPDATE stock SET n = n - 1`); err != nil {
									return err
								}
								if err := run.CompleteIn(ctx, tx.tx); err != nil {
									return err
								}
								return tx.exec(ctx, `UPDATE stock SET n = n - 1`)
							}
							s.expire(run.JobID())
							<-second
							return run.CompleteIn(ctx, tx.tx)
						})
						return met
					}
					worked, stop := s.work(worker.Options{Poll: 20 * time.Millisecond}, func(o *worker.Worker) {
						worker.Handle(o, kind, handle)
					})
					id := s.enqueue(kind.New(orderArgs{}, nexjob.Options{}))
					j := s.wait(id)
					stop()
					if j.State != nexjob.Succeeded || s.runs[id] != 2 || s.orders(t) != 1 {
						t.Errorf("job %v after %d runs, %d rows", j.State, s.runs[id], s.orders(t))
					}
					var code interface{ SQLState() string }
					if !errors.As(met, &code) || code.SQLState() != "40001" {
						t.Errorf("the first attempt met %v", met)
					}
					if stale && !nexjob.IsTransient(met) {
						t.Errorf("what may be done anew is answered %v", met)
					}
					tries, crashes := 1, 0
					if stale {
						tries, crashes = 0, 1
					}
					if h := worked.Health(); j.Tries != tries || j.Crashes != crashes || h.Succeeded != 1 || h.LetGo != 0 {
						t.Errorf("%d tries, %d crashes, health %+v", j.Tries, j.Crashes, h)
					}
				})
			}
		}
	}
}

// expire ends a job's lease, as its time would.
func (s *workshop) expire(id nexjob.ID) {
	s.Helper()
	err := s.store.InSQLTx(s.Context(), s.db, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(s.Context(), `UPDATE nexjob_leases SET until = 1 WHERE job = $1`, id.String())
		if err == nil {
			_, err = tx.ExecContext(s.Context(), `UPDATE nexjob_jobs SET lease_until = 1 WHERE id = $1`, id.String())
		}
		return err
	})
	if err != nil {
		s.Error(err)
	}
}

var _ postgres.SQLTransaction = (*sql.Tx)(nil)
