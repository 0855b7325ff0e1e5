package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/internal/onewriter"
	"github.com/nexjob/nexjob/internal/rules"
	"github.com/nexjob/nexjob/postgres/internal/wire"
)

// patience is how long a step that speaks for several callers waits for what somebody's
// open transaction holds, before each goes on alone.
const patience = 50 * time.Millisecond

// forever lets a step wait for as long as its caller does.
const forever = time.Duration(0)

// begin names the level that the steps are made for, whatever the session's default is.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// reruns bounds how often a step is done again that lost a race or a dead-lock.
const reruns = 10

// work is what a step does in a unit, on rows that it locks.
type work[T any] func(ctx context.Context, u *onewriter.Unit, r *rows) (T, error)

// step runs one transaction of the engine's own: f's changes stand together, or, when it
// answers an error, not at all.
func step[T any](ctx context.Context, s *Store, now time.Time, wait time.Duration, f work[T]) (T, error) {
	waited := s.wait()
	for n := 1; ; n++ {
		answer, err := try(ctx, s, waited.Add(now), wait, f)
		if err == nil || n >= reruns || !again(err) || ctx.Err() != nil {
			return answer, err
		}
	}
}

func try[T any](ctx context.Context, s *Store, now time.Time, wait time.Duration, f work[T]) (T, error) {
	var none T
	waited := s.wait()
	conn, err := s.acquire(ctx)
	if err != nil {
		return none, err
	}
	defer conn.Release() // one with an open transaction is closed
	now = waited.Add(now)
	on := wire.NewConn(conn.Conn())
	if err := s.begin(ctx, on, now, wait); err != nil {
		return none, refresh(ctx, conn, err)
	}
	return finish(ctx, s, conn, on, now, f)
}

// begin starts a transaction in which waits for locks are bounded.
func (s *Store) begin(ctx context.Context, on wire.Conn, now time.Time, wait time.Duration) error {
	calls := []wire.Call{
		{Statement: dynamic(begin)},
		{Statement: s.sheet["patience"], Args: []wire.Arg{wire.Text(fmt.Sprintf("%dms", wait.Milliseconds()))}},
		{Statement: s.sheet["plans"]},
	}
	if s.clock == nil {
		calls = append(calls, wire.Call{Statement: s.sheet["guard"], Args: []wire.Arg{wire.Int8(now.UnixMicro())}})
	}
	return on.RunAll(ctx, calls)
}

// finish does the work in a transaction that has begun, and commits it.
func finish[T any](
	ctx context.Context, s *Store, conn *pgxpool.Conn, on wire.Conn, now time.Time, f work[T],
) (T, error) {
	var none T
	r := &rows{session: session{sheet: s.sheet, on: on}}
	u := onewriter.Join(r, now)
	answer, err := f(ctx, u, r)
	wrote := false
	if err == nil {
		wrote, err = u.End(ctx)
	}
	if err == nil {
		err = r.end(ctx)
	}
	if err != nil {
		rollback(ctx, conn)
		return none, refresh(ctx, conn, err)
	}
	if err := commit(ctx, on); err != nil {
		return none, err
	}
	if wrote && s.clock != nil {
		_ = s.beatOn(ctx, conn, now, false)
	}
	if u.Rings() {
		s.rang()
	}
	return answer, nil
}

// commit ends a transaction. It is not interrupted: what it came to would not be known.
func commit(ctx context.Context, on wire.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := on.Run(ctx, dynamic("COMMIT"), nil)
	if unknown(err) {
		err = fmt.Errorf("%w: %w", nexjob.ErrOutcomeUnknown, err)
	}
	return err
}

// rollback gives a connection back as it was, or lets the pool close it.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	if conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}

// Record writes receipts; see nexjob.Ledger.
func (s *Store) Record(ctx context.Context, now time.Time, receipts []nexjob.Receipt) ([]nexjob.Recorded, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("record", err)
	}
	answers, err := step(ctx, s, now, forever,
		func(ctx context.Context, u *onewriter.Unit, _ *rows) ([]nexjob.Recorded, error) {
			return u.Record(ctx, receipts)
		})
	return answers, wrap("record", err)
}

// Put compares and swaps entries; see nexjob.Registry.
func (s *Store) Put(ctx context.Context, now time.Time, puts []nexjob.Put) ([]nexjob.PutAnswer, error) {
	if err := s.check(ctx, now); err != nil {
		return nil, wrap("put", err)
	}
	answers, err := step(ctx, s, now, forever,
		func(ctx context.Context, u *onewriter.Unit, _ *rows) ([]nexjob.PutAnswer, error) {
			return u.Put(ctx, puts)
		})
	return answers, wrap("put", err)
}

