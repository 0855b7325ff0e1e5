package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
)

// nowhere is the Options.ListenURL that turns listening off.
const nowhere = "none"

// hearing is how a listener keeps its connection. Tests are in more of a hurry.
type hearing struct {
	// check is how long the connection may be silent before it is tried: one whose other
	// side is gone without a word looks just as silent.
	check time.Duration
	// answer is how long the server may take for a connection or for a check.
	answer time.Duration
	// first and last are the shortest and the longest pause after a break, with jitter.
	first, last time.Duration
	// ring is the shortest time between two rings: a hundred processes that signal are not
	// to make a hundred times as many claims.
	ring time.Duration
}

func usualHearing() hearing {
	return hearing{
		check: 15 * time.Second, answer: 5 * time.Second, first: 50 * time.Millisecond, last: 5 * time.Second,
		ring: notifyEvery,
	}
}

// listener hears the signals of other processes on a connection of its own, which it makes
// when somebody begins to wait for work: a store that only enqueues has none. While the
// connection is broken, polls find the work.
type listener struct {
	store  *Store
	config func(ctx context.Context) (*pgx.ConnConfig, error) // nil: nothing is heard
	pace   hearing
	clock  func() time.Time // of the host: pauses are no business of the storage's

	mu      sync.Mutex
	started bool
	closed  bool
}

// newListener checks where to listen.
func newListener(s *Store, url string) (*listener, error) {
	l := &listener{store: s, pace: usualHearing(), clock: onewriter.HostClock(nil)}
	switch url {
	case nowhere:
	case "":
		l.config = func(ctx context.Context) (*pgx.ConnConfig, error) { return configOf(ctx, s.pool) }
	default:
		config, err := pgxpool.ParseConfig(url) // it may have parameters of a pool
		if err != nil {
			return nil, &nexjob.InvalidError{Field: "ListenURL", Why: err.Error(), Remedy: "a URL of PostgreSQL, or none"}
		}
		l.config = func(context.Context) (*pgx.ConnConfig, error) { return config.ConnConfig.Copy(), nil }
	}
	return l, nil
}

// configOf is how a pool connects, with what its owner changes before each connection,
// such as a password that does not live long.
func configOf(ctx context.Context, pool *pgxpool.Pool) (*pgx.ConnConfig, error) {
	all := pool.Config()
	config := all.ConnConfig
	if all.BeforeConnect != nil {
		return config, all.BeforeConnect(ctx, config)
	}
	return config, nil
}

// start begins to listen, unless that was done.
func (l *listener) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.closed || l.config == nil {
		return
	}
	l.started = true
	l.store.workers.Go(func() { l.run(l.store.life) })
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// run listens until the store closes. A break is followed by a pause that grows, so that a
// server which refuses is not stormed.
func (l *listener) run(ctx context.Context) {
	for wait := l.pace.first; ctx.Err() == nil; wait = min(2*wait, l.pace.last) {
		began := l.clock()
		err := l.session(ctx)
		if errors.Is(err, errPooled) {
			return
		}
		if l.clock().Sub(began) > l.pace.last {
			wait = l.pace.first
		}
		pause(ctx, wait/2+rand.N(wait/2+1)) //nolint:gosec // spreads those who lost one server
	}
}

// errPooled ends a listener behind a pooler, which hands no signals on.
var errPooled = errors.New("the connection leads through a pooler")

// session connects and hears until the connection breaks.
func (l *listener) session(ctx context.Context) error {
	conn, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return l.hear(ctx, conn)
}

func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.pace.answer)
	defer cancel()
	config, err := l.config(ctx)
	if err != nil {
		return nil, err
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "nexjob listen" // for those who look at the server's sessions
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	pooled, err := throughPooler(ctx, conn.PgConn())
	if err == nil && pooled {
		err = errPooled
	}
	if err == nil {
		_, err = conn.PgConn().Exec(ctx, "LISTEN "+pgx.Identifier{l.store.names.channel()}.Sanitize()).ReadAll()
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// hear rings once for what was missed and then after signals of others.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn) error {
	rang, owed := time.Time{}, true
	heard := l.clock()
	for {
		now := l.clock()
		if owed && now.Sub(rang) >= l.pace.ring {
			l.store.bell.Relayed()
			rang, owed = now, false
		}
		until := heard.Add(l.pace.check)
		if next := rang.Add(l.pace.ring); owed && next.Before(until) {
			until = next
		}
		signal, err := await(ctx, conn, until)
		switch {
		case err != nil:
			return err
		case signal != nil:
			heard = l.clock()
			owed = owed || signal.Payload != l.store.notifies.name
		case !owed:
			if err := l.try(ctx, conn); err != nil {
				return err
			}
			heard = l.clock()
		}
	}
}

// await answers the next signal, or none that came until a time.
func await(ctx context.Context, conn *pgx.Conn, until time.Time) (*pgconn.Notification, error) {
	short, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	signal, err := conn.WaitForNotification(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil && !conn.IsClosed() {
		return nil, nil //nolint:nilnil // the time is over, and that is no error
	}
	return signal, err
}

// try asks the server for an answer.
func (l *listener) try(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, l.pace.answer)
	defer cancel()
	return conn.Ping(ctx)
}

// relay joins a store's bell to those of other processes.
type relay struct{ store *Store }

// Listening begins to hear other processes.
func (r relay) Listening() { r.store.hears.start() }

// Rang tells other processes.
func (r relay) Rang() { r.store.notifies.note() }
