package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// childRole is what a started process does with its file, unless it serves it.
const childRole = "NEXJOB_SQLITE_CHILD_ROLE"

// roles are what another process can do with a file.
func roles() map[string]func(path string) error {
	return map[string]func(path string) error{
		"hold":    holdFile,
		"enqueue": enqueueForEver,
		"open":    openOnce,
		"batches": batchForEver,
	}
}

// holdFile holds the write lock, as a program does that knows nothing of the store,
// until its input ends.
func holdFile(path string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(context.Background())
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(context.Background(), `BEGIN IMMEDIATE`); err != nil {
		return err
	}
	fmt.Println("holding")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	_, err = conn.ExecContext(context.Background(), `COMMIT`)
	return err
}

// enqueueForEver enqueues from several goroutines and tells each job that was
// acknowledged, until it is killed.
func enqueueForEver(path string) error {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				id := nexjob.NewID()
				job := keyedJob("k" + id.String())
				job.ID = id
				if _, err := s.Enqueue(context.Background(), time.Now(), []nexjob.NewJob{job}); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(id)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

func openOnce(path string) error {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// process is another process at work on a file.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	lines   *bufio.Scanner
}

func startProcess(t testing.TB, role, path string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.CommandContext(t.Context(), self)}
	p.command.Env = append(os.Environ(), childFile+"="+path, childRole+"="+role)
	p.command.Stderr = os.Stderr
	if p.in, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) line(t testing.TB) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("the other process says no more: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// finish ends the process's input and waits for it.
func (p *process) finish(t testing.TB) {
	t.Helper()
	_ = p.in.Close()
	if err := p.command.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// TestAnotherProcessHoldsTheFile (B067): no busy error reaches callers; they wait for
// their contexts.
func TestAnotherProcessHoldsTheFile(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{keyedJob("before")}); err != nil {
		t.Fatal(err)
	}
	holder := startProcess(t, "hold", path)
	holder.line(t)
	waiting := make(chan error)
	steps := []func(ctx context.Context) error{
		func(ctx context.Context) error {
			_, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{keyedJob("waits")})
			return err
		},
		func(ctx context.Context) error {
			return s.InTx(ctx, func(tx *sql.Tx) error { return enqueueIn(ctx, s, tx, keyedJob("waits too")) })
		},
	}
	for _, step := range steps {
		go func() { waiting <- step(t.Context()) }()
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		for _, step := range steps {
			if err := step(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nexjob.ErrOutcomeUnknown) {
				t.Errorf("a caller whose time is over is answered %v", err)
			}
		}
		cancel()
	}
	if _, err := s.Find(t.Context(), time.Now(), nexjob.Query{}); err != nil {
		t.Errorf("a reader is answered %v", err)
	}
	if claimed, err := s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
		N: 1, Lease: time.Hour, Queues: []string{"default"}, Kinds: []string{"ship"},
	}); err != nil || len(claimed) != 0 {
		t.Errorf("an idle claim is answered %v, %v", err, claimed)
	}
	select {
	case err := <-waiting:
		t.Errorf("a caller did not wait: %v", err)
	default:
	}
	holder.finish(t)
	for range steps {
		if err := <-waiting; err != nil {
			t.Errorf("a caller that waited is answered %v", err)
		}
	}
	if n := len(stored(t, s)); n != 3 {
		t.Errorf("%d jobs are stored, want one from before and those of the two who waited", n)
	}
}

