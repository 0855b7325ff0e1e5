package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// lane gathers the single enqueues of many callers into one statement: what comes while a
// flush is under way goes into the next one. A flush waits for nobody's key; an item whose
// key is held is handed back to its caller, who waits alone.
type lane struct {
	store *Store

	mu      sync.Mutex
	queue   []*single
	closed  bool
	flushes int            // under way
	held    map[string]int // keys that callers wait for alone
	share   float64        // of the latest items, those that added nothing
}

const (
	maxFlush   = 512 // items of one flush
	maxFlushes = 2   // at once
	// secondFrom is how many must wait before a second flush begins beside the first.
	secondFrom = 64
	// recent is about how many items are remembered for what is expected of the next.
	recent = 32
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
	if l.closed {
		l.mu.Unlock()
		return nexjob.Answer{}, false, nexjob.ErrClosed
	}
	if item.IdempotencyKey != "" && l.held[item.IdempotencyKey] > 0 {
		l.mu.Unlock()
		return nexjob.Answer{}, true, nil
	}
	if l.flushes == 0 && len(l.queue) == 0 {
		return l.lead(ctx, one)
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

// lead flushes one item in its caller's own goroutine, which spares a caller who is alone
// two changes of goroutines. What comes meanwhile is flushed by others. It is called under
// the lock, and gives it up.
func (l *lane) lead(ctx context.Context, one *single) (nexjob.Answer, bool, error) {
	l.flushes++
	l.store.workers.Add(1)
	l.mu.Unlock()
	defer l.store.workers.Done()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.flushes--
		l.start()
	}()
	l.flush(ctx, []*single{one})
	return one.answer, one.left, one.err
}

// close lets no flush begin any more that has not got an item yet.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
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
		l.flushShared(batch)
	}
}

// flushShared flushes the items of several callers, none of whom can interrupt it.
func (l *lane) flushShared(batch []*single) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.store.life), flushFor)
	defer cancel()
	l.flush(ctx, batch)
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

// flush adds the items of a batch in one statement and answers each. While most items
// turn out to add nothing, it first looks, which takes no lock and writes nothing.
func (l *lane) flush(ctx context.Context, batch []*single) {
	if l.mostlyHeld() {
		var err error
		if batch, err = l.look(ctx, batch); err != nil {
			l.failed(batch, err)
			return
		}
		if len(batch) == 0 {
			return
		}
	}
	l.addOrSplit(ctx, batch, patience)
}

// splitPatience is how long the parts of a batch wait that was split.
const splitPatience = patience / 5

// addOrSplit adds the items of a batch and answers each. Where one of them may be what the
// batch failed by, such as one whose key somebody holds, its halves are tried, so that the
// others are soon done and only that one is handed back.
func (l *lane) addOrSplit(ctx context.Context, batch []*single, wait time.Duration) {
	if err := l.add(ctx, batch, wait); err != nil {
		if half := len(batch) / 2; half > 0 && alone(err) {
			l.addOrSplit(ctx, batch[:half], splitPatience)
			l.addOrSplit(ctx, batch[half:], splitPatience)
			return
		}
		l.failed(batch, err)
		return
	}
	held := 0
	for _, one := range batch {
		if one.left || one.answer.Outcome != nexjob.Created {
			held++
		}
	}
	l.learn(held, len(batch))
	answer(batch)
}

func answer(batch []*single) {
	for _, one := range batch {
		close(one.done)
	}
}

// add adds the items of a batch and fills in their answers.
func (l *lane) add(ctx context.Context, batch []*single, wait time.Duration) error {
	if len(batch) == 1 {
		one := batch[0]
		call := l.store.addingOne(one.wait.Add(one.now), &one.item, wait, &one.answer, &one.left)
		return l.store.hot(ctx, "add", call.Take, call.Args...)
	}
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
	call := l.store.adding(now, items, which, wait, answers, &left, leaving)
	if err := l.store.hot(ctx, "enqueue", call.Take, call.Args...); err != nil {
		return err
	}
	for i, one := range batch {
		one.answer = answers[i]
	}
	for _, i := range left {
		batch[i].left = true
	}
	return nil
}

// look answers the items of a batch that add nothing, and returns the others.
func (l *lane) look(ctx context.Context, batch []*single) ([]*single, error) {
	ids, keys := wire.UUIDs(len(batch)), wire.Byteas(len(batch), 24)
	for _, one := range batch {
		ids.Bytes(one.item.ID[:])
		keys.TextOrNull(one.item.IdempotencyKey)
	}
	held := make([]bool, len(batch))
	err := l.store.hot(ctx, "look", func(row wire.Row) error {
		i := row.Int64(0) - 1
		one := batch[i]
		judged := judge(row, &one.item, one.wait.Add(one.now))
		if held[i] = !judged.Fresh && judged.Answer.Outcome != nexjob.Replaced; held[i] {
			one.answer = judged.Answer
		}
		return nil
	}, ids.Arg(), keys.Arg())
	if err != nil {
		return batch, err
	}
	var rest []*single
	for i, one := range batch {
		if held[i] {
			close(one.done)
		} else {
			rest = append(rest, one)
		}
	}
	l.learn(len(batch)-len(rest), len(batch))
	return rest, nil
}

// mostlyHeld reports whether most of the latest items added nothing.
func (l *lane) mostlyHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.share > 0.5
}

// learn notes how many of some items added nothing.
func (l *lane) learn(held, of int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	weight := min(float64(of)/recent, 1)
	l.share += (float64(held)/float64(of) - l.share) * weight
}

// alone reports whether what a flush failed by may be one item's, so that nothing of it
// happened and the others can do without that one.
func alone(err error) bool {
	code := codeOf(err)
	return !unknown(err) && (code == codeLocked || code == codeSerialization || again(err) || !passes(err))
}

// failed answers a batch of which nothing happened, or of which that is not known. A single
// item whose key somebody holds goes on alone; so it does where the sessions' default has
// become stricter since the store was opened, and it has met somebody's change.
func (l *lane) failed(batch []*single, err error) {
	code := codeOf(err)
	left := code == codeLocked || code == codeSerialization || again(err)
	if unknown(err) {
		err, left = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err), false
	}
	for _, one := range batch {
		one.left = left
		if !left {
			one.err = err
		}
		close(one.done)
	}
}

// hold notes that a caller goes alone for a key, so that others of the same key do not
// spoil a flush, until the returned function is called. others says that somebody does so
// already.
func (l *lane) hold(key string) (others bool, release func()) {
	if key == "" {
		return false, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key]++
	return l.held[key] > 1, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[key]--; l.held[key] == 0 {
			delete(l.held, key)
		}
	}
}
