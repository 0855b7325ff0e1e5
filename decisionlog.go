package nexjob

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a decisionLog.
const (
	maxTallies    = 10_000           // keys remembered; the one longest untouched goes first
	decisionBatch = 200              // entries in one write
	writeEvery    = time.Second      // decisions of about a second go together
	writeLatest   = 30 * time.Second // after trouble the pause grows up to this
)

// decisionLog gathers a client's decisions per key in memory and writes them down
// about each second, as one entry per key. Its goroutine starts with the first
// pending decision and ends when none is left, so an idle client costs nothing.
// Enqueues never wait for a write.
type decisionLog struct {
	store Registry
	time  *StorageTime
	log   *slog.Logger
	lost  atomic.Int64  // decisions never written down
	stop  chan struct{} // closed by close: write at once, and for the last time

	mu      sync.Mutex
	tallies map[string]*list.Element // by key
	// recent holds every *tally, the one touched last in front. Those with
	// unwritten decisions are therefore the front part of it: writing goes from
	// the oldest of them to the newest, so that a write that fails half-way
	// leaves it so.
	recent  *list.List
	running bool
	closed  bool
	cancel  context.CancelFunc // ends the goroutine's write
	done    chan struct{}      // closed when the goroutine has ended; nil: none ever ran
	err     error              // of the newest write
}

// tally is what this process decided about one key since it remembers. A key that
// was forgotten and comes back gets a tally with another entry, so no count is
// overwritten by a smaller one.
type tally struct {
	entry     string // the entry's name, unique to this tally
	key       string
	decisions KeyDecisions
	unwritten int64
}

func newDecisionLog(store Registry, clock *StorageTime, log *slog.Logger) *decisionLog {
	return &decisionLog{
		store: store, time: clock, log: log, stop: make(chan struct{}),
		tallies: make(map[string]*list.Element), recent: list.New(),
	}
}

// note adds a decision and sees to it that it will be written.
func (l *decisionLog) note(key string, d Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.lost.Add(1)
		return
	}
	t := l.touch(key)
	t.decisions.add(d)
	t.unwritten++
	if l.running {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.running, l.cancel, l.done = true, cancel, make(chan struct{})
	go l.run(ctx, l.done)
}

// touch returns the tally of a key as the one touched last, and forgets the one
// longest untouched when there are too many.
func (l *decisionLog) touch(key string) *tally {
	if place, ok := l.tallies[key]; ok {
		l.recent.MoveToFront(place)
		return at(place)
	}
	if l.recent.Len() >= maxTallies {
		oldest := at(l.recent.Back())
		l.recent.Remove(l.recent.Back())
		delete(l.tallies, oldest.key)
		l.drop(oldest)
	}
	t := &tally{entry: NewID().String(), key: key}
	l.tallies[key] = l.recent.PushFront(t)
	return t
}

// at returns the tally at a place of the list, which holds nothing else.
func at(place *list.Element) *tally {
	t, _ := place.Value.(*tally)
	return t
}

// drop gives up what a tally has not written.
func (l *decisionLog) drop(t *tally) {
	l.lost.Add(t.unwritten)
	t.unwritten = 0
}

// own returns the name of this process's entry about a key, "" for none, and a copy
// of what it holds.
func (l *decisionLog) own(key string) (entry string, known KeyDecisions) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place, ok := l.tallies[key]
	if !ok {
		return "", KeyDecisions{}
	}
	t := at(place)
	return t.entry, KeyDecisions{
		Counts: slices.Clone(t.decisions.Counts), Last: slices.Clone(t.decisions.Last),
	}
}

// run writes until nothing is pending.
func (l *decisionLog) run(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	wait := writeEvery
	for {
		last := l.rest(wait)
		err := l.write(ctx)
		if err != nil {
			l.log.Warn("nexjob: decisions about duplicates were not written down", slog.Any("error", err))
		}
		if l.ended(err, last) {
			return
		}
		if err == nil {
			wait = writeEvery
			continue
		}
		wait = min(2*wait, writeLatest)
	}
}

// rest waits, and reports whether the write that follows is the last one.
func (l *decisionLog) rest(wait time.Duration) (last bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-l.stop:
		return true
	case <-timer.C:
		return false
	}
}

// ended decides after a write whether the goroutine is done: nothing is pending, or
// what is will never be taken.
func (l *decisionLog) ended(err error, last bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	waiting := l.waiting()
	if len(waiting) > 0 && !last && !errors.Is(err, ErrClosed) {
		return false
	}
	for _, t := range waiting {
		l.drop(t)
	}
	l.cancel()
	l.running = false
	return true
}

// waiting returns the tallies with unwritten decisions, the oldest first.
func (l *decisionLog) waiting() []*tally {
	var tallies []*tally
	for place := l.recent.Front(); place != nil && at(place).unwritten > 0; place = place.Next() {
		tallies = append(tallies, at(place))
	}
	slices.Reverse(tallies)
	return tallies
}

// write writes down what is pending, in batches.
func (l *decisionLog) write(ctx context.Context) error {
	l.mu.Lock()
	waiting := l.waiting()
	l.mu.Unlock()
	for batch := range slices.Chunk(waiting, decisionBatch) {
		if err := l.writeBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (l *decisionLog) writeBatch(ctx context.Context, batch []*tally) error {
	puts := make([]Put, len(batch))
	written := make([]int64, len(batch))
	l.mu.Lock()
	for i, t := range batch {
		value, err := json.Marshal(decisionValue{Key: t.key, KeyDecisions: t.decisions})
		if err != nil {
			l.mu.Unlock()
			return err
		}
		puts[i] = Put{Entry: Entry{Kind: decisionKind(t.key), Name: t.entry, Value: value}, Always: true}
		written[i] = t.unwritten
	}
	l.mu.Unlock()

	var answers []PutAnswer
	err := l.time.Do(ctx, func(now time.Time) (err error) {
		for i := range puts {
			puts[i].Entry.ExpiresAt = now.Add(decisionLife)
		}
		answers, err = l.store.Put(ctx, now, puts)
		return err
	})
	if err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	for i, t := range batch {
		if i < len(answers) && answers[i].Err != nil {
			l.lost.Add(written[i]) // an entry that is refused now is refused for ever
			err = answers[i].Err
		}
		t.unwritten = max(t.unwritten-written[i], 0) // it was forgotten meanwhile: counted as lost
	}
	return err
}

// close writes what is pending, for the last time, and waits for it until ctx ends.
func (l *decisionLog) close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.stop)
	}
	done, cancel := l.done, l.cancel
	l.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
