package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/worker/internal/wire"
)

// sending is one Effect.Do with the answer's type inside its functions.
type sending struct {
	run           *Run
	name, item    string
	request       nexjob.Fingerprint
	send          func(ctx context.Context, key string) (encoded, error)
	lookup        func(ctx context.Context, key string) (encoded, nexjob.Verdict, error) // nil: none
	repeatableFor time.Duration
	lookupAfter   time.Duration
	atMostOnce    bool

	asked time.Time // when it was looked up; zero: not since the newest send
}

var (
	errNotFirst = errors.New("another attempt was first")
	errNoTime   = errors.New("too little of the lease is left to send it; nothing was sent")
	errThawed   = errors.New("the machine slept, or its clock was set; nothing was sent")
	errSentLong = errors.New("it was still being sent when the lease was about to end")
)

// do returns the effect's confirmed receipt, sending first if need be.
func (s *sending) do(ctx context.Context) (*nexjob.Receipt, error) {
	if err := s.run.enter(ctx, s.name, s.item, false); err != nil {
		return nil, err
	}
	turn, standing := s.run.effect(s.name, s.item)
	if standing == nil {
		return s.intend(ctx, turn, nil)
	}
	if standing.Fingerprint != s.request {
		return nil, Permanent(&nexjob.EffectMismatchError{
			Operation: standing.Operation, Name: s.name, Item: s.item, State: standing.State,
			Standing: standing.Fingerprint, Fingerprint: s.request,
		})
	}
	switch standing.State {
	case nexjob.Confirmed:
		return standing, nil
	case nexjob.Compensated:
		return nil, Permanent(errors.New("a person gave up on it and had it compensated; " +
			"enqueue with NewOperation if it is meant once more"))
	case nexjob.Intended:
		if s.run.lookup && s.lookup != nil {
			return s.ask(ctx, standing)
		}
	case nexjob.Disproved, nexjob.Refused:
	}
	return s.intend(ctx, turn, standing)
}

// intend records that the effect is about to be sent, then sends it. The storage
// decides whether a repeat is allowed.
func (s *sending) intend(ctx context.Context, turn int, standing *nexjob.Receipt) (*nexjob.Receipt, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	before, last := s.run.sendBefore()
	if time.Until(last) < s.run.worker.sendMargin() {
		return nil, errNoTime
	}
	if s.thawed(ctx, last) {
		return nil, errThawed
	}
	intent := nexjob.Receipt{
		Operation: s.run.job.operation, Sort: nexjob.EffectReceipt, Name: s.name, Item: s.item, Turn: turn,
		Fingerprint: s.request, State: nexjob.Intended, Writer: s.run.attempt.lease,
		OutsideKey: nexjob.OutsideKey(s.run.job.operation, s.name, s.item, turn),
		SendBefore: before, RepeatableFor: s.repeatableFor, LookupAfter: s.lookupAfter,
		Lookup: s.lookup != nil, AtMostOnce: s.atMostOnce,
	}
	recorded, err := s.run.record(ctx, intent)
	if err != nil {
		return nil, err
	}
	var still *nexjob.StillUnknownError
	switch {
	case errors.As(recorded.Err, &still) && s.lookup != nil:
		return s.ask(ctx, &recorded.Standing)
	case errors.As(recorded.Err, &still):
		return nil, s.unknown(&recorded.Standing, still.Why, nil)
	case recorded.Err != nil:
		return nil, permanentAnswer(recorded.Err)
	case !recorded.Ours:
		return nil, errNotFirst
	}
	repeat := standing != nil && standing.State == nexjob.Intended
	return s.call(ctx, last, &recorded.Standing, repeat)
}

// permanentAnswer marks what the storage will always answer.
func permanentAnswer(err error) error {
	if errors.Is(err, nexjob.ErrInvalid) || errors.Is(err, nexjob.ErrEffectMismatch) {
		return Permanent(err)
	}
	return err
}

// call sends under a deadline before the lease's end and records what came of it.
// A repeat that was not sent says nothing of the sends before it.
func (s *sending) call(
	ctx context.Context, last time.Time, intent *nexjob.Receipt, repeat bool,
) (*nexjob.Receipt, error) {
	s.asked = time.Time{}
	limited, cancel := context.WithDeadlineCause(ctx, last, errSentLong)
	defer cancel()
	watched, trace := wire.Watch(limited)
	var value encoded
	var err error
	if ctx.Err() != nil {
		err = NotSent(context.Cause(ctx))
	} else if limited.Err() != nil {
		err = NotSent(errNoTime)
	} else if s.thawed(ctx, last) {
		err = NotSent(errThawed)
	} else if value, err = s.send(watched, intent.OutsideKey); err == nil {
		return s.confirm(ctx, intent, value)
	}
	var refused *refusedError
	switch {
	case errors.As(err, &refused) && !(refused.unsent && repeat),
		!errors.As(err, &refused) && !repeat && trace.NothingSent(err):
		return nil, s.refuse(ctx, intent, err)
	}
	return nil, s.unknown(intent, "it was sent, and what came of it is not known", err)
}

