package sqlite_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
)

func open(t testing.TB, o sqlite.Options) *sqlite.Store {
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "jobs.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
func job(key string) nexjob.NewJob {
	return nexjob.NewJob{ID: nexjob.NewID(), Kind: "charge", Args: []byte(`{"order_id":42,"cents":1999}`), Fingerprint: nexjob.FingerprintOf([]byte(`{}`)),
		Options: nexjob.Options{IdempotencyKey: key}}
}

func TestSpeed(t *testing.T) {
	s := open(t, sqlite.Options{})
	ctx := t.Context()
	const callers, each = 16, 2500
	start := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				a, err := s.Enqueue(ctx, time.Now(), []nexjob.NewJob{job(fmt.Sprintf("k-%d-%d", c, i))})
				if err != nil || a[0].Err != nil {
					t.Error(err, a)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	if false {return}
	t.Log(sqlite.Stat()); t.Logf("enqueue %d in %s: %.0f/s", callers*each, took, callers*each/took.Seconds())
	start = time.Now()
	n := 0
	for {
		cl, err := s.Claim(ctx, time.Now(), nexjob.ClaimRequest{Worker: "w", N: 100, Lease: time.Minute, Queues: []string{"default"}, Kinds: []string{"charge", "ship"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(cl) == 0 {
			break
		}
		var ends []nexjob.Settlement
		for i := range cl {
			if len(cl[i].Job.Args) == 0 { t.Fatal("args") }
			ends = append(ends, nexjob.Settlement{Lease: cl[i].Job.Lease(), As: nexjob.EndSucceeded})
		}
		if _, err := s.Settle(ctx, time.Now(), ends); err != nil {
			t.Fatal(err)
		}
		n += len(cl)
	}
	took = time.Since(start)
	t.Logf("claim+settle %d in %s: %.0f/s", n, took, float64(n)/took.Seconds())
}
