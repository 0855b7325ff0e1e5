package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/postgres"
)

// roles are what another process can do with tables.
func roles() map[string]func(url, schema string) error {
	return map[string]func(url, schema string) error{"enqueue": enqueueForEver}
}

// enqueueForEver enqueues from several goroutines and tells each job that was
// acknowledged, until it is killed.
func enqueueForEver(url, schema string) error {
	s, err := postgres.Open(context.Background(), url, postgres.Options{Schema: schema})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				j := job("")
				j.IdempotencyKey = j.ID.String()
				if _, err := s.Enqueue(context.Background(), time.Now(), []nexjob.NewJob{j}); err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(j.ID)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

// TestKilledWhileEnqueueing: what a process was told stands although it was killed, each
// key's row names a job that is there, and no session of it is left in a transaction.
func TestKilledWhileEnqueueing(t *testing.T) {
	t.Parallel()
	s := store(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), childURL+"="+s.Pool().Config().ConnString(), childRole+"=enqueue")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	told := 0
	for lines := bufio.NewScanner(out); lines.Scan(); told++ {
		if told == 200 {
			_ = child.Process.Kill()
		}
		if n := len(lines.Text()); n < 36 {
			continue // cut off by the kill
		}
		id, err := nexjob.ParseID(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.Find(t.Context(), time.Now(), nexjob.Query{IDs: []nexjob.ID{id}})
		if err != nil || len(page.Jobs) != 1 {
			t.Fatalf("job %s was acknowledged and is not there: %v", id, err)
		}
	}
	_ = child.Wait()
	if told <= 200 {
		t.Errorf("the process told of %d jobs only", told)
	}
	if n := ask[int](t, s.Pool(), `SELECT count(*) FROM nexjob_keys k WHERE NOT EXISTS (SELECT 1 FROM nexjob_jobs j WHERE j.id = k.job)`); n != 0 {
		t.Errorf("%d keys name jobs that are not there", n)
	}
}
