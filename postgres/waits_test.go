package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/testenv"
	"github.com/nexjob/nexjob/postgres"
)

func TestHeldKey(t *testing.T) {
	server := ownServer(t, nil)
	t.Run("harms nobody else", func(t *testing.T) { heldKeyHarmsNobody(t, server) })
	t.Run("its waiters leave the pool to others", func(t *testing.T) { waitersLeaveThePool(t, server) })
	t.Run("one who gives up", func(t *testing.T) { waiterGivesUp(t, server) })
}

// underKey is a job with a key.
func underKey(key string) nexjob.NewJob {
	return numbered().New(1, nexjob.Options{IdempotencyKey: key})
}

// holdKey begins a transaction that holds a key.
func holdKey(t *testing.T, s *postgres.Store, conn *pgx.Conn, key string) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client(s).In(postgres.Tx(tx)).Enqueue(t.Context(), underKey(key)); err != nil {
		t.Fatal(err)
	}
	return tx
}

// heldKeyHarmsNobody compares how long enqueues of 255 callers take while one key is
// held for ten seconds, and its caller waits, with how long they take before and after.
func heldKeyHarmsNobody(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, url, postgres.Options{})
	c := client(s)
	var phase atomic.Int32 // 0: free, 1: held, 2: over
	var took [2][]time.Duration
	var mu sync.Mutex
	var group sync.WaitGroup
	for caller := range 255 {
		group.Go(func() {
			var mine [2][]time.Duration
			for n := 0; ; n++ {
				in := phase.Load()
				if in == 2 {
					break
				}
				began := time.Now()
				if _, err := c.Enqueue(t.Context(), underKey(fmt.Sprintf("%d-%d", caller, n))); err != nil {
					t.Error(err)
					return
				}
				mine[in] = append(mine[in], time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range mine {
				took[i] = append(took[i], mine[i]...)
			}
		})
	}
	window := func(d time.Duration) { <-time.After(d) }
	window(2 * time.Second)
	tx := holdKey(t, s, observer(t, url), "held")
	phase.Store(1)
	waited := make(chan error, 1)
	go func() {
		answer, err := c.Enqueue(context.Background(), underKey("held"))
		if err == nil && answer.Outcome != nexjob.Existing {
			err = errors.New(answer.Outcome.String())
		}
		waited <- err
	}()
	window(10 * time.Second)
	phase.Store(0)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := receive(t, 5*time.Second, "the waiter's answer", waited); err != nil {
		t.Error(err)
	}
	t.Logf("the waiter was answered %s after the key's release", time.Since(at))
	window(2 * time.Second)
	phase.Store(2)
	group.Wait()
	var p99 [2]time.Duration
	for i := range took {
		slices.Sort(took[i])
		p99[i] = took[i][len(took[i])*99/100]
		t.Logf("%d enqueues: median %s, p99 %s, longest %s", len(took[i]), took[i][len(took[i])/2], p99[i], took[i][len(took[i])-1])
	}
	if p99[1] > 3*p99[0]+20*time.Millisecond {
		t.Errorf("p99 is %s while one key is held, %s otherwise", p99[1], p99[0])
	}
}

// waitersLeaveThePool lets more callers wait for a key than the pool has connections.
func waitersLeaveThePool(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, with(t, url, "pool_max_conns", "4"), postgres.Options{})
	c := client(s)
	tx := holdKey(t, s, observer(t, url), "held")
	var waiting sync.WaitGroup
	for range 10 {
		waiting.Go(func() {
			if answer, err := c.Enqueue(t.Context(), underKey("held")); err != nil || answer.Outcome != nexjob.Existing {
				t.Errorf("%v, %v", answer.Outcome, err)
			}
		})
		waiting.Go(func() {
			answers, err := c.EnqueueMany(t.Context(), []nexjob.NewJob{underKey("held"), underKey("")})
			if err != nil || answers[0].Outcome != nexjob.Existing || answers[1].Outcome != nexjob.Created {
				t.Errorf("%v, %v", answers, err)
			}
		})
	}
	ended := time.After(3 * time.Second)
	var took []time.Duration
	for n := 0; ; n++ {
		select {
		case <-ended:
		default:
			began := time.Now()
			if _, err := c.Enqueue(t.Context(), underKey(fmt.Sprint(n))); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Clock(t.Context()); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(began))
			continue
		}
		break
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	waiting.Wait()
	slices.Sort(took)
	t.Logf("%d steps of others: median %s, p99 %s, longest %s; 20 waiters were done %s after the release",
		len(took), took[len(took)/2], took[len(took)*99/100], took[len(took)-1], time.Since(at))
	if len(took) < 50 || took[len(took)*9/10] > 100*time.Millisecond {
		t.Errorf("waiters keep others from the pool: %d steps, of which the ninth in ten took %s", len(took), took[len(took)*9/10])
	}
}

func waiterGivesUp(t *testing.T, server *testenv.Postgres) {
	url := newDatabase(t, server)
	s := openAt(t, with(t, url, "pool_max_conns", "4"), postgres.Options{})
	tx := holdKey(t, s, observer(t, url), "held")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	var unknown atomic.Bool // the time may be over just when a flush with the job is under way
	for range 8 {
		group.Go(func() {
			_, err := client(s).Enqueue(ctx, underKey("held"))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("enqueue: %v", err)
			}
			if errors.Is(err, nexjob.ErrOutcomeUnknown) {
				unknown.Store(true)
			}
		})
	}
	group.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answer, err := client(s).Enqueue(t.Context(), underKey("held")); err != nil || answer.Outcome != nexjob.Created && !unknown.Load() {
		t.Errorf("%v, %v", answer.Outcome, err)
	}
}