// TestManyProcesses: several processes and a user's own transactions write to one
// file at once, and nobody meets an error.
func TestManyProcesses(t *testing.T) {
	s := open(t, file(t), sqlite.Options{})
	db := own(t, pathOf(t, s))
	second := inAnotherProcess(t, s, time.Now)
	var wg sync.WaitGroup
	const each = 100
	for i, storage := range []nexjob.Storage{s, second} {
		wg.Go(func() {
			for n := range each {
				now := time.Now()
				if _, err := storage.Enqueue(t.Context(), now, []nexjob.NewJob{keyedJob(fmt.Sprint(i, "-", n))}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for n := range each {
			if err := sqlite.InTx(t.Context(), db, func(tx *sql.Tx) error {
				return enqueueIn(t.Context(), s, tx, keyedJob(fmt.Sprint("tx-", n)))
			}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	wg.Wait()
	if n := len(stored(t, s)); n != 3*each {
		t.Errorf("%d jobs are stored, want %d", n, 3*each)
	}
}

// TestStallIsForgiven: a foreign transaction held the file for two leases, so nobody
// could renew. The first claim afterwards takes no healthy job away; a worker that
// really died is found later.
func TestStallIsForgiven(t *testing.T) {
	const lease = 10 * time.Second
	for name, hold := range map[string]func(t *testing.T, s *sqlite.Store) (release func()){
		"this process": func(t *testing.T, s *sqlite.Store) func() {
			tx, err := s.DB().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = tx.Rollback() }
		},
		"another process": func(t *testing.T, s *sqlite.Store) func() {
			holder := startProcess(t, "hold", pathOf(t, s))
			holder.line(t)
			return func() { holder.finish(t) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			now := time.Now()
			clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
			pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
			s := open(t, file(t), sqlite.Options{Clock: clock})
			claim := func() []nexjob.Claimed {
				claimed, err := s.Claim(t.Context(), clock(), nexjob.ClaimRequest{
					Worker: "w", N: 5, Lease: lease, Queues: []string{"default"}, Kinds: []string{"charge"},
				})
				if err != nil {
					t.Fatal(err)
				}
				return claimed
			}
			jobs := []nexjob.NewJob{keyedJob("healthy"), keyedJob("dead")}
			if _, err := s.Enqueue(t.Context(), clock(), jobs); err != nil {
				t.Fatal(err)
			}
			claimed := claim()
			if len(claimed) != 2 {
				t.Fatalf("%d jobs are claimed, want 2", len(claimed))
			}
			pass(lease / 3)
			release := hold(t, s)
			pass(2 * lease)
			release()
			if again := claim(); len(again) != 0 {
				t.Fatalf("after the stall %d jobs were taken away from workers that could not renew", len(again))
			}
			for range 11 { // the silent worker is found a lease later
				renewed, err := s.Renew(t.Context(), clock(), clock().Add(lease), []nexjob.Lease{claimed[0].Job.Lease()})
				if err != nil || renewed[0].Status != nexjob.Renewed {
					t.Fatalf("renew after the stall: %v, %+v", err, renewed)
				}
				pass(time.Second)
				if again := claim(); len(again) > 0 {
					if len(again) != 1 || again[0].Job.ID != claimed[1].Job.ID {
						t.Errorf("recovered: %+v", again)
					}
					return
				}
			}
			t.Error("the job of the dead worker was not found a lease after the stall")
		})
	}
}

// TestKilledInTheMiddle: a process is killed in the middle of its commits; every
// enqueue that it was told of is there.
func TestKilledInTheMiddle(t *testing.T) {
	path := file(t)
	told := make(map[string]bool)
	for range 5 {
		p := startProcess(t, "enqueue", path)
		for range 200 {
			told[p.line(t)] = true
		}
		if err := p.command.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for p.lines.Scan() {
			if line := p.lines.Text(); len(line) == 36 {
				told[line] = true
			}
		}
		_ = p.command.Wait()
	}
	s := open(t, path, sqlite.Options{})
	q := nexjob.Query{Limit: nexjob.MaxPage}
	n := 0
	for {
		page, err := s.Find(t.Context(), time.Now(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			n++
			delete(told, page.Jobs[i].ID.String())
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(told) > 0 {
		t.Errorf("%d jobs that were acknowledged are lost; %d are there", len(told), n)
	}
	var check string
	if err := s.DB().QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity check: %v, %s", err, check)
	}
}

// TestOpenAtOnce: several processes open a new file at the same moment.
func TestOpenAtOnce(t *testing.T) {
	path := file(t)
	processes := make([]*process, 4)
	for i := range processes {
		processes[i] = startProcess(t, "open", path)
	}
	for _, p := range processes {
		p.finish(t)
	}
	s := open(t, path, sqlite.Options{})
	if _, err := s.Enqueue(t.Context(), time.Now(), []nexjob.NewJob{keyedJob("k")}); err != nil {
		t.Error(err)
	}
}