// thawed reports whether the machine has slept since the lease was granted or renewed.
// Its monotonic clock stood still meanwhile, so that a deadline reckoned before may lie
// ahead although the time is over, and another worker may be at the same effect. What is
// known of the storage's time is as old, so it is read again.
func (s *sending) thawed(ctx context.Context, last time.Time) bool {
	slept := s.run.worker.board.slept(last)
	if slept {
		s.run.worker.readClock(ctx)
	}
	return slept
}

// refuse records that the effect did not happen: a later try uses the next key. If
// that cannot be recorded, the outcome stays unknown to all others.
func (s *sending) refuse(ctx context.Context, intent *nexjob.Receipt, cause error) error {
	outcome := *intent
	outcome.State, outcome.Writer, outcome.Error = nexjob.Refused, s.run.attempt.lease, errorText(cause)
	recorded, err := s.run.recordOutcome(ctx, outcome)
	if err == nil {
		err = recorded.Err
	}
	if err != nil {
		return s.unknown(intent, "it was refused, but that could not be recorded", errors.Join(cause, err))
	}
	return cause
}

// confirm records that the effect happened. An answer that cannot be kept is left
// out: the effect must not be sent again because of it.
func (s *sending) confirm(ctx context.Context, intent *nexjob.Receipt, value encoded) (*nexjob.Receipt, error) {
	outcome := *intent
	outcome.State, outcome.Writer = nexjob.Confirmed, s.run.attempt.lease
	outcome.Value, outcome.Error = value.value, value.problem
	recorded, err := s.run.recordOutcome(ctx, outcome)
	if err == nil && errors.Is(recorded.Err, nexjob.ErrInvalid) && len(outcome.Value) > 0 {
		outcome.Value, outcome.Error = nil, recorded.Err.Error()
		recorded, err = s.run.recordOutcome(ctx, outcome)
	}
	if err == nil {
		err = recorded.Err
	}
	switch {
	case err != nil:
		return nil, s.unknown(intent, "it happened, but that could not be recorded", err)
	case !recorded.Ours:
		return nil, errNotFirst
	}
	return &recorded.Standing, nil
}

// ask looks up an effect whose outcome is not known. That it was not applied counts
// only if the question was asked after the newest send could no longer arrive: an
// answer that took long may be older than that.
func (s *sending) ask(ctx context.Context, standing *nexjob.Receipt) (*nexjob.Receipt, error) {
	s.asked = s.run.storageNow()
	value, verdict, err := s.lookup(ctx, standing.OutsideKey)
	switch {
	case err != nil:
		return nil, s.unknown(standing, "the look-up failed", err)
	case verdict == nexjob.Applied:
		return s.confirm(ctx, standing, value)
	case verdict == nexjob.NotApplied && s.early(standing):
		return nil, s.unknown(standing, "the look-up does not find it, but its newest send may still arrive", nil)
	case verdict == nexjob.NotApplied:
		return s.disprove(ctx, standing)
	case verdict != nexjob.StillUnknown:
		return nil, s.unknown(standing, fmt.Sprintf("the look-up answered %q, which only a person can", verdict), nil)
	}
	return nil, s.unknown(standing, "the look-up could not tell", nil)
}

// disprove records that the effect did not happen, and sends it again under the
// same key.
func (s *sending) disprove(ctx context.Context, standing *nexjob.Receipt) (*nexjob.Receipt, error) {
	outcome := *standing
	outcome.State, outcome.Writer, outcome.Error = nexjob.Disproved, s.run.attempt.lease, "look-up: not applied"
	recorded, err := s.run.record(ctx, outcome)
	if err == nil {
		err = recorded.Err
	}
	switch {
	case err != nil:
		return nil, s.unknown(standing, "it was not applied, but that could not be recorded", err)
	case !recorded.Ours:
		return nil, errNotFirst
	}
	return s.intend(ctx, standing.Turn, &recorded.Standing)
}

// unknown is the error of an effect whose outcome is not known. While the same
// request may be repeated under its key that is an error like others: the next try
// repeats it. Otherwise nothing but a look-up or a person can tell.
func (s *sending) unknown(standing *nexjob.Receipt, why string, err error) error {
	now := s.run.storageNow()
	asking := s.run.lookup && s.lookup != nil
	if err != nil && now.Before(standing.RepeatBefore()) && !asking {
		return err
	}
	unknown := &uncertainError{
		lookup: s.lookup != nil, err: err,
		still: &nexjob.StillUnknownError{Name: s.name, Item: s.item, Why: why},
	}
	switch {
	case s.asked.IsZero():
		unknown.after = firstLookup
	case s.early(standing):
		unknown.still.Until = standing.NotAppliedFrom()
		unknown.after = unknown.still.Until.Sub(now)
	default:
		unknown.asked, unknown.after = true, s.lookupAfter
	}
	s.run.remember(unknown)
	return unknown
}

// early reports whether the look-up was asked while the newest send could still arrive.
func (s *sending) early(standing *nexjob.Receipt) bool {
	return s.asked.Before(standing.NotAppliedFrom())
}
