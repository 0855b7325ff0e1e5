package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
)

const (
	// Bounds of one transaction, so that nobody waits long for a neighbour.
	callsAtOnce = 512
	itemsAtOnce = 2000
)

// lane is the one writer of a process. It owns the connection that writes and runs
// the calls that wait in one transaction, at once when it is idle. Those that come while
// it runs join it, and while its commit is under way the next ones gather. What it runs is
// not interrupted by the context of a caller, for others share the transaction.
type lane struct {
	store     *Store
	connector sqldriver.Connector

	busyTime time.Duration

	conn *direct // nil: to be made
	rows *rows

	// writing holds a token that this process's writers take in turn, the lane and
	// transactions of InTx: SQLite's lock alone would let a busy lane come first for
	// seconds on end.
	writing chan struct{}
	holder  holder

	host      func() time.Time
	gathering rules.Gathering

	cancel context.CancelFunc // ends the waiting for other writers, at Close
	ended  chan struct{}
	wake   chan struct{} // holds a token when something has come

	mu      sync.Mutex
	waiting []*call
	closed  bool
}

func newLane(s *Store, connector sqldriver.Connector, busyTime time.Duration) *lane {
	l := &lane{
		store: s, connector: connector, busyTime: busyTime, ended: make(chan struct{}), wake: make(chan struct{}, 1),
		writing: make(chan struct{}, 1), host: onewriter.HostClock(nil),
	}
	l.writing <- struct{}{}
	return l
}

// start takes the connection and begins to serve.
func (l *lane) start(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go l.serve(whole)
	return nil
}

// connect makes a fresh connection.
func (l *lane) connect(ctx context.Context) error {
	conn, err := l.connector.Connect(ctx)
	if err != nil {
		return err
	}
	fresh := newDirect(conn, l.store.sheet)
	if err := fresh.once(ctx, "PRAGMA busy_timeout = 0", ignore, nil); err != nil { // see begin
		_ = fresh.close()
		return err
	}
	floor := l.store.floor
	if l.rows != nil {
		floor = l.rows.floor
	}
	l.conn = fresh
	l.rows = &rows{
		session: &session{sheet: l.store.sheet, direct: fresh},
		known:   known{keeps: true},
		pulses:  new(pulseText),
		floor:   floor,
	}
	return nil
}

func ignore(values) error { return nil }

// stop ends the lane: calls that were taken up are finished, those that still wait
// for the file answer ErrClosed.
func (l *lane) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.nudge()
	<-l.ended
	l.disconnect()
}

func (l *lane) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// do waits until a call is done. The caller's context ends only the waiting: a call
// that was not taken up is dropped, of another one nobody knows yet.
func (l *lane) do(ctx context.Context, c *call) error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nexjob.ErrClosed
	}
	l.waiting = append(l.waiting, c)
	l.mu.Unlock()
	l.nudge()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, c)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	select {
	case <-c.done:
		return c.err
	default:
		return fmt.Errorf("%w: the caller stopped waiting: %w", nexjob.ErrOutcomeUnknown, ctx.Err())
	}
}

// serve runs what comes until the lane is stopped.
func (l *lane) serve(ctx context.Context) {
	defer close(l.ended)
	for range l.wake {
		// Callers that return from the last commit join the next one together.
		for l.gathering.Gather(l.host, l.count, callsAtOnce) > 0 {
			l.turn(ctx)
		}
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return
		}
	}
}

// turn runs one transaction. The calls are taken up once the write lock is held:
// until then a caller may leave, and more may come.
func (l *lane) turn(ctx context.Context) {
	leave, err := l.enter(ctx)
	if err != nil {
		l.refuse(nexjob.ErrClosed)
		return
	}
	defer leave()
	err = l.begin(ctx)
	switch {
	case err == nil:
		b := &batch{open: true}
		l.take(b)
		l.run(ctx, b)
	case ctx.Err() != nil:
		l.refuse(nexjob.ErrClosed)
	case isBusy(err): // somebody holds the file: wait on, as long as anyone does
	default:
		l.refuse(err)
		l.disconnect()
	}
}

