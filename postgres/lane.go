package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// lane gathers the single enqueues of many callers into one statement: what comes while a
// flush is under way goes into the next one. A flush waits for nobody's key; an item whose
// key is held is handed back to its caller, who waits alone.
type lane struct {
	store *Store

	mu      sync.Mutex
	queue   []*single
	flushes int            // under way
	held    map[string]int // keys that callers wait for alone
}

const (
	maxFlush   = 512 // items of one flush
	maxFlushes = 2   // at once
	// secondFrom is how many must wait before a second flush begins beside the first.
	secondFrom = 64
	// flushFor bounds a flush whose server does not answer.
	flushFor = 30 * time.Second
)

// single is one caller's item.
type single struct {
	item   nexjob.NewJob
	now    time.Time
	wait   onewriter.Wait
	answer nexjob.Answer
	left   bool // the caller must go on alone
	err    error
	done   chan struct{}
}

func newLane(s *Store) *lane {
	return &lane{store: s, held: make(map[string]int)}
}

// enqueue adds one job. left says that the lane could not decide it.
func (l *lane) enqueue(ctx context.Context, now time.Time, item *nexjob.NewJob) (answer nexjob.Answer, left bool, err error) {
	one := &single{item: *item, now: now, wait: l.store.wait(), done: make(chan struct{})}
	l.mu.Lock()
	if item.IdempotencyKey != "" && l.held[item.IdempotencyKey] > 0 {
		l.mu.Unlock()
		return nexjob.Answer{}, true, nil
	}
	l.queue = append(l.queue, one)
	l.start()
	l.mu.Unlock()
	select {
	case <-one.done:
		return one.answer, one.left, one.err
	case <-ctx.Done():
	}
	if l.withdraw(one) {
		return nexjob.Answer{}, false, ctx.Err()
	}
	return nexjob.Answer{}, false, fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, ctx.Err())
}

// withdraw takes an item out that no flush has taken yet.
func (l *lane) withdraw(one *single) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queue {
		if l.queue[i] == one {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			return true
		}
	}
	return false
}

// start begins a flush if there is something to do for one more. Under the lock.
func (l *lane) start() {
	if len(l.queue) == 0 || l.flushes >= maxFlushes || l.flushes > 0 && len(l.queue) < secondFrom {
		return
	}
	l.flushes++
	l.store.workers.Go(l.work)
}

// work flushes until nothing waits.
func (l *lane) work() {
	for {
		l.mu.Lock()
		batch := l.take()
		if len(batch) == 0 {
			l.flushes--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.flush(batch)
	}
}

// take returns the items of the next flush: their keys differ, and so do their IDs. Under
// the lock.
func (l *lane) take() []*single {
	if len(l.queue) == 0 {
		return nil
	}
	batch := make([]*single, 0, min(len(l.queue), maxFlush))
	keys := make(map[string]bool, len(l.queue))
	ids := make(map[nexjob.ID]bool, len(l.queue))
	kept := l.queue[:0]
	for _, one := range l.queue {
		key := one.item.IdempotencyKey
		if len(batch) == maxFlush || key != "" && keys[key] || ids[one.item.ID] {
			kept = append(kept, one)
			continue
		}
		keys[key], ids[one.item.ID] = true, true
		batch = append(batch, one)
	}
	clear(l.queue[len(kept):])
	l.queue = kept
	return batch
}

// flush adds the items of a batch in one statement and answers each.
func (l *lane) flush(batch []*single) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.store.life), flushFor)
	defer cancel()
	items, which := make([]nexjob.NewJob, len(batch)), make([]int, len(batch))
	now := batch[0].wait.Add(batch[0].now)
	for i, one := range batch {
		items[i], which[i] = one.item, i
		if at := one.wait.Add(one.now); at.After(now) {
			now = at
		}
	}
	answers := make([]nexjob.Answer, len(batch))
	var left []int
	call := l.store.adding(now, items, which, patience, answers, &left)
	err := l.store.hot(ctx, "enqueue", call.Take, call.Args...)
	if err != nil {
		l.failed(batch, err)
		return
	}
	for _, i := range left {
		batch[i].left = true
	}
	for i, one := range batch {
		one.answer = answers[i]
		close(one.done)
	}
}

// failed answers a batch of which nothing happened, or of which that is not known. What
// only one of them may have caused, such as a key that somebody holds, all go on alone; so
// they do where a session whose default is not READ COMMITTED has met somebody's change.
func (l *lane) failed(batch []*single, err error) {
	code := codeOf(err)
	alone := code == codeLocked || code == codeSerialization || again(err) || len(batch) > 1 && !passes(err)
	if unknown(err) {
		err, alone = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err), false
	}
	for _, one := range batch {
		one.left = alone
		if !alone {
			one.err = err
		}
		close(one.done)
	}
}

// hold notes that a caller waits alone for a key, so that others of the same key do not
// spoil a flush, until the returned function is called.
func (l *lane) hold(key string) (release func()) {
	if key == "" {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[key]--; l.held[key] == 0 {
			delete(l.held, key)
		}
	}
}
