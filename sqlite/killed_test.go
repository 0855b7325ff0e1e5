package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

// batchSize is how many jobs a batch of batchForEver has.
const batchSize = 33

// batchForEver enqueues batches of jobs of several shapes, claims and settles some, until
// it is killed.
func batchForEver(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		return err
	}
	fmt.Println("begun")
	for {
		batch := nexjob.NewID().String()
		jobs := make([]nexjob.NewJob, batchSize)
		for i := range jobs {
			jobs[i] = keyedJob(fmt.Sprint(batch, i))
			jobs[i].Queue = "batches"
			jobs[i].Tags = []string{batch}
			if i%4 == 0 {
				jobs[i].Args = text(2000, "x")
				jobs[i].Fingerprint = nexjob.FingerprintOf(jobs[i].Args)
			}
		}
		if _, err := s.Enqueue(ctx, time.Now(), jobs); err != nil {
			return err
		}
		claimed, err := s.Claim(ctx, time.Now(), nexjob.ClaimRequest{
			Worker: "killed", N: 20, Lease: time.Minute, Queues: []string{"batches"}, Kinds: []string{"charge"},
		})
		if err != nil {
			return err
		}
		ends := make([]nexjob.Settlement, len(claimed))
		for i := range claimed {
			ends[i] = nexjob.Settlement{Lease: claimed[i].Job.Lease(), As: nexjob.EndSucceeded, Result: []byte("1")}
		}
		if _, err := s.Settle(ctx, time.Now(), ends); err != nil {
			return err
		}
	}
}

// TestKilledAmongOthers: processes are killed at any moment of their batches while this
// one reads and writes, and settles jobs that it leased before: no batch is there by
// half, and the tables agree.
func TestKilledAmongOthers(t *testing.T) {
	s := open(t, file(t), sqlite.Options{Synchronous: sqlite.Normal})
	draw := rand.New(rand.NewPCG(9, 9))
	for round := range 12 {
		p := startProcess(t, "batches", pathOf(t, s))
		p.line(t)
		timer := time.AfterFunc(time.Duration(draw.IntN(60))*time.Millisecond, func() { _ = p.command.Process.Kill() })
		dead := make(chan struct{})
		go func() { _ = p.command.Wait(); close(dead) }()
		for i, alive := 0, true; alive; i++ {
			ownLife(t, s, fmt.Sprint(round, "-", i))
			select {
			case <-dead:
				alive = false
			default:
			}
		}
		timer.Stop()
		var n int
		if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM (
			SELECT coalesce(j.tags, b.tags) FROM nexjob_jobs j LEFT JOIN nexjob_bodies b ON b.seq = j.seq
			WHERE j.queue = 'batches' GROUP BY 1 HAVING count(*) <> ?)`, batchSize).Scan(&n); err != nil || n > 0 {
			t.Fatalf("%d batches are there by half (%v)", n, err)
		}
		sound(t, s)
	}
}

// ownLife runs a job of this process's own, whose lease the store remembers meanwhile.
func ownLife(t *testing.T, s *sqlite.Store, key string) {
	t.Helper()
	if a := enqueue(t, s, keyedJob(key))[0]; a.Err != nil || a.Outcome != nexjob.Created {
		t.Fatalf("an enqueue is answered %+v", a)
	}
	claimed, err := s.Claim(t.Context(), time.Now(), nexjob.ClaimRequest{
		Worker: "w", N: 5, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge"},
	})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d jobs are claimed (%v), want 1", len(claimed), err)
	}
	settled, err := s.Settle(t.Context(), time.Now(), []nexjob.Settlement{{Lease: claimed[0].Job.Lease(), As: nexjob.EndSucceeded}})
	if err != nil || settled[0].Err != nil {
		t.Fatalf("a settlement is answered %v, %+v", err, settled)
	}
}