// enter waits for the turn of a writer of this process, until leave.
func (l *lane) enter(ctx context.Context) (leave func(), err error) {
	select {
	case <-l.writing:
		return sync.OnceFunc(func() { l.writing <- struct{}{} }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin takes the file's write lock, waiting at most for the busy time. It asks more
// often than SQLite's own waiting does, which comes to sleep for 100 ms: a busy writer
// in another process leaves the file free for moments only. The context ends the waiting
// alone: a call that was taken up is done at a free file, also while the store closes.
func (l *lane) begin(ctx context.Context) error {
	whole := context.WithoutCancel(ctx)
	if l.conn == nil {
		if err := l.connect(whole); err != nil {
			return err
		}
	}
	var err error
	for waited := time.Duration(0); ; {
		_, err = l.conn.exec(whole, "begin", nil)
		l.holder.began(err)
		if err == nil || !isBusy(err) || waited >= l.busyTime {
			return err
		}
		again := askAgain(waited)
		if err := pause(ctx, again); err != nil {
			return err
		}
		waited += again
	}
}

// askAgain is how soon the write lock is asked for again after so long a wait.
func askAgain(waited time.Duration) time.Duration {
	return min(max(waited/256, time.Millisecond), 20*time.Millisecond)
}

// refuse answers an error to all who wait.
func (l *lane) refuse(err error) {
	l.mu.Lock()
	refused := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	finish(refused, err)
}

func finish(calls []*call, err error) {
	for _, c := range calls {
		c.err = err
		close(c.done)
	}
}

// run does the calls in the transaction that has begun, and, when that fails, each
// in one of its own, so that a bad one fails alone.
func (l *lane) run(ctx context.Context, b *batch) {
	whole := context.WithoutCancel(ctx)
	if len(b.calls) == 0 {
		l.rollback(whole)
		return
	}
	err := l.together(whole, b)
	if err == nil || len(b.calls) == 1 || errors.Is(err, nexjob.ErrOutcomeUnknown) {
		finish(b.calls, err)
		return
	}
	for _, c := range b.calls {
		finish([]*call{c}, l.alone(ctx, c))
	}
}

// alone does one call in a transaction of its own.
func (l *lane) alone(ctx context.Context, c *call) error {
	for {
		err := l.begin(ctx)
		switch {
		case err == nil:
			return l.together(context.WithoutCancel(ctx), &batch{calls: []*call{c}})
		case ctx.Err() != nil:
			return nexjob.ErrClosed
		case !isBusy(err):
			l.disconnect()
			return err
		case c.gone():
			return err
		}
	}
}

// together does calls in the transaction that has begun and commits it. A step that
// changed nothing is rolled back: there is nothing to flush.
func (l *lane) together(ctx context.Context, b *batch) error {
	wrote, rings, err := l.unit(ctx, b)
	if err != nil {
		l.rows.forget()
	}
	if err != nil || !wrote {
		l.rollback(ctx)
		if _, panicked := errors.AsType[*panicError](err); panicked {
			l.disconnect() // nobody knows what it left half done
		}
		return err
	}
	if _, err := l.conn.exec(ctx, "commit", nil); err != nil {
		l.rows.forget()
		l.rollback(ctx)
		return fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
	}
	if rings {
		l.store.bell.Ring()
	}
	return nil
}

// unit does the calls in the transaction that has begun, short of its commit, and those
// that come while it is at it: they share the flush to the disk. A panic becomes an error;
// whose it is shows when each call is done alone.
func (l *lane) unit(ctx context.Context, b *batch) (wrote, rings bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{value: r, stack: debug.Stack()}
		}
	}()
	l.rows.keys, l.rows.added = keyNotes{}, span{}
	if err := l.rows.refresh(ctx); err != nil {
		return false, false, err
	}
	unit, err := onewriter.Begin(ctx, l.rows, latest(b.calls))
	if err != nil {
		return false, false, err
	}
	if err := perform(ctx, unit, b.calls); err != nil {
		return false, false, err
	}
	for late := l.take(b); len(late) > 0; late = l.take(b) {
		if err := unit.Flush(ctx); err != nil {
			return false, false, err
		}
		unit.Advance(latest(late))
		if err := perform(ctx, unit, late); err != nil {
			return false, false, err
		}
	}
	wrote, err = unit.End(ctx)
	return wrote, unit.Rings(), err
}

// rollback ends a transaction that is not wanted. SQLite may have ended it by
// itself; a connection on which that cannot be told is replaced.
func (l *lane) rollback(ctx context.Context) {
	if _, err := l.conn.exec(ctx, "roll back", nil); err != nil {
		l.disconnect()
	}
}

// disconnect throws the connection away; the next turn makes a fresh one.
func (l *lane) disconnect() {
	if l.conn != nil {
		_ = l.conn.close()
	}
	l.conn = nil
}
