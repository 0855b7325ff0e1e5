package sqlite_test

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
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type workArgs struct {
	N int `json:"n"`
}

// workshop is a store with a worker on it, whose handlers count how often each job ran.
type workshop struct {
	*testing.T
	store  *sqlite.Store
	client *nexjob.Client

	mu   sync.Mutex
	runs map[nexjob.ID]int
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	s := &workshop{T: t, store: open(t, file(t), sqlite.Options{}), runs: make(map[nexjob.ID]int)}
	s.client = nexjob.NewClient(s.store, nexjob.ClientOptions{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = s.client.Close(context.Background()) })
	if _, err := s.store.DB().ExecContext(t.Context(), `CREATE TABLE rows (n INTEGER)`); err != nil {
		t.Fatal(err)
	}
	return s
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
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	j, err := s.client.Wait(ctx, id)
	if err != nil {
		s.Errorf("%v: %+v", err, j)
	}
	return j
}

// rows counts the business rows.
func (s *workshop) rows() int {
	s.Helper()
	var n int
	if err := s.store.DB().QueryRowContext(s.Context(), `SELECT count(*) FROM rows`).Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// once checks that a job succeeded in its first run.
func (s *workshop) once(id nexjob.ID) {
	s.Helper()
	j := s.wait(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[id] != 1 || j.State != nexjob.Succeeded || len(j.Attempts) != 1 || j.Crashes+j.Tries != 0 {
		s.Errorf("job of kind %s is %v after %d runs: %+v", j.Kind, j.State, s.runs[id], j.Attempts)
	}
}

// A handler may keep its transaction open for two leases: the handlers beside it,
// which nobody can renew meanwhile, and those that end meanwhile keep theirs.
func TestATransactionOfTwoLeasesCostsNobodyHisLease(t *testing.T) {
	const lease = 2 * time.Second
	s := newWorkshop(t)
	hold := nexjob.KindOf[workArgs]("hold", nexjob.Defaults{})
	long := nexjob.KindOf[workArgs]("long", nexjob.Defaults{})
	short := nexjob.KindOf[workArgs]("short", nexjob.Defaults{})
	opened, closed := make(chan struct{}), make(chan struct{})
	open, end := sync.OnceFunc(func() { close(opened) }), sync.OnceFunc(func() { close(closed) })
	started := make(chan struct{}, 100)
	options := worker.Options{Lease: lease, Poll: 50 * time.Millisecond, Slots: 4}
	handle := func(w *worker.Worker) {
		worker.Handle(w, hold, func(ctx context.Context, run *worker.Run, a workArgs) error {
			s.ran(run)
			defer end()
			return sqlite.InTx(ctx, s.store.DB(), func(tx *sql.Tx) error {
				open()
				if _, err := tx.ExecContext(ctx, `INSERT INTO rows VALUES (?)`, a.N); err != nil {
					return err
				}
				select {
				case <-time.After(2 * lease): // what the test is about
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				return run.CompleteIn(ctx, sqlite.Tx(tx))
			})
		})
		worker.Handle(w, long, func(ctx context.Context, run *worker.Run, _ workArgs) error {
			s.ran(run)
			started <- struct{}{}
			select {
			case <-closed:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		worker.Handle(w, short, func(ctx context.Context, run *worker.Run, _ workArgs) error {
			s.ran(run)
			started <- struct{}{}
			select {
			case <-opened:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	var ids []nexjob.ID
	for range 2 {
		ids = append(ids, s.enqueue(long.New(workArgs{}, nexjob.Options{})), s.enqueue(short.New(workArgs{}, nexjob.Options{})))
	}
	first, stopFirst := s.work(options, handle)
	second, stopSecond := s.work(options, handle)
	for range ids {
		<-started
	}
	ids = append(ids, s.enqueue(hold.New(workArgs{}, nexjob.Options{})))
	for _, id := range ids {
		s.once(id)
	}
	stopFirst()
	stopSecond()
	for _, w := range []*worker.Worker{first, second} {
		if h := w.Health(); h.LeasesLost+h.LetGo+h.StaleWritesRefused+h.ClaimsDropped != 0 {
			t.Errorf("%+v", h)
		}
	}
	if n := s.rows(); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// However a handler's transaction ends, the job stands as the file does.
func TestCompleteInOnAFile(t *testing.T) {
	errLate := errors.New("late")
	kind := nexjob.KindOf[workArgs]("complete", nexjob.Defaults{Retry: nexjob.Retry{Initial: 10 * time.Millisecond}})
	complete := func(ctx context.Context, s *workshop, run *worker.Run, then func() error) error {
		return sqlite.InTx(ctx, s.store.DB(), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO rows VALUES (1)`); err != nil {
				return err
			}
			if err := run.CompleteIn(ctx, sqlite.Tx(tx)); err != nil {
				return err
			}
			return then()
		})
	}
	fine := func() error { return nil }
	tests := []struct {
		name  string
		first func(ctx context.Context, s *workshop, run *worker.Run) error // the later runs are fine
		runs  int
		tries int
	}{
		{"commits", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return complete(ctx, s, run, fine)
		}, 1, 0},
		{"commits, then an error", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return errors.Join(complete(ctx, s, run, fine), worker.Permanent(errLate))
		}, 1, 0},
		{"commits, then a panic", func(ctx context.Context, s *workshop, run *worker.Run) error {
			_ = complete(ctx, s, run, fine)
			panic(errLate)
		}, 1, 0},
		{"commits, then its goroutine ends", func(ctx context.Context, s *workshop, run *worker.Run) error {
			_ = complete(ctx, s, run, fine)
			runtime.Goexit()
			return nil
		}, 1, 0},
		{"commits, then adds a job", func(ctx context.Context, s *workshop, run *worker.Run) error {
			_ = complete(ctx, s, run, fine)
			if err := run.Next(kind.New(workArgs{}, nexjob.Options{})); err == nil {
				s.Error("a job was added after the end")
			}
			return nil
		}, 1, 0},
		{"asks twice", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return errors.Join(complete(ctx, s, run, fine), complete(ctx, s, run, fine))
		}, 1, 0},
		{"rolls back", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return complete(ctx, s, run, func() error { return errLate })
		}, 2, 1},
		{"rolls back and hides it", func(ctx context.Context, s *workshop, run *worker.Run) error {
			_ = complete(ctx, s, run, func() error { return errLate })
			return nil
		}, 2, 1},
		{"panics inside", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return complete(ctx, s, run, func() error { panic(errLate) })
		}, 2, 1},
		{"its goroutine ends inside", func(ctx context.Context, s *workshop, run *worker.Run) error {
			return complete(ctx, s, run, func() error { runtime.Goexit(); return nil })
		}, 2, 1},
		{"never commits", func(ctx context.Context, s *workshop, run *worker.Run) error {
			tx, err := s.store.DB().BeginTx(s.Context(), nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO rows VALUES (1)`); err != nil {
				return err
			}
			time.AfterFunc(300*time.Millisecond, func() { _ = tx.Rollback() })
			return run.CompleteIn(ctx, sqlite.Tx(tx))
		}, 2, 1},
		{"commits after it has returned", func(ctx context.Context, s *workshop, run *worker.Run) error {
			tx, err := s.store.DB().BeginTx(s.Context(), nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO rows VALUES (1)`); err != nil {
				return err
			}
			time.AfterFunc(300*time.Millisecond, func() { _ = tx.Commit() })
			return run.CompleteIn(ctx, sqlite.Tx(tx))
		}, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newWorkshop(t)
			w, stop := s.work(worker.Options{Poll: 20 * time.Millisecond}, func(w *worker.Worker) {
				worker.Handle(w, kind, func(ctx context.Context, run *worker.Run, _ workArgs) error {
					if s.ran(run) == 1 {
						return tt.first(ctx, s, run)
					}
					return complete(ctx, s, run, fine)
				})
			})
			id := s.enqueue(kind.New(workArgs{}, nexjob.Options{}))
			j := s.wait(id)
			if j.State != nexjob.Succeeded || j.Tries != tt.tries || j.Crashes != 0 || s.rows() != 1 {
				t.Errorf("job %v after %d tries, %d crashes, %d rows", j.State, j.Tries, j.Crashes, s.rows())
			}
			stop()
			if h := w.Health(); s.runs[id] != tt.runs || h.Succeeded > 1 || h.LeasesLost+h.LetGo != 0 || h.Unsettled != 0 {
				t.Errorf("%d runs, health %+v", s.runs[id], h)
			}
		})
	}
}