// Amend applies an action to jobs; see nexjob.Archive. A job whose row or key somebody's
// open transaction holds is left out of an action on several.
func (s *Store) Amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	if err := s.check(ctx, now); err != nil {
		return nexjob.Amended{}, wrap("amend", err)
	}
	wait := forever
	if limit > 1 && do.FollowUp == nil {
		wait = patience
	}
	done, err := s.amend(ctx, now, q, do, limit, wait)
	if wait != forever && codeOf(err) == codeLocked {
		done, err = s.amendFree(ctx, now, q, do, limit)
	}
	return done, wrap("amend", err)
}

func (s *Store) amend(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int, wait time.Duration,
) (nexjob.Amended, error) {
	return step(ctx, s, now, wait, func(ctx context.Context, u *onewriter.Unit, r *rows) (nexjob.Amended, error) {
		r.act = do.Act
		if do.FollowUp != nil && do.FollowUp.IdempotencyKey != "" && nexjob.ValidateKey(do.FollowUp.IdempotencyKey) == nil {
			if err := r.lockKeys(ctx, []string{do.FollowUp.IdempotencyKey}); err != nil {
				return nexjob.Amended{}, err
			}
		}
		return u.Amend(ctx, q, do, limit)
	})
}

// amendFree applies an action to jobs one by one and leaves out those of which somebody
// holds the row or the key: a long transaction of one user keeps retention from its own
// jobs alone.
func (s *Store) amendFree(
	ctx context.Context, now time.Time, q nexjob.Query, do nexjob.Action, limit int,
) (nexjob.Amended, error) {
	var all nexjob.Amended
	ids, err := read(ctx, s, "amend", now, func(in session) ([]nexjob.ID, error) { return in.chosen(ctx, now, &q, limit+1) })
	if err != nil {
		return all, err
	}
	all.More = len(ids) > limit
	for _, id := range ids[:min(len(ids), limit)] {
		one := q
		one.IDs = []nexjob.ID{id}
		done, err := s.amend(ctx, now, one, do, 1, patience)
		if codeOf(err) == codeLocked {
			continue
		}
		if err != nil && len(all.Changes) > 0 { // what was done is told, and the next call meets the trouble
			all.More = true
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all.Changes = append(all.Changes, done.Changes...)
		all.Swept += done.Swept
	}
	return all, nil
}

// upkeep is what a store remembers of its own recoveries.
type upkeep struct {
	mu   sync.Mutex
	last time.Time // in the storage's time
}

// due reports whether leases are to be looked at now.
func (k *upkeep) due(now time.Time, every time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := now.Sub(k.last); since >= 0 && since < every {
		return false
	}
	k.last = now
	return true
}

// forget makes leases be looked at with the next claim.
func (k *upkeep) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = time.Time{}
}

// beat notes that the storage could be written at now. Only an exact store does it after
// every step: otherwise recoveries and renewals tell.
func (s *Store) beat(ctx context.Context, now time.Time) {
	if s.clock == nil {
		return
	}
	_ = s.beatNow(ctx, now, false)
}

// beatOfRenewal notes that leases could be renewed at now, unless this store has done so
// lately. Without it, workers whose slots are full would leave gaps as long as those of a
// server that was away, and leases that end in these are spared.
func (s *Store) beatOfRenewal(ctx context.Context, now time.Time, lease time.Duration) {
	if s.clock != nil {
		s.beat(ctx, now)
		return
	}
	if s.renewals.due(now, lease/12) {
		_ = s.beatNow(ctx, now, true)
	}
}

// beatNow notes a write on a connection of its own.
func (s *Store) beatNow(ctx context.Context, now time.Time, free bool) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return s.beatOn(ctx, conn, now, free)
}

// beatOn beats on a connection that is free: a step that held one and took another would
// wait for ever where a pool has no more of them. free says that whoever holds the note is
// left to write it.
func (s *Store) beatOn(ctx context.Context, conn *pgxpool.Conn, now time.Time, free bool) error {
	on := wire.NewConn(conn.Conn())
	noted := int64(0)
	_, err := on.Run(ctx, s.sheet["meta"], func(row wire.Row) error {
		noted = row.Int64(0)
		return nil
	}, wire.Text("pulse"))
	if err != nil || noted == rules.Micro(now).UnixMicro() {
		return err
	}
	if err := s.begin(ctx, on, now, time.Second); err != nil {
		return refresh(ctx, conn, err)
	}
	r := &rows{session: session{sheet: s.sheet, on: on}, free: free}
	p, err := r.Pulse(ctx)
	if err == nil && !now.Before(p.LastWrite) && !(free && p.LastWrite.IsZero()) {
		p.Beat(now)
		err = r.WritePulse(ctx, p)
	}
	if err != nil {
		rollback(ctx, conn)
		return err
	}
	return commit(ctx, on)
}
